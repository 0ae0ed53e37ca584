// One pool: who has what of it, who waits and why, and who had it when.

import { all, get, pool as poolPath } from "../api.js";
import { buttons, more } from "../actions.js";
import { h, show } from "../dom.js";
import { eventRow } from "../events.js";
import { Explained, text } from "../explain.js";
import { List } from "../list.js";
import { live } from "../live.js";
import { REASONS, also, badge, command, ends, holderLink, href, kindOf, labels, none, number, poolBadges, problem, reasonOf, since, units, until, use, wants, within } from "../parts.js";
import { gantt, heldOf } from "../plots.js";
import { Queue } from "../queue.js";
import { now } from "../time.js";
import { why } from "../why.js";

const HOLDS_MAX = 20_000;
const PAST_MAX = 3000;
const DETAIL_PAUSE = 300;
const DETAIL_SHARE = 4;
const EVENTS_SHOWN = 8;
/** The picture is not worth drawing more often. */
const PICTURE_PAUSE = 1000;
/** So many events at once, in a queue so long, are dearer to follow than to ask for anew. */
const [FLOOD, LONG] = [300, 5000];
/** So many can be chosen from when a waiter is moved. */
const OTHERS_MAX = 200;
/** What changes an order, or more than one thing, in ways that only the server knows: it is looked at anew. */
const ROUGH = new Set(["waiter_moved", "reserved", "reservation_ended"]);
const SPANS = { "15 min": 900_000, "1 h": 3_600_000, "6 h": 21_600_000, "24 h": 86_400_000 };

