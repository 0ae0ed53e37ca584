/** The client: one session over one connection for any number of tasks. */

import { setTimeout as sleep } from 'node:timers/promises';

import { Access } from './access.js';
import { parseAddress } from './address.js';
import { Api } from './api.js';
import { Calls } from './calls.js';
import type { Init } from './codec.js';
import { Connection } from './connection.js';
import { ClosedError, Refused, type TenureError, Unreachable } from './errors.js';
import { Hold, type Place } from './hold.js';
import { Target } from './link.js';
import {
  type Asked,
  type ClientOptions,
  type HoldOptions,
  type PoolOptions,
  type RateOptions,
  type TryHoldOptions,
  asked,
  defaultHolder,
  poolSpec,
} from './options.js';
import type { Identity } from './session.js';
import { milliseconds, now, pause } from './time.js';
import type { Event, Hold as HoldShown, WatchRequest } from './wire.js';

/** A function that runs while something is held. */
export type Body<Result> = (hold: Hold) => Result | PromiseLike<Result>;

/** What to watch; everything in the namespace if nothing is said. */
export interface WatchOptions {
  /** Only what concerns this pool. */
  pool?: string;
  /** Only what concerns this holder. */
  holder?: string;
  /** Everything after the event of this number; only what happens from now on if left out. */
  after?: number;
  /** Ends the watch, and its reason is thrown. */
  signal?: AbortSignal;
}

/**
 * A connection to a server, with a session, for any number of tasks.
 *
 * ```ts
 * await using client = new Client('127.0.0.1:3144');
 * await client.withHold('nightly-report', { ttl: '30s' }, async (h) => {
 *   await writeReport(h.token, h.signal);
 * });
 * ```
 *
 * It connects when it is first used, or by {@link connect}. A connection that breaks is mended by itself: holds and places in
 * queues survive it, and a restart of the server, as long as the session's grace and the leases last. It keeps the process
 * alive until it is closed.
 *
 * Leases are renewed by the event loop this is used on. One that is blocked renews nothing: a hold whose lease runs out
 * meanwhile is lost, and known to be lost as soon as the loop goes on. Take a `ttl` that is longer than anything that blocks.
 */
export class Client implements AsyncDisposable {
  /** Every call of the server with its own messages, over a connection of its own and without a session. */
  readonly api: Api;
  readonly #target: Target;
  readonly #identity: Identity;
  readonly #calls: Calls;
  #connection: Connection | undefined;
  #connecting: Promise<Connection> | undefined;
  #closed = false;

  /**
   * The address is `host:port`, `host` (port 3144), `http://host:port` or, to speak TLS, `https://host:port`.
   *
   * @throws {@link Unusable} That is no address.
   */
  constructor(address: string, options: ClientOptions = {}) {
    const { holder = defaultHolder(), meta = {}, namespace = '', sessionGrace = '30s', connectTimeout = '5s' } = options;
    this.#target = new Target(parseAddress(address), new Access(options), milliseconds(connectTimeout));
    const grace = milliseconds(sessionGrace);
    this.#identity = { address, holder, meta, namespace, grace, connectTimeout: this.#target.connectTimeout };
    this.#calls = new Calls(this.#target);
    this.api = new Api((name, request, question, answer, given) => {
      const named = request.namespace || !namespace ? request : { ...request, namespace };
      return this.#calls.call(name, named as typeof request, question, answer, given);
    });
  }

  /**
   * Connects and opens the session, if that is not so yet.
   *
   * @throws {@link Unreachable} Nobody listens there, or does not answer within `connectTimeout`.
   * @throws {@link ForeignServer} Somebody else does, or a server of another version.
   * @throws {@link Unauthenticated} The server wants a password, or another one.
   * @throws {@link Unusable} The password or the certificates cannot be used.
   */
  async connect(): Promise<this> {
    await this.#connected();
    return this;
  }

