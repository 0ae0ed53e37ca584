/** What can be said of a client and of a request, and what the wire makes of it. */

import { hostname, userInfo } from 'node:os';
import process from 'node:process';

import type { Init } from './codec.js';
import type { Deadlock, HoldLost } from './errors.js';
import { type Duration, milliseconds, wholeMilliseconds } from './time.js';
import type { AcquireRequest, Lifetime, Part as WirePart, PoolSpec, Resource as WireResource } from './wire.js';

/** What a hold lasts for if nothing is said. */
const TTL_DEFAULT = 30_000;

/** How a client connects, and as whom. */
export interface ClientOptions {
  /** Who asks, as others see it; `user@host:pid` if left out. */
  holder?: string;
  /** More about the holder, such as a host or a reason. */
  meta?: Readonly<Record<string, string>>;
  /** The team's namespace; `default` if left out. */
  namespace?: string;
  /** How long the session outlives its connection; 30 s if left out. */
  sessionGrace?: Duration;
  /** How long an attempt to connect may take; 5 s if left out. */
  connectTimeout?: Duration;
  /** What the server wants to hear. */
  password?: string;
  /** The same from a file, which is read for every connection that is made: it may be replaced while the client lives. */
  passwordFile?: string;
  /**
   * The certificate of the authority that the server's is signed by, in PEM form; Node's authorities if left out. An address
   * without a scheme is then spoken to in TLS.
   */
  tlsCa?: string | Uint8Array;
  /** The same from a file. */
  tlsCaFile?: string;
  /**
   * A certificate of this client's own and its private key, in PEM form, for servers that want to see one. An address without
   * a scheme is then spoken to in TLS.
   */
  tlsIdentity?: readonly [certificate: string | Uint8Array, key: string | Uint8Array];
  /** The same from two files. */
  tlsIdentityFiles?: readonly [certificate: string, key: string];
}

/** What is asked of a pool, if it is not to be waited for. */
export interface TryHoldOptions {
  /** How many units or resources; 1 if left out. */
  units?: number;
  /** Everything there is: the writer of a read-write lock. */
  all?: boolean;
  /** Which resources of a pool of named ones: `gpu && mem >= 80 && !old`. */
  select?: string;
  /** The size the pool must have; a pool that is not known comes to be with it, 1 if left out. */
  size?: number;
  /** Resources that have to be cleaned, in order to clean them: releasing them returns them clean. */
  dirty?: boolean;
  /**
   * Something of further pools too, at most 15: all of it is granted together, as one hold with one token, or none of it. A
   * name alone is one unit of that pool. A place in a rate window ends by itself all the same.
   */
  also?: readonly (Part | string)[];
  /** A lease of this length, renewed at a third of it in the background; 30 s if nothing else is said. */
  ttl?: Duration;
  /**
   * A hold that lives as long as this client's session: it outlives a lost connection by the session's grace. With `ttl` also
   * no longer than that from one renewal to the next.
   */
  untilSessionEnds?: boolean;
  /** A hold that ends only by its release, whatever becomes of this process. */
  kept?: boolean;
  /** A hold that ends when somebody says that this outside owner is gone. */
  owner?: string;
  /** Who asks, if not the client's holder. */
  holder?: string;
  /** More about the holder, instead of what the client says about it. */
  meta?: Readonly<Record<string, string>>;
  /**
   * An id of your own, under which another process could ask for the same hold. If left out, a random one is made for every
   * request, which already makes it safe to lose the connection. Should be as hard to guess as a key.
   */
  requestId?: string;
  /** Called when the hold is lost, and not when it is released or kept. */
  onLost?: (lost: HoldLost) => void;
  /** Ends the wait: the request leaves the queue, and the reason of the signal is thrown. */
  signal?: AbortSignal;
}

/** What is asked of one more pool; see `also` of the options. */
export interface Part {
  pool: string;
  /** How many units or resources; 1 if left out. */
  units?: number;
  /** Everything there is. */
  all?: boolean;
  /** Which resources of a pool of named ones. */
  select?: string;
  /** The size the pool must have; a pool that is not known comes to be with it. */
  size?: number;
}

/** What is asked of a pool. */
export interface HoldOptions extends TryHoldOptions {
  /**
   * Says that the holder, under whose id nobody else works, lets go of nothing it holds while this waits. Then a wait that could
   * never end, because others wait for what the holder has, throws {@link Deadlock} at once.
   */
  holdsOn?: boolean;
  /** How long to wait for room at most; for ever if left out, not at all if 0. */
  wait?: Duration;
  /** Higher first, from -1000 to 1000. */
  priority?: number;
  /** Called with the place in the queue if the request has to wait, and again after a reconnect. */
  onQueued?: (position: number) => void;
}

/** A place in a rate window. */
export interface RateOptions {
  /** How many places there are in any time of length `per`. */
  limit: number;
  per: Duration;
  /** How many places to take; 1 if left out. */
  units?: number;
  /** How long to wait for one at most; for ever if left out, not at all if 0. */
  wait?: Duration;
  priority?: number;
  holder?: string;
  /** Ends the wait. */
  signal?: AbortSignal;
}

/** A named thing in a pool. */
export interface Resource {
  readonly name: string;
  /** To choose by. An empty value is a flag. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Told to whoever is granted it. */
  readonly properties?: Readonly<Record<string, string>>;
}

