/** What is held, as it is at hand and as it travels to the next run. */

/** A named thing in a pool. */
export interface Resource {
  readonly name: string;
  /** What it was chosen by. */
  readonly labels?: Readonly<Record<string, string>>;
  /** What whoever gets it is told. */
  readonly properties?: Readonly<Record<string, string>>;
}

/**
 * A hold on its way to the next run of its workflow: a plain value, for the arguments of `continueAsNew`. Whoever has its
 * key can end the hold, so it should not be shown around. Its fields are named as on the wire.
 */
export interface DetachedHold {
  readonly namespace: string;
  readonly pool: string;
  readonly token: number;
  readonly key: string;
  readonly units: number;
  readonly resources?: readonly Resource[];
  readonly lifetime: string;
  readonly ttl_ms?: number;
  readonly task_queue: string;
}

/** What is held. */
export class Hold {
  readonly #grant: DetachedHold;
  #detached = false;

  /** @internal */
  constructor(grant: DetachedHold) {
    this.#grant = grant;
  }

  get pool(): string {
    return this.#grant.pool;
  }

  get namespace(): string {
    return this.#grant.namespace;
  }

  /** Rises with every grant. What the hold protects should refuse a lower one than the highest it has seen. */
  get token(): number {
    return this.#grant.token;
  }

  /** Secret: whoever has it may release the hold. */
  get key(): string {
    return this.#grant.key;
  }

  /** How many units, or how many resources. */
  get units(): number {
    return this.#grant.units;
  }

  /** Which, if the pool is one of named resources. */
  get resources(): readonly Resource[] {
    return this.#grant.resources ?? [];
  }

  /** Which, if it is just one. */
  get resource(): Resource {
    const [resource, ...others] = this.resources;
    if (resource === undefined || others.length > 0) {
      throw new RangeError(`this hold on pool \`${this.pool}\` is one of ${this.resources.length} named resources`);
    }
    return resource;
  }

  /**
   * Leaves the hold to the next run: its function no longer gives it back. See {@link reattach}.
   *
   * ```ts
   * await continueAsNew<typeof myWorkflow>({ held: hold.detach() });
   * ```
   *
   * If nobody goes on with it, it ends when the workflow has closed.
   */
  detach(): DetachedHold {
    this.#detached = true;
    return this.#grant;
  }

  /** Whether it was left to the next run. */
  get detached(): boolean {
    return this.#detached;
  }
}
