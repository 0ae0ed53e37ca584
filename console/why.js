// Why somebody waits, in a plain sentence, as it follows from what is known here of the pool, its holds and the queue. It is shown
// until the server's own sentences are there, which know more (`explain`).

import { stateWord, units } from "./parts.js";
import { moment, now, span } from "./time.js";

/** `ahead` is how many in the queue come before it; `holds` are those of the pool, oldest first. */
export function why(waiter, { pool, holds, ahead, head, order }) {
  if (waiter.away) return AWAY;
  if (pool.removing) return "The pool is being removed, and takes nobody any more.";
  if (stateWord(pool.condition) !== "in service") {
    const note = pool.condition.note ? ` (“${pool.condition.note}”)` : "";
    return `The pool is ${stateWord(pool.condition)}${note}: nobody is served until it is returned.`;
  }
  if (ahead > 0 && order !== "backfill") return `${behind(ahead, head)}${priority(waiter)}`;
  return `${capacity(waiter, pool, holds)}${ahead > 0 ? ` ${behind(ahead, head)}` : ""}`;
}

const AWAY = "Its connection is lost. It keeps its place, and is passed over until it comes back.";

function behind(ahead, head) {
  const next = head ? `; ${head.holder} is next` : "";
  return ahead === 1 ? `Waits behind one other${next}.` : `Waits behind ${ahead.toLocaleString()} others${next}.`;
}

function priority(waiter) {
  return waiter.priority ? ` Its priority is ${waiter.priority}.` : "";
}

function capacity(waiter, pool, holds) {
  const free = Math.max(0, pool.size - pool.used);
  if (pool.window_ms) {
    const next = soonest(holds);
    return `The window is full${next ? `: the next place comes free at ${moment(next.deadline_ms)}` : ""}.`;
  }
  const asked = waiter.all ? pool.size : (waiter.units ?? 1);
  if (waiter.select) {
    const room = free ? `${units(free, true)} free, but none that it can use` : "Nothing is free";
    return `Next. ${room}. ${due(holds)}`.trim();
  }
  if (free > 0) {
    const wanted = waiter.all ? "everything" : units(asked, pool.named);
    return `Next. Wants ${wanted}, and ${free} ${free === 1 ? "is" : "are"} free. ${due(holds)}`.trim();
  }
  return `Next. ${holders(holds)}`.trim();
}

/** Who is likely to let go first. */
function due(holds) {
  const next = soonest(holds);
  return next ? `${next.holder} is due first, at ${moment(next.deadline_ms)} unless renewed.` : "";
}

function holders(holds) {
  if (!holds.length) return "";
  if (holds.length === 1) {
    const [hold] = holds;
    const end = hold.deadline_ms ? `, until ${moment(hold.deadline_ms)} unless renewed` : "";
    return `${hold.holder} has held it for ${span(Math.max(0, now() - hold.since_ms))}${end}.`;
  }
  const who = `${holds.length.toLocaleString()} holders have all of it`;
  return soonest(holds) ? `${who}. ${due(holds)}` : `${who}; ${holds[0].holder} longest.`;
}

function soonest(holds) {
  let found = null;
  for (const hold of holds) if (hold.deadline_ms && !(found?.deadline_ms <= hold.deadline_ms)) found = hold;
  return found;
}