  /**
   * Waits in the pool's queue, and holds until {@link Hold.release}, the end of an `await using`, or the client's.
   *
   * A pool that nobody declared comes to be: any name is a mutex, with `size` it is a semaphore. With `also` it is a hold over
   * several pools, all or nothing.
   *
   * @throws {@link WaitTimedOut} There was no room for as long as `wait` says.
   * @throws {@link Deadlock} With `holdsOn`: the wait could never end.
   * @throws {@link Refused} The server would not do it, and says why.
   */
  hold(pool: string, options: HoldOptions = {}): Promise<Hold> {
    return this.#acquire(() => asked(pool, options));
  }

  /**
   * Waits in the pool's queue, holds while the function runs, and gives back.
   *
   * If the hold is lost, the function's `h.signal` is aborted and this throws {@link HoldLost} at its end, unless the function
   * itself failed for another reason.
   */
  withHold<Result>(pool: string, body: Body<Result>): Promise<Result>;
  withHold<Result>(pool: string, options: HoldOptions, body: Body<Result>): Promise<Result>;
  async withHold<Result>(pool: string, ...rest: [Body<Result>] | [HoldOptions, Body<Result>]): Promise<Result> {
    const [options, body] = rest.length === 1 ? [{}, rest[0]] : rest;
    const hold = await this.hold(pool, options);
    return hold.during(body);
  }

  /**
   * As {@link hold} or, with a function, as {@link withHold}, but does not wait.
   *
   * @throws {@link Busy} There is no room right now. The function is not called.
   */
  tryHold(pool: string, options?: TryHoldOptions): Promise<Hold>;
  tryHold<Result>(pool: string, body: Body<Result>): Promise<Result>;
  tryHold<Result>(pool: string, options: TryHoldOptions, body: Body<Result>): Promise<Result>;
  async tryHold<Result>(
    pool: string,
    first: TryHoldOptions | Body<Result> = {},
    second?: Body<Result>,
  ): Promise<Result | Hold> {
    const [options, body] = typeof first === 'function' ? [{}, first] : [first, second];
    const hold = await this.hold(pool, { ...options, wait: 0 });
    return body === undefined ? hold : hold.during(body);
  }

  /**
   * Waits to become the leader, and leads until the hold is released or, with a function, while that runs. `h.token` is the
   * number of the term.
   *
   * Leadership lives as long as this client's session: it outlives a lost connection by the session's grace.
   */
  elect(pool: string, options?: HoldOptions): Promise<Hold>;
  elect<Result>(pool: string, body: Body<Result>): Promise<Result>;
  elect<Result>(pool: string, options: HoldOptions, body: Body<Result>): Promise<Result>;
  async elect<Result>(
    pool: string,
    first: HoldOptions | Body<Result> = {},
    second?: Body<Result>,
  ): Promise<Result | Hold> {
    const [options, body] = typeof first === 'function' ? [{} as HoldOptions, first] : [first, second];
    const { ttl, kept, owner } = options;
    const isSaid = ttl !== undefined || kept !== undefined || owner !== undefined;
    const hold = await this.hold(pool, isSaid ? options : { ...options, untilSessionEnds: true });
    return body === undefined ? hold : hold.during(body);
  }

  /** Who leads now, if anybody: its `holder`, `meta` and `token`. */
  async leader(pool: string): Promise<HoldShown | undefined> {
    try {
      const { holds } = await this.api.listHolds({ pool, limit: 1 });
      return holds[0];
    } catch (error) {
      if (error instanceof Refused && error.code === 'unknown_pool') {
        return undefined;
      }
      throw error;
    }
  }

  /**
   * Takes a place in a rate window: at most `limit` of them in any time of length `per`. Waits for it; with `wait: 0` it does
   * not, and throws {@link Busy}. A place ends by itself, and cannot be given back.
   */
  async rate(pool: string, { limit, per, ...options }: RateOptions): Promise<Place> {
    const hold = await this.#acquire(() => asked(pool, { ...options, size: limit, window: per }));
    const { token, units, certainFor = 0 } = hold;
    hold.keep();
    return { pool, token, units, certainFor };
  }

