// The queue of one pool, as far as it is loaded: read in pages from its head, and kept up with what is heard.

import { get, pool as poolPath } from "./api.js";

/** Those who wait, as far as they are loaded, in the order in which they are served. */
export class Queue {
  rows = [];
  more = false;
  next = undefined;
  loading = null;

  constructor(pool, signal) {
    Object.assign(this, { pool, signal });
  }

  head() {
    return this.rows.find((waiter) => !waiter.away) ?? null;
  }

  /** How many who are not away come before this row. */
  ahead(index) {
    const { position } = this.rows[index];
    // As told, corrected by those who have left since; among many it is counted from the start only while that is cheap.
    if (index > 2000 && position !== undefined) return Math.min(position - 1, index);
    let ahead = 0;
    for (let before = 0; before < index; before++) if (!this.rows[before].away) ahead++;
    return ahead;
  }

  async reload() {
    const wanted = Math.min(Math.max(this.rows.length, 1), 3000);
    const rows = [];
    let next;
    do {
      const page = await get(`${poolPath(this.pool)}/queue`, { limit: 1000, after: next }, this.signal);
      rows.push(...page.waiters.map(present));
      next = page.next;
    } while (next !== undefined && rows.length < wanted);
    [this.rows, this.next, this.more] = [rows, next, next !== undefined];
  }

  /** Loads on until this row is there. One at a time: each page begins where the one before ended. */
  load(last) {
    this.wanted = Math.max(this.wanted ?? 0, last);
    this.loading ??= this.loadOn().finally(() => {
      this.loading = null;
      this.wanted = 0;
    });
    return this.loading;
  }

  async loadOn() {
    while (this.more && this.rows.length < this.wanted) {
      const asked = this.next;
      const page = await get(`${poolPath(this.pool)}/queue`, { limit: 1000, after: asked }, this.signal);
      if (this.next !== asked) continue;
      this.rows.push(...page.waiters.map(present));
      this.next = page.next;
      this.more = page.next !== undefined;
    }
  }

  hear(event) {
    if (event.waiter === undefined) return;
    const at = this.rows.findIndex((waiter) => waiter.waiter === event.waiter);
    if (event.kind === "queued" && at < 0) this.insert({ ...event, also: event.waits_also, since_ms: event.at_ms, away: false });
    else if (at < 0) return;
    else if (event.kind === "granted" || event.kind === "wait_ended") this.rows.splice(at, 1);
    else if (event.kind === "waiter_away") this.rows[at] = { ...this.rows[at], away: true };
    else if (event.kind === "waiter_back") this.rows[at] = { ...this.rows[at], away: false };
  }

  insert(waiter) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(this.rows[middle], waiter)) low = middle + 1;
      else high = middle;
    }
    // Beyond what is loaded it comes with its page.
    if (low === this.rows.length && this.more) return;
    this.rows.splice(low, 0, waiter);
  }
}

const present = (waiter) => ({ ...waiter, away: waiter.position === undefined });

function isBefore(a, b) {
  const [first, second] = [a.priority ?? 0, b.priority ?? 0];
  return first !== second ? first > second : a.waiter < b.waiter;
}