/** What a hold has of one pool. */
export interface HeldPart {
  readonly pool: string;
  /** How many units, or how many resources. */
  readonly units: number;
  /** Which, if the pool is one of named resources. */
  readonly resources: readonly Required<Resource>[];
}

/** What a pool is meant to be. Either `units`, or `resources`. */
export interface PoolOptions {
  /** How many anonymous units. */
  units?: number;
  /** The named resources, all of them: those left out leave the pool when they are let go. */
  resources?: Iterable<Resource | string>;
  /** Which free resource is granted; the first declared if left out. */
  placement?: 'first' | 'least_recently_used' | 'most_recently_used' | 'random' | 'spread';
  /** For the placement `spread`: the label to spread by. */
  spreadLabel?: string;
  /** Who may be served while the head of the queue cannot be; strict if left out. */
  order?: 'strict' | 'backfill';
  /** Makes it a rate window: every hold lasts exactly this long. */
  window?: Duration;
  /**
   * Only for named resources: what was held is dirty, and handed out again only when somebody has held it with `dirty` and
   * released it.
   */
  cleaning?: boolean;
  /** Groups waiters of the same priority by this piece of their metadata, or by `holder`, and serves the groups in turn. */
  fair?: string;
  /** With `fair`: how often a group is served for once of the others, from 1 to 1000; those left out weigh 1. */
  weights?: Readonly<Record<string, number>>;
  /** Only for named resources: a script that scores a free resource for a request. See docs/placement.md. */
  placeBy?: string;
  /** A script that scores somebody who waits; needs the order `backfill`. */
  orderBy?: string;
}

/** A request with what is not the server's business. @internal */
export interface Asked {
  readonly request: Init<AcquireRequest>;
  readonly wait: number | undefined;
  readonly onQueued: ((position: number) => void) | undefined;
  readonly onLost: ((lost: HoldLost) => void) | undefined;
  readonly signal: AbortSignal | undefined;
}

/** @internal */
export function asked(pool: string, options: HoldOptions & { window?: Duration }): Asked {
  const { units, all = false, select, size, dirty, ttl, untilSessionEnds = false, kept = false, owner, window } = options;
  const { priority, holder, meta, holdsOn, requestId, onQueued, onLost, signal } = options;
  const also = (options.also ?? []).map((part): Init<WirePart> => (typeof part === 'string' ? { pool: part } : part));
  const lifetimes = [untilSessionEnds, kept, owner !== undefined, window !== undefined].filter(Boolean).length;
  if (lifetimes > 1 || (ttl !== undefined && lifetimes > 0 && !untilSessionEnds)) {
    throw new TypeError('a hold has one lifetime: ttl, untilSessionEnds, kept, owner or window');
  }
  if ([{ all, units }, ...also].some((part) => part.all && part.units !== undefined)) {
    throw new TypeError('units and all cannot both be given');
  }
  let lifetime: Lifetime = 'leased';
  let length: Duration | undefined = ttl ?? TTL_DEFAULT;
  if (untilSessionEnds) {
    [lifetime, length] = ['session', ttl];
  } else if (kept) {
    [lifetime, length] = ['kept', undefined];
  } else if (owner !== undefined) {
    [lifetime, length] = ['bound', undefined];
  } else if (window !== undefined) {
    [lifetime, length] = ['window', window];
  }
  const wait = options.wait === undefined ? undefined : milliseconds(options.wait);
  const request: Init<AcquireRequest> = {
    pool,
    units,
    all,
    select,
    size,
    lifetime,
    ttlMs: length === undefined ? undefined : wholeMilliseconds(length),
    owner,
    waitMs: wait ? wholeMilliseconds(wait) : undefined,
    waitForever: wait === undefined,
    priority,
    holder,
    meta,
    requestId,
    also,
    holdsOn,
    dirty,
  };
  return { request, wait, onQueued, onLost, signal };
}

/** @internal */
export function poolSpec(options: PoolOptions): Init<PoolSpec> {
  const { units, resources, placement, spreadLabel, order, window, cleaning, fair, weights = {}, placeBy, orderBy } = options;
  const weighed = Object.entries(weights).map(([key, value]) => ({ key, value }));
  if (weighed.length > 0 && fair === undefined) {
    throw new TypeError('weights are of groups: say with fair what makes one');
  }
  const named = [...(resources ?? [])].map((it): Init<WireResource> => (typeof it === 'string' ? { name: it } : it));
  return {
    units,
    resources: named,
    named: resources !== undefined,
    placement,
    spreadLabel,
    order,
    windowMs: window === undefined ? undefined : wholeMilliseconds(window),
    cleaning,
    fair: fair === undefined ? undefined : { by: fair, weights: weighed },
    scripts: placeBy === undefined && orderBy === undefined ? undefined : { place: placeBy, order: orderBy },
  };
}

/** Who this process is to others if it does not say: `user@host:pid`. @internal */
export function defaultHolder(): string {
  let user = '';
  try {
    user = userInfo().username;
  } catch {
    // A user without a name, as in some containers.
  }
  // Names of holders have a limit on the server; a made-up one keeps well below it.
  const part = (text: string, otherwise: string) => text.replace(/\p{C}/gu, '').slice(0, 64) || otherwise;
  return `${part(user, 'somebody')}@${part(hostname(), 'localhost')}:${process.pid}`;
}
