/**
 * The protected side: refuses a holder that was paused for longer than its lease and comes too late.
 *
 * ```ts
 * const fence = new Fence();
 *
 * function write(report: string, token: number): void {
 *   fence.check('nightly-report', token);
 *   // …
 * }
 * ```
 *
 * A process can be stopped for longer than its lease lasts, and wake up believing that it still holds. No lock service can
 * prevent that; whatever the hold protects can, by remembering the highest token it has seen.
 *
 * @module
 */

/** Somebody came with a lower token than another before: their hold is over, and what they want to do is not to be done. */
export class StaleToken extends Error {
  override name = 'StaleToken';
  /** A stable name for programs. */
  readonly code = 'stale_token';

  constructor(
    readonly resource: string,
    readonly token: number,
    readonly highest: number,
  ) {
    super(`token ${token} for \`${resource}\` is stale: ${highest} was here before`);
  }
}

/**
 * Remembers the highest token for each name, and refuses lower ones.
 *
 * Check before reading what will be written back, too: otherwise a late write may come between another's read and write, and
 * be lost. Check and write must be one step for others: do not await between them, or use a store that can compare and set,
 * with the token beside what is protected.
 */
export class Fence {
  readonly #highest: Pick<Map<string, number>, 'get' | 'set'>;

  /** With a map that outlives the process, so does what was seen. */
  constructor(highest: Pick<Map<string, number>, 'get' | 'set'> = new Map<string, number>()) {
    this.#highest = highest;
  }

  /**
   * Lets the token pass and remembers it.
   *
   * @throws {@link StaleToken} A higher one was here before.
   */
  check(name: string, token: number): void {
    // Whatever compares as false with everything would pass, and be the highest for ever.
    if (!Number.isSafeInteger(token) || token < 0) {
      throw new TypeError(`${String(token)} is not a token`);
    }
    const highest = this.#highest.get(name);
    if (highest !== undefined && token < highest) {
      throw new StaleToken(name, token, highest);
    }
    if (token !== highest) {
      this.#highest.set(name, token);
    }
  }

  /** The highest token that was seen, if any was. */
  highest(name: string): number | undefined {
    return this.#highest.get(name);
  }
}
