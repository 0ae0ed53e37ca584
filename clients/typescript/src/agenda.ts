/** What is due when: a heap. What is no longer due at that time is left in it, and passed over. */

/** Something that may be due, at one time or another. */
export interface Due {
  due: number | undefined;
}

export class Agenda<T extends Due> {
  #heap: { at: number; what: T }[] = [];

  add(at: number, what: T, current: number): void {
    this.#heap.push({ at, what });
    this.#up(this.#heap.length - 1);
    // Most holds end long before they would be renewed.
    if (this.#heap.length > 1_000 + 4 * current) {
      this.#heap = this.#heap.filter((entry) => entry.what.due === entry.at).sort((one, other) => one.at - other.at);
    }
  }

  /** When something is due next. */
  next(): number | undefined {
    while (this.#heap[0] !== undefined && this.#heap[0].what.due !== this.#heap[0].at) {
      this.#pop();
    }
    return this.#heap[0]?.at;
  }

  /** Takes out what is due by now; undefined if nothing is. */
  take(now: number): T | undefined {
    const next = this.next();
    return next !== undefined && next <= now ? this.#pop()?.what : undefined;
  }

  #pop(): { at: number; what: T } | undefined {
    const first = this.#heap[0];
    const last = this.#heap.pop();
    if (last !== undefined && this.#heap.length > 0) {
      this.#heap[0] = last;
      this.#down();
    }
    return first;
  }

  #up(from: number): void {
    for (let at = from; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.#swapIfLater(parent, at)) {
        return;
      }
      at = parent;
    }
  }

  #down(): void {
    for (let at = 0; ; ) {
      const [left, right] = [this.#heap[2 * at + 1], this.#heap[2 * at + 2]];
      const child = right !== undefined && left !== undefined && right.at < left.at ? 2 * at + 2 : 2 * at + 1;
      if (left === undefined || !this.#swapIfLater(at, child)) {
        return;
      }
      at = child;
    }
  }

  #swapIfLater(parent: number, child: number): boolean {
    const [upper, lower] = [this.#heap[parent], this.#heap[child]];
    if (upper === undefined || lower === undefined || upper.at <= lower.at) {
      return false;
    }
    this.#heap[parent] = lower;
    this.#heap[child] = upper;
    return true;
  }
}
