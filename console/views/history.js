// What happened: filtered, newest first, and as a picture of who held what when.

import { get } from "../api.js";
import { h, show } from "../dom.js";
import { KINDS, eventRow } from "../events.js";
import { List } from "../list.js";
import { live } from "../live.js";
import { problem } from "../parts.js";
import { gantt, heldOf } from "../plots.js";
import { now } from "../time.js";

const PAGE = 500;
/** At least this much time is drawn, so that a single hold is not the whole picture. */
const DRAWN_MIN = 60_000;
const TYPING = 300;

export function historyView(root, { query, setQuery }) {
  const ending = new AbortController();
  const filter = { pool: "", holder: "", kind: "", since: "", until: "" };
  for (const name of Object.keys(filter)) filter[name] = query.get(name) ?? "";
  let [events, next, done, loading, error, round, typing] = [[], undefined, false, null, null, 0, 0];
  let fresh = [];

  const list = new List({
    name: "events",
    label: "Events",
    columns: ["When", "What", "Token", "About"],
    row: eventRow,
    need: load,
    empty: () => (error ? problem(error) : h("p", { class: "muted" }, done ? "Nothing of the kind happened, as far back as is kept." : "Looking…")),
  });
  const picture = h("div");
  const news = h("div");
  const field = (name, label, attributes) =>
    h("label", { class: "field" }, h("span", null, label), h("input", { name, autocomplete: "off", value: filter[name], oninput: change, ...attributes }));
  const form = h(
    "form",
    { class: "filters", role: "search", "aria-label": "Filter the history", onsubmit: (event) => event.preventDefault() },
    field("pool", "Pool", { placeholder: "any" }),
    field("holder", "Holder", { placeholder: "any" }),
    h(
      "label",
      { class: "field" },
      h("span", null, "What"),
      h(
        "select",
        { name: "kind", onchange: change },
        h("option", { value: "" }, "everything"),
        Object.entries(KINDS).map(([kind, words]) => h("option", { value: kind, selected: kind === filter.kind }, words)),
      ),
    ),
    field("since", "From", { type: "datetime-local", step: "1" }),
    field("until", "Before", { type: "datetime-local", step: "1" }),
  );
  show(root, h("h1", { tabindex: "-1" }, "History"), form, picture, news, list.element);

  function change(event) {
    filter[event.target.name] = event.target.value;
    setQuery(filter);
    clearTimeout(typing);
    typing = setTimeout(restart, TYPING);
  }

  function asked() {
    const time = (text) => (text ? new Date(text).getTime() : undefined);
    const { pool, holder, kind } = filter;
    return { pool, holder, kind, since_ms: time(filter.since), until_ms: time(filter.until), newest_first: true };
  }

  function restart() {
    round++;
    [events, next, done, loading, error, fresh] = [[], undefined, false, null, null, []];
    draw();
    load();
  }

  function load() {
    if (done || loading) return loading;
    const mine = round;
    loading = (async () => {
      try {
        const page = await get("/history", { ...asked(), limit: PAGE, after: next }, ending.signal);
        if (mine !== round) return;
        events.push(...page.events);
        [next, done, error] = [page.next, page.done, null];
      } catch (problem) {
        if (mine !== round || ending.signal.aborted) return;
        // Further back nothing is kept.
        if (problem.refusal?.code === "events_gone") done = true;
        else [error, done] = [problem, true];
      }
      loading = null;
      draw();
      if (!events.length && !done) load();
    })();
    return loading;
  }

  function matches(event) {
    const { pool, holder, kind, since_ms, until_ms } = asked();
    return (!pool || event.pool === pool) && (!holder || event.holder === holder) && (!kind || event.kind === kind) && !(event.at_ms < since_ms) && !(event.at_ms >= until_ms);
  }

  function draw() {
    list.set(events, done ? events.length : events.length + (events.length ? 1 : 0));
    drawPicture();
    news.hidden = !fresh.length;
    show(
      news,
      fresh.length > 0 &&
        h("button", { type: "button", class: "small", onclick: showFresh }, `${fresh.length} more since; show them`),
    );
  }

  function showFresh() {
    events.unshift(...fresh);
    fresh = [];
    scrollTo({ top: 0 });
    draw();
  }

  function drawPicture() {
    const held = heldOf(events);
    picture.hidden = !held.length;
    if (!held.length) return;
    const { since_ms, until_ms } = asked();
    const to = until_ms ?? now();
    const first = since_ms ?? Math.max(Math.min(...held.map((hold) => hold.from)), events.at(-1).at_ms);
    const from = Math.min(first, to - DRAWN_MIN);
    show(picture, gantt(held, { from, to, byPool: !filter.pool, width: picture.clientWidth, label: "Who held what when" }));
  }

  const ends = [
    live.on("events", (heard) => {
      const newest = fresh[0]?.seq ?? events[0]?.seq ?? 0;
      const own = heard.filter((event) => event.seq > newest && matches(event)).reverse();
      if (!own.length) return;
      fresh.unshift(...own);
      // Who reads further down is not to lose the place.
      if (scrollY < 400) showFresh();
      else draw();
    }),
    live.on("refresh", () => {
      if (scrollY < 400) restart();
    }),
  ];
  draw();
  load();

  return {
    list,
    end() {
      ending.abort();
      clearTimeout(typing);
      list.end();
      for (const end of ends) end();
    },
  };
}
