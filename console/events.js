// What happened, as a sentence with links.

import { h } from "./dom.js";
import { also, at, holderLink, labels, poolLink, units, wants } from "./parts.js";
import { length, span } from "./time.js";

/** Kinds that can be asked for, in the order in which they happen to a request. */
export const KINDS = {
  queued: "began to wait",
  granted: "was granted",
  renewed: "was renewed",
  ended: "a hold ended",
  wait_ended: "gave up waiting",
  waiter_away: "lost its connection while waiting",
  waiter_back: "came back to wait",
  waiter_moved: "was moved in the queue",
  reserved: "resource reserved",
  reservation_ended: "reservation ended",
  policy_failed: "script of a pool failed",
  pool_set: "pool declared or changed",
  condition_set: "drained, quarantined, returned",
  pool_removing: "pool is being removed",
  pool_gone: "pool is gone",
  session_opened: "session opened",
  session_attached: "session connected",
  session_detached: "session lost its connection",
  session_ended: "session ended",
};

const ENDED = {
  released: "released",
  expired: "over at its deadline",
  session_ended: "ended with its session",
  owner_gone: "ended with its owner",
  forced: "released by force",
  stolen: "given to another by force",
  withdrawn: "withdrawn",
  unreceived: "taken back, because nobody was there to get it",
};

const WAIT_ENDED = {
  timed_out: "waited as long as it would",
  withdrawn: "withdrew",
  session_ended: "left with its session",
  owner_gone: "left with its owner",
  caller_gone: "hung up",
  never_fits: "can never be served since the pool was changed",
  pool_removed: "left because the pool was removed",
};

const who = (event) => (event.holder ? holderLink(event.holder) : "somebody");
const pool = (event) => (event.pool ? poolLink(event.pool) : "a pool");
const session = (event) => `session ${event.session}`;

const SENTENCES = {
  queued: (event) => [who(event), " began to wait for ", wants(event), " of ", pool(event)],
  granted: (event) => [
    who(event),
    " got ",
    event.resources?.length ? h("b", null, event.resources.join(", ")) : units(event.units ?? 1),
    " of ",
    pool(event),
    event.dirty && " to clean",
    also(event.also),
    event.since_ms !== undefined && event.waiter !== undefined && ` after ${span(event.at_ms - event.since_ms)}`,
  ],
  renewed: (event) => [who(event), " renewed ", pool(event), event.ttl_ms && ` for ${length(event.ttl_ms)}`],
  ended: (event) => [
    who(event),
    "’s hold of ",
    pool(event),
    ` was ${ENDED[event.how] ?? "ended"}`.replace("was ended with", "ended with"),
    event.since_ms !== undefined && ` after ${span(event.at_ms - event.since_ms)}`,
    event.to && [", to ", holderLink(event.to)],
    noted(event),
  ],
  wait_ended: (event) => [who(event), ` ${WAIT_ENDED[event.how] ?? "left"}, waiting for `, pool(event)],
  waiter_away: (event) => [who(event), " lost its connection while it waited for ", pool(event)],
  waiter_back: (event) => [who(event), " came back to wait for ", pool(event)],
  waiter_moved: (event) => [
    who(event),
    event.before === undefined ? " was put before all who wait for " : ` was put before waiter ${event.before} of `,
    pool(event),
    noted(event),
  ],
  policy_failed: (event) => [
    `the script that ${event.script === "order" ? "orders those who wait for" : "places in"} `,
    pool(event),
    " failed",
    event.set_aside && ", and is set aside until the pool is set again",
    noted(event),
  ],
  reserved: (event) => [
    h("b", null, event.resource),
    " of ",
    pool(event),
    " was reserved for ",
    who(event),
    event.deadline_ms && [" until ", at(event.deadline_ms)],
    noted(event),
  ],
  reservation_ended: (event) => [
    h("b", null, event.resource),
    " of ",
    pool(event),
    " is no longer reserved for ",
    who(event),
    event.how === "expired" && ": nobody came in time",
    noted(event),
  ],
  request_withdrawn: () => ["A request was withdrawn before it arrived"],
  session_opened: (event) => [who(event), ` opened ${session(event)}`],
  session_attached: (event) => [who(event), ` is connected, ${session(event)}`],
  session_detached: (event) => [who(event), ` lost its connection, ${session(event)}`],
  session_closing: (event) => [who(event), ` is ending ${session(event)}`],
  session_ended: (event) => [who(event), `’s ${session(event)} ended`],
  pool_set: (event) => [pool(event), event.created ? " was made" : " was changed", size(event.spec)],
  condition_set: (event) => [
    event.resource ? [h("b", null, event.resource), " of "] : "",
    pool(event),
    event.condition?.state === "in_service" ? " was returned to service" : ` was ${event.condition?.state ?? "changed"}`,
    event.automatic && " by itself",
    event.deadline_ms && [" until ", at(event.deadline_ms)],
    event.condition?.note && [": ", h("q", null, event.condition.note)],
  ],
  pool_removing: (event) => [pool(event), " is being removed"],
  pool_gone: (event) => [pool(event), " is gone"],
};

function noted({ note }) {
  return note && [": ", h("q", null, note)];
}

function size(spec) {
  if (!spec) return null;
  if (spec.units !== undefined) return `: ${units(spec.units)}`;
  return `: ${units(spec.resources?.length ?? 0, true)}`;
}

export function sentence(event) {
  return SENTENCES[event.kind]?.(event) ?? [event.kind.replaceAll("_", " "), " ", event.pool && poolLink(event.pool)];
}

/** The cells of a row in a list of events. */
export function eventRow(event) {
  return {
    cells: [
      at(event.at_ms),
      h("span", { class: "line" }, sentence(event)),
      event.token !== undefined ? h("span", { class: "token" }, event.token) : "",
      labels(event.meta) ?? "",
    ],
    mark: event.how === "forced" || event.how === "stolen" ? "alarming" : null,
  };
}
