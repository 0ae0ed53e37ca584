// The server's sentences on why somebody waits, for the waiters in sight. They are asked for anew when the pool has changed, and
// now and then besides, because they tell how long things will last.

import { get, pool as poolPath } from "./api.js";
import { h, show } from "./dom.js";
import { sentences as whole } from "./parts.js";

/** The server explains so many at the head of a queue at once; those further back one by one. */
const HEAD_MAX = 100;
const TOGETHER = 4;
const PAUSE = 300;
/** Asking may take this part of the time, so that a server at work is not kept from it. */
const SHARE = 4;
const KEEPS = 15_000;

export class Explained {
  /** `changed` is called when there is something new to show. */
  constructor(pool, signal, changed) {
    Object.assign(this, { pool, signal, changed });
    this.told = new Map();
    this.sight = [];
    [this.round, this.timer, this.asking, this.took] = [1, 0, false, 0];
  }

  /** The sentences that the server said, if it has. */
  of(waiter) {
    return this.told.get(waiter.waiter)?.sentences ?? null;
  }

  /** These are in sight: `index` is the place of the first of them in the queue. */
  see(waiters, index) {
    this.sight = waiters.map((waiter, at) => ({ waiter: waiter.waiter, index: index + at }));
    if (this.missing().length) this.schedule();
  }

  /** What was said may be so no longer. */
  stale() {
    this.round++;
    this.schedule();
  }

  end() {
    clearTimeout(this.timer);
  }

  /** All that the server said about one, where a row has no room for it. */
  tell(waiter, sentences) {
    const dialog = document.getElementById("dialog");
    const title = `Why ${waiter.holder} waits for “${this.pool}”`;
    show(dialog);
    show(
      dialog,
      h(
        "form",
        { method: "dialog" },
        h("h2", null, title),
        h("ul", { class: "sentences" }, sentences.map((sentence) => h("li", null, sentence))),
        h("div", { class: "buttons" }, h("button", { class: "solid" }, "Close")),
      ),
    );
    dialog.setAttribute("aria-label", title);
    dialog.showModal();
    dialog.querySelector("button").focus();
  }

  missing() {
    const until = Date.now() - KEEPS;
    return this.sight.filter(({ waiter }) => {
      const told = this.told.get(waiter);
      return !told || told.round < this.round || told.at < until;
    });
  }

  schedule() {
    if (this.signal.aborted || this.asking) return;
    this.timer ||= setTimeout(() => this.ask(), Math.max(this.told.size ? PAUSE : 0, SHARE * this.took));
  }

  async ask() {
    [this.timer, this.asking] = [0, true];
    const [begun, round, wanted] = [Date.now(), this.round, this.missing()];
    // Those who are out of sight are asked about when they come back.
    const inSight = new Set(this.sight.map(({ waiter }) => waiter));
    for (const waiter of this.told.keys()) if (!inSight.has(waiter)) this.told.delete(waiter);
    const head = wanted.filter(({ index }) => index < HEAD_MAX);
    const rest = wanted.filter(({ index }) => index >= HEAD_MAX);
    if (head.length) await this.learn({ limit: head.at(-1).index + 1 }, head, round);
    for (let at = 0; at < rest.length && !this.signal.aborted; at += TOGETHER) {
      await Promise.all(rest.slice(at, at + TOGETHER).map((one) => this.learn({ waiter: one.waiter }, [one], round)));
    }
    [this.asking, this.took] = [false, Date.now() - begun];
    if (this.signal.aborted) return;
    if (wanted.length) this.changed();
    if (this.round !== round) this.schedule();
  }

  async learn(query, wanted, round) {
    let found = [];
    try {
      found = (await get(`${poolPath(this.pool)}/explain`, query, this.signal)).waiters;
    } catch {
      // It waits no longer, or the server is away; what is shown follows from what is known here.
    }
    const at = Date.now();
    const told = new Map(found.map(({ waiter, sentences }) => [waiter.waiter, sentences.map((sentence) => whole(sentence))]));
    for (const { waiter } of wanted) this.told.set(waiter, { sentences: told.get(waiter) ?? null, round, at });
  }
}

/** For a row, which shows already what the first sentence says: who waits, for what, since when. */
export const text = (sentences) => sentences.slice(1).join(" ");
