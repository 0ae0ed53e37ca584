/** What is held, in the hands of the application. */

import type { Connection } from './connection.js';
import { HoldLost, type LostReason, Refused, Unreachable } from './errors.js';
import type { HeldPart, Resource } from './options.js';
import type { Granted } from './standing.js';
import { now } from './time.js';
import type { Grant } from './wire.js';

/**
 * What is held. It is renewed in the background until it is released, or its client closed: a hold that is forgotten is held
 * as long as the client lives, so use `withHold` or `await using`.
 */
export class Hold implements AsyncDisposable {
  readonly #connection: Connection;
  readonly #granted: Granted;
  #signal: AbortSignal | undefined;
  #done = false;

  /** @internal */
  constructor(connection: Connection, granted: Granted) {
    this.#connection = connection;
    this.#granted = granted;
  }

  /** The pool it is of; of several, the first that is no rate window. */
  get pool(): string {
    return this.#granted.grant.pool;
  }

  /** Whose pool that is. */
  get namespace(): string {
    return this.#granted.grant.namespace;
  }

  /**
   * Rises with every grant. What the hold protects should refuse a lower one than the highest it has seen; see
   * `tenure/fencing`.
   */
  get token(): number {
    return this.#granted.grant.token;
  }

  /** Secret: whoever has it may renew or release the hold. */
  get key(): string {
    return this.#granted.grant.key;
  }

  /** How many units, or how many resources. */
  get units(): number {
    return this.#granted.grant.units;
  }

  /** Which, if the pool is one of named resources. */
  get resources(): readonly Required<Resource>[] {
    return this.#granted.grant.resources;
  }

  /** Which, if it is just one. */
  get resource(): Required<Resource> {
    const [resource, ...others] = this.resources;
    if (resource === undefined || others.length > 0) {
      throw new RangeError(`this hold on pool \`${this.pool}\` is one of ${this.resources.length} named resources`);
    }
    return resource;
  }

  /** What it has of each of its pools, if it was asked for with `also`; else of its one pool. */
  get parts(): readonly HeldPart[] {
    const { grant } = this.#granted;
    return [grant, ...grant.also].map(({ pool, units, resources }) => ({ pool, units, resources }));
  }

  /** What it has of one of its pools. */
  part(pool: string): HeldPart {
    const found = this.parts.find((part) => part.pool === pool);
    if (found === undefined) {
      throw new RangeError(`this hold has nothing of pool \`${pool}\``);
    }
    return found;
  }

  /**
   * Is aborted when the hold is lost, with a {@link HoldLost} as its reason: give it to whatever has to stop then. Not when it
   * is released or kept.
   *
   * It is an event of the event loop, so one that is blocked hears of the loss when it goes on. {@link lost} and {@link check}
   * look at the clock.
   */
  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      const controller = new AbortController();
      this.#signal = controller.signal;
      this.#onLost((lost) => controller.abort(lost));
    }
    return this.#signal;
  }

  /**
   * How it was lost; undefined if it was not. Looks at the clock: also if this process was paused, or its event loop blocked,
   * and nothing else has noticed yet. `let_go` once it is released.
   */
  get lost(): LostReason | undefined {
    return this.#granted.standing.lost();
  }

  /** What the operator said who ended it. */
  get note(): string {
    return this.#granted.standing.note;
  }

  /**
   * For how many milliseconds the hold is certainly ours if nothing is heard of the server, counted from before it was asked;
   * undefined if it does not end by time.
   */
  get certainFor(): number | undefined {
    const { until } = this.#granted.standing;
    return until === undefined ? undefined : Math.max(0, until - now());
  }

  /**
   * Looks at the clock.
   *
   * @throws {@link HoldLost} The hold is lost.
   */
  check(): void {
    if (this.lost !== undefined) {
      throw this.#granted.standing.error(this.#granted.grant);
    }
  }

  /**
   * Ends the hold, and waits until the server has confirmed it. A place in a rate window cannot be given back, and is left to
   * end by itself.
   *
   * @throws {@link HoldLost} It was over already.
   * @throws {@link Unreachable} The server does not answer. It is told as soon as it does.
   */
  async release(): Promise<void> {
    if (this.#done) {
      return;
    }
    this.#done = true;
    const lost = this.lost;
    const { note } = this;
    try {
      await this.#connection.release(this.#granted.id);
    } catch (cause) {
      if (cause instanceof Refused && cause.code === 'not_held' && !(cause instanceof HoldLost)) {
        throw new HoldLost(this.pool, this.token, lost ?? 'released', note, { cause });
      }
      throw cause;
    }
  }

  /**
   * Gives up looking after the hold and not the hold, which goes on as long as its lifetime says: a lease is no longer renewed.
   * Gives the key: whoever has it may renew or release it.
   */
  keep(): string {
    if (!this.#done) {
      this.#done = true;
      this.#connection.keep(this.#granted.id);
    }
    return this.key;
  }

  /** At the end of an `await using`: as {@link release}, but a server that does not answer is told later, without a word. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release();
    } catch (error) {
      // The hold was good until now. The server is told as soon as it can be reached, or the lease ends it.
      if (!(error instanceof Unreachable)) {
        throw error;
      }
    }
  }

  /** For tests, which look behind the scenes. @internal */
  get grant(): Grant {
    return this.#granted.grant;
  }

  /** @internal */
  notify(callback: (lost: HoldLost) => void): void {
    // Outside, so that whatever it throws is nobody else's trouble.
    this.#onLost((lost) => queueMicrotask(() => callback(lost)));
  }

  /** @internal */
  async during<Result>(body: (hold: this) => Result | PromiseLike<Result>): Promise<Result> {
    let result: Result;
    try {
      result = await body(this);
    } catch (error) {
      const lost = await this[Symbol.asyncDispose]().catch((reason: unknown) => reason);
      throw lost instanceof HoldLost && this.#isBecauseOfLoss(error) ? lost : error;
    }
    await this[Symbol.asyncDispose]();
    return result;
  }

  /** Whether a function failed because it was told to stop by the signal. */
  #isBecauseOfLoss(error: unknown): boolean {
    const reason: unknown = this.#signal?.aborted ? this.#signal.reason : undefined;
    return reason !== undefined && (error === reason || (error instanceof Error && error.cause === reason));
  }

  #onLost(tell: (lost: HoldLost) => void): void {
    const { standing, grant } = this.#granted;
    standing.listen(({ reason }) => {
      if (reason !== undefined && reason !== 'let_go') {
        tell(standing.error(grant));
      }
    });
  }
}

/** A place in a rate window, until it ends by itself. */
export interface Place {
  readonly pool: string;
  readonly token: number;
  readonly units: number;
  /** For how many milliseconds the place was certainly taken when it was granted. */
  readonly certainFor: number;
}