export function poolView(root, { name, query, setQuery }) {
  const ending = new AbortController();
  const holds = new Map();
  const queue = new Queue(name, ending.signal);
  const explained = new Explained(name, ending.signal, draw);
  let [detail, error, gone] = [null, null, false];
  let [past, shownSpan] = [[], SPANS[query.get("span")] ? query.get("span") : "15 min"];
  let [timer, took, moreHolds, lookedBack] = [0, 0, false, false];
  let [drawnAt, pictureTimer, looking, lookTimer] = [0, 0, null, 0];

  const head = h("div", { class: "stack" });
  const places = new List({
    name: "places",
    label: "Who has it",
    columns: ["Holder", "Has", "Since", "Ends", "Token", "About", "Actions"],
    row: (hold) => holdRow(hold),
    boxed: true,
    empty: () => h("p", { class: "muted" }, "Nobody has it. It is free for whoever asks:", command(`tenure run ${quoted(name)} -- sleep 60`)),
  });
  const resources = new List({
    name: "resources",
    label: "Resources",
    columns: ["Resource", "Holder", "Since", "Ends", "Token", "About", "Actions"],
    row: (resource) => resourceRow(resource),
    boxed: true,
    empty: () => h("p", { class: "muted" }, "The pool has no resources."),
  });
  const waiting = new List({
    name: "queue",
    label: "Queue",
    columns: ["Place", "Waiter", "Wants", "For", "Gives up", "Why it waits", "Actions"],
    row: (waiter, index) => waiterRow(waiter, index),
    boxed: true,
    need: (_, last) => queue.load(last).then(draw, () => {}),
    seen: (first, last) => explained.see(queue.rows.slice(first, last), first),
    empty: () => h("p", { class: "muted" }, "Nobody waits."),
  });
  const happened = new List({
    name: "events",
    label: "What happened last",
    columns: ["When", "What", "Token", "About"],
    row: eventRow,
    empty: () => h("p", { class: "muted" }, lookedBack ? "Nothing is known of it yet." : "Loading…"),
  });
  const holdersHeading = h("h2");
  const queueHeading = h("h2");
  const picture = h("div", { class: "picture" });
  // Made once: a list that is put into another element forgets how far it was scrolled.
  const body = h(
    "div",
    { class: "stack", hidden: true },
    h("section", null, holdersHeading, places.element, resources.element),
    h("section", null, queueHeading, waiting.element),
    h("section", null, picture),
    h("section", null, h("div", { class: "tools" }, h("h2", null, "What happened last"), h("a", { href: href("/history", { pool: name }) }, "All of it")), happened.element),
  );
  show(root, head, body);

  // Sorted once for all rows that are drawn together.
  let ordered = null;
  const holdsInOrder = () => (ordered ??= [...holds.values()].sort((a, b) => a.token - b.token));

  function about(meta) {
    const reason = reasonOf(meta);
    return [reason && h("q", null, reason), labels(meta, REASONS)].filter(Boolean).length
      ? h("span", { class: "about" }, reason && h("q", null, reason), labels(meta, reason === meta?.command ? [...REASONS, "command"] : REASONS))
      : none();
  }

  function holdRow(hold) {
    const seen = { pool: detail.summary, hold, next: queue.head() };
    return {
      cells: [
        holderLink(hold.holder),
        h("span", { class: "wants" }, hold.resources?.length ? hold.resources.join(", ") : units(hold.units), also(hold.also)),
        since(hold.since_ms),
        ends(hold),
        h("span", { class: "token" }, hold.token),
        about(hold.meta),
        h("span", { class: "buttons" }, buttons(seen, ["force_release"], { small: true }), more(`${name}, ${hold.holder}, token ${hold.token}`, [[seen, ["steal"]]])),
      ],
    };
  }

  function resourceRow(resource) {
    const { hold, spec } = resource;
    const note = resource.condition?.note ?? resource.reserved?.reason;
    const seen = { pool: detail.summary, resource, hold, next: queue.head() };
    const free = { ...seen, hold: null, heldBy: hold };
    return {
      cells: [
        h("span", { class: "about" }, h("b", null, resource.name), badge(resource.condition), life(resource), resource.leaving && h("span", { class: "badge removing" }, "leaving"), labels(spec?.labels)),
        hold ? h("span", { class: "wants" }, holderLink(hold.holder), also(hold.also)) : h("span", { class: "muted" }, resource.dirty ? "to be cleaned" : resource.reserved ? "kept" : "free"),
        hold ? since(hold.since_ms) : none(),
        hold ? ends(hold) : resource.returns_at_ms ? ["returns ", until(resource.returns_at_ms)] : none(),
        hold ? h("span", { class: "token" }, hold.token) : none(),
        hold ? about(hold.meta) : note ? h("q", null, note) : none(),
        h(
          "span",
          { class: "buttons" },
          buttons(seen, ["force_release"], { small: true }),
          !resource.leaving && buttons(free, ["drain", "quarantine", "return"], { small: true }),
          more(`${resource.name} of ${name}`, [[free, ["reserve", "unreserve"]], [seen, ["steal"]]]),
        ),
      ],
    };
  }

  /** What a resource is in besides its condition. */
  function life({ dirty, reserved, hold, condition, returns_at_ms }) {
    return [
      dirty && h("span", { class: "badge" }, hold ? "being cleaned" : "dirty"),
      reserved && h("span", { class: "badge reserved", title: reserved.reason }, "for ", holderLink(reserved.holder), reserved.deadline_ms && [" ends ", until(reserved.deadline_ms)]),
      hold && returns_at_ms && h("span", { class: "muted", title: condition?.note }, "returns ", until(returns_at_ms)),
    ];
  }

  function waiterRow(waiter, index) {
    const ahead = queue.ahead(index);
    const told = explained.of(waiter);
    const others = queue.rows.slice(0, OTHERS_MAX).filter((it) => it !== waiter);
    const seen = { pool: detail.summary, holds: holdsInOrder().slice(0, 1000), ahead, head: queue.head(), order: detail.spec.order };
    return {
      cells: [
        h("b", { class: "figure" }, waiter.away ? "–" : number(ahead + 1)),
        h("span", { class: "about" }, holderLink(waiter.holder), waiter.priority ? h("span", { class: "label" }, h("span", null, "priority"), h("b", null, waiter.priority)) : null, labels(waiter.meta)),
        wants(waiter, detail.summary.named),
        since(waiter.since_ms),
        waiter.deadline_ms ? until(waiter.deadline_ms) : none("never"),
        told ? h("button", { type: "button", class: "told", title: text(told), onclick: () => explained.tell(waiter, told) }, h("span", { class: "why" }, text(told))) : h("span", { class: "why" }, why(waiter, seen)),
        buttons({ pool: detail.summary, waiter, others }, ["move"], { small: true }),
      ],
      mark: waiter.away ? "away" : null,
    };
  }

  function draw() {
    if (ending.signal.aborted) return;
    ordered = null;
    if (!detail) {
      show(head, crumbs(), h("div", { class: "title" }, h("h1", { tabindex: "-1" }, name)), error ? missing() : h("p", { class: "muted" }, "Loading…"));
      body.hidden = true;
      return;
    }
    const pool = detail.summary;
    const offered = buttons({ pool }, ["drain", "quarantine", "return", "resize"]);
    show(
      head,
      crumbs(),
      h("div", { class: "title" }, h("h1", { tabindex: "-1" }, name), poolBadges(pool), !gone && h("div", { class: "buttons" }, offered)),
      gone && h("p", { class: "problem" }, "The pool is gone. This is how it stood last."),
      pool.condition?.note && h("p", { class: "note" }, h("q", null, pool.condition.note)),
      h(
        "p",
        { class: "summary" },
        h("span", null, kindOf(pool)),
        use(pool, { wide: true }),
        h("span", null, `${number(pool.used)} of ${number(pool.size)} in use`),
        h("span", null, pool.waiters ? [h("b", { class: "waits" }, number(pool.waiters)), " waiting, longest ", since(pool.waiting_since_ms ?? now())] : "nobody waits"),
        h("span", { class: "muted" }, detail.spec.order === "backfill" ? "backfill: whoever fits is served" : "strict order"),
        detail.spec.fair && h("span", { class: "muted" }, fairness(detail.spec.fair)),
        detail.spec.scripts && h("span", { class: "muted", title: Object.values(detail.spec.scripts).join("\n") }, scripted(detail)),
        detail.spec.cleaning && h("span", { class: "muted" }, `cleaned after each hold${pool.dirty ? `: ${number(pool.dirty)} dirty` : ""}`),
        !pool.declared && h("span", { class: "muted" }, "vanishes when idle"),
      ),
    );
    show(holdersHeading, pool.named ? "Resources" : "Who has it", " ", h("span", { class: "count" }, number(pool.named ? pool.size : holds.size), moreHolds && "+"));
    show(queueHeading, "Queue", " ", h("span", { class: "count" }, number(waiters())));
    if (Date.now() - drawnAt > PICTURE_PAUSE) drawPicture();
    else pictureTimer ||= setTimeout(drawPicture, PICTURE_PAUSE);
    body.hidden = false;
    places.element.hidden = pool.named;
    resources.element.hidden = !pool.named;
    if (pool.named) resources.set(joined());
    else places.set(holdsInOrder());
    waiting.set(queue.rows, waiters());
    happened.set(past.slice(0, EVENTS_SHOWN));
  }

  /** As heard, if the whole queue is here; else as the server counts. */
  function waiters() {
    return queue.more ? Math.max(detail.summary.waiters, queue.rows.length + 1) : queue.rows.length;
  }

  function drawPicture() {
    if (ending.signal.aborted) return;
    clearTimeout(pictureTimer);
    [pictureTimer, drawnAt] = [0, Date.now()];
    const to = now();
    const held = heldOf(past, holdsInOrder());
    const choice = (words) =>
      h("button", { type: "button", class: "small plain", "aria-pressed": String(words === shownSpan), onclick: () => choose(words) }, words);
    show(
      picture,
      h("div", { class: "tools" }, h("h2", null, "Who had it when"), h("div", { class: "buttons", role: "group", "aria-label": "How far back" }, Object.keys(SPANS).map(choice))),
      held.length ? gantt(held, { from: to - SPANS[shownSpan], to, width: picture.clientWidth, label: `Who had ${name} when` }) : h("p", { class: "muted" }, lookedBack ? "Nobody had it in this time." : "Loading…"),
    );
  }

  function choose(words) {
    shownSpan = words;
    setQuery({ span: words === "15 min" ? "" : words });
    drawPicture();
    lookBack().catch(() => {});
  }

  /** Resources with those who have them: what was heard last counts. */
  function joined() {
    const held = new Map();
    for (const hold of holds.values()) for (const resource of hold.resources ?? []) held.set(resource, hold);
    const specs = new Map((detail.spec.resources ?? []).map((spec) => [spec.name, spec]));
    return detail.resources.map((resource) => ({ ...resource, hold: held.get(resource.name), spec: specs.get(resource.name) }));
  }

  function crumbs() {
    return h("p", { class: "crumbs" }, h("a", { href: href("/") }, "Pools"));
  }

  function missing() {
    if (error.refusal?.code !== "unknown_pool") return problem(error);
    return h(
      "div",
      { class: "welcome" },
      h("p", null, "There is no such pool now. It comes to be with its first request:"),
      command(`tenure run ${quoted(name)} -- sleep 60`),
      h("p", null, h("a", { href: href("/history", { pool: name }) }, "What happened to it before")),
    );
  }

  async function lookAtDetail() {
    timer = 0;
    const begun = Date.now();
    try {
      detail = await get(poolPath(name), {}, ending.signal);
      [error, gone] = [null, false];
    } catch (problem) {
      if (problem.refusal?.code === "unknown_pool" && detail) gone = true;
      else if (!detail) error = problem;
    }
    took = Date.now() - begun;
    draw();
  }

  async function lookAtHolds() {
    const found = await all("/holds", { pool: name }, "holds", { max: HOLDS_MAX, signal: ending.signal });
    const seen = new Set(found.items.map((hold) => hold.token));
    for (const token of holds.keys()) if (!seen.has(token)) holds.delete(token);
    for (const hold of found.items) holds.set(hold.token, hold);
    moreHolds = found.more;
  }

  const seenHere = (events) => events.map((event) => within(name, event) ?? event);

  async function lookBack() {
    const since = Math.floor(now() - SPANS[shownSpan]);
    const found = await get("/history", { pool: name, newest_first: true, limit: 1000, since_ms: since }, ending.signal);
    lookedBack = true;
    const newest = found.events[0]?.seq ?? 0;
    past = [...past.filter((event) => event.seq > newest), ...seenHere(found.events)];
    if (past.length < EVENTS_SHOWN) {
      const before = await get("/history", { pool: name, newest_first: true, limit: EVENTS_SHOWN }, ending.signal);
      past = before.events.length > past.length ? seenHere(before.events) : past;
    }
    drawPicture();
    draw();
  }

  /** One at a time: a large pool may take longer than the time to the next. */
  function look() {
    lookTimer = 0;
    looking ??= (async () => {
      try {
        await Promise.all([lookAtDetail(), lookAtHolds(), queue.reload()]);
        explained.stale();
        draw();
        await lookBack();
      } catch {
        // Told by the detail, or by the stream.
      }
      looking = null;
    })();
    return looking;
  }

  /** After the look that is under way, which may have begun before what was heard. */
  function lookSoon() {
    lookTimer ||= setTimeout(() => Promise.resolve(looking).then(look), DETAIL_PAUSE);
  }

  function hear(events) {
    const own = events.map((event) => within(name, event)).filter(Boolean);
    if (!own.length) return;
    const isFlood = own.length > FLOOD && queue.rows.length > LONG;
    if (isFlood) queue.reload().then(draw, () => {});
    for (const event of own) {
      if (event.kind === "granted") holds.set(event.token, { ...event, since_ms: event.at_ms });
      else if (event.kind === "ended") holds.delete(event.token);
      else if (event.kind === "renewed" && holds.has(event.token)) {
        const { ttl_ms, deadline_ms } = event;
        holds.set(event.token, { ...holds.get(event.token), ttl_ms, deadline_ms });
      }
      if (!isFlood) queue.hear(event);
    }
    const isSet = (event) => event.also?.length || event.waits_also?.length;
    const isTurn = (event) => event.kind === "queued" && detail?.spec.fair;
    if (own.some((event) => ROUGH.has(event.kind) || isSet(event) || isTurn(event))) lookSoon();
    explained.stale();
    past = [...own.reverse(), ...past].slice(0, PAST_MAX);
    timer ||= setTimeout(lookAtDetail, Math.max(DETAIL_PAUSE, DETAIL_SHARE * took));
    draw();
  }

  function tick() {
    if (!detail) return;
    drawPicture();
    // Sentences that tell what is left grow old.
    waiting.draw();
  }

  const ends_ = [live.on("events", hear), live.on("refresh", look)];
  const ticking = setInterval(tick, 5000);
  draw();
  look();

  return {
    get list() {
      return queue.rows.length ? waiting : detail?.summary.named ? resources : places;
    },
    end() {
      ending.abort();
      clearTimeout(timer);
      clearTimeout(pictureTimer);
      clearTimeout(lookTimer);
      explained.end();
      clearInterval(ticking);
      for (const list of [places, resources, waiting, happened]) list.end();
      for (const end of ends_) end();
    },
  };
}

function fairness({ by, weights = {} }) {
  const heavier = Object.entries(weights).map(([group, weight]) => `${group} ×${weight}`);
  return `served in turn by ${by}${heavier.length ? ` (${heavier.join(", ")})` : ""}`;
}

function scripted({ spec, script_faults, scripts_set_aside }) {
  const what = Object.keys(spec.scripts).map((which) => (which === "order" ? "ordered" : "placed"));
  const failed = script_faults ? ` (failed ${number(script_faults)} times)` : "";
  return scripts_set_aside ? `scripts are set aside${failed}` : `${what.join(" and ")} by script${failed}`;
}

const quoted = (name) => (/^[\w./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);