  /**
   * What happens, as it does, to one pool or holder or in the whole namespace. Goes on by itself after a lost connection,
   * without a gap.
   *
   * @throws {@link Refused} `events_gone`, if those events are no longer kept.
   */
  async *watch({ pool, holder, after, signal }: WatchOptions = {}): AsyncGenerator<Event, never, undefined> {
    const { namespace } = this.#identity;
    let request: Init<WatchRequest> = { namespace, pool, holder, after };
    for (let failures = 1; !this.#closed; failures += 1) {
      try {
        for await (const { seq, event } of this.#calls.watch(request, signal)) {
          failures = 0;
          request = { ...request, after: seq };
          if (event !== undefined) {
            yield event;
          }
        }
      } catch (error) {
        if (this.#closed || !(error instanceof Unreachable)) {
          throw error;
        }
      }
      await sleep(pause(failures, 50, 2_000), undefined, { signal }).catch(() => signal?.throwIfAborted());
    }
    throw new ClosedError();
  }

  /** Declares a pool, or changes it. No hold is dropped: what is too much drains. Says whether it had to be made. */
  async setPool(pool: string, options: PoolOptions): Promise<boolean> {
    const { created } = await this.api.setPool({ pool, spec: poolSpec(options) });
    return created;
  }

  /** Who asks, unless a request says otherwise. */
  get holder(): string {
    return this.#identity.holder;
  }

  /** Where the server is, as it was given. */
  get address(): string {
    return this.#identity.address;
  }

  /** Why there is no connection to the server just now, although one is being made; undefined if there is one. */
  get trouble(): TenureError | undefined {
    return this.#connection?.trouble;
  }

  /**
   * Ends the session in good order: waits end with {@link ClosedError}, what is held is released, and lost as `closed`. Places
   * in rate windows go on until they end by themselves.
   *
   * @throws {@link Unreachable} The server could not be told; what was held ends with its lease or the session's grace.
   */
  async close(): Promise<void> {
    this.#closed = true;
    this.#calls.close();
    const connection = this.#connection ?? (await this.#connecting?.catch(() => undefined));
    await connection?.close();
  }

  /** As {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** For tests, which look behind the scenes. @internal */
  get connection(): Connection | undefined {
    return this.#connection;
  }

  async #connected(): Promise<Connection> {
    if (this.#closed) {
      throw new ClosedError();
    }
    if (this.#connection !== undefined && !this.#connection.session.isOver) {
      return this.#connection;
    }
    // One attempt for all who wait for it.
    this.#connecting ??= this.#connect().finally(() => (this.#connecting = undefined));
    return this.#connecting;
  }

  async #connect(): Promise<Connection> {
    const connection = new Connection(this.#target, { ...this.#identity });
    await connection.connect();
    this.#connection = connection;
    return connection;
  }

  async #acquire(ask: () => Asked): Promise<Hold> {
    return this.acquire(ask());
  }

  /** @internal */
  async acquire({ request, wait, onQueued, onLost, signal }: Asked): Promise<Hold> {
    signal?.throwIfAborted();
    const end = wait ? now() + wait : undefined;
    const connection = await this.#connected();
    signal?.throwIfAborted();
    const hold = await new Promise<Hold>((resolve, reject) => {
      let id = 0;
      const stop = () => {
        connection.forget(id);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener('abort', stop, { once: true });
      const queued = onQueued && ((position: number) => queueMicrotask(() => onQueued(position)));
      id = connection.ask({
        request,
        wait,
        end,
        queued,
        granted: (granted) => {
          signal?.removeEventListener('abort', stop);
          resolve(new Hold(connection, granted));
        },
        failed: (error) => {
          signal?.removeEventListener('abort', stop);
          reject(error);
        },
      });
    });
    if (onLost !== undefined) {
      hold.notify(onLost);
    }
    return hold;
  }
}
