// All pools: what is in use, who waits, and how it went over the last minutes.

import { get, pages } from "../api.js";
import { h, show } from "../dom.js";
import { List } from "../list.js";
import { live } from "../live.js";
import { command, href, kindOf, none, number, poolBadges, poolLink, problem, since, use } from "../parts.js";
import { Activity, BUCKET, BUCKETS, bars } from "../plots.js";
import { now, span } from "../time.js";

/** Up to so many pools that have changed are asked for one by one. */
const ONE_BY_ONE_MAX = 12;
const CHANGES_TOGETHER = 250;
/** Between two looks at all pools, at least, and so many times as long as a look takes. */
const LOOK_PAUSE = 1500;
const LOOK_SHARE = 4;
const BACK_PAGES_MAX = 5;
const CONTENDED_MAX = 5;
/** So few pools are all in sight anyway. */
const IN_SIGHT = 12;

const SORTS = {
  contended: ["most contended", (a, b) => b.waiters - a.waiters || (a.waiting_since_ms ?? Infinity) - (b.waiting_since_ms ?? Infinity) || share(b) - share(a) || byName(a, b)],
  name: ["name", (a, b) => byName(a, b)],
  used: ["most used", (a, b) => share(b) - share(a) || b.used - a.used || byName(a, b)],
  waiting: ["longest wait", (a, b) => (a.waiting_since_ms ?? Infinity) - (b.waiting_since_ms ?? Infinity) || byName(a, b)],
};

const share = (pool) => (pool.size ? pool.used / pool.size : 0);
const byName = (a, b) => (a.pool < b.pool ? -1 : a.pool > b.pool ? 1 : 0);

export function overview(root, { query, setQuery }) {
  const pools = new Map();
  const activity = new Activity();
  const changed = new Set();
  const ending = new AbortController();
  let [loaded, error, timer, lookedAt, lookTook] = [false, null, 0, 0, 0];
  let [sort, filter] = [SORTS[query.get("sort")] ? query.get("sort") : "contended", query.get("filter") ?? ""];
  let onlyWaiting = query.get("waiting") === "1";

  const list = new List({
    name: "pools",
    label: "Pools",
    columns: ["Pool", "In use", "Waiting", "Longest wait", "Kind"],
    row,
    empty: () => (!loaded ? h("p", { class: "muted" }, "Loading…") : pools.size ? h("p", { class: "muted" }, "No pool matches.") : nothingYet()),
  });
  const head = h("div", { class: "stack" });
  const count = h("span", { class: "muted", role: "status" });
  const tools = h(
    "div",
    { class: "tools" },
    h("h2", null, "Pools"),
    count,
    h("input", {
      id: "filter",
      type: "search",
      placeholder: "Filter by name",
      "aria-label": "Filter pools by name",
      value: filter,
      oninput: (event) => {
        filter = event.target.value;
        remember();
      },
    }),
    h(
      "label",
      { class: "inline" },
      "Sort by ",
      h(
        "select",
        {
          onchange: (event) => {
            sort = event.target.value;
            remember();
          },
        },
        Object.entries(SORTS).map(([name, [words]]) => h("option", { value: name, selected: name === sort }, words)),
      ),
    ),
    h(
      "label",
      { class: "inline" },
      h("input", {
        type: "checkbox",
        checked: onlyWaiting,
        onchange: (event) => {
          onlyWaiting = event.target.checked;
          remember();
        },
      }),
      " only where somebody waits",
    ),
  );
  show(root, h("h1", { class: "visually-hidden", tabindex: "-1" }, "Overview"), head, tools, list.element);

  function remember() {
    setQuery({ sort: sort === "contended" ? "" : sort, filter, waiting: onlyWaiting ? "1" : "" });
    draw();
  }

  function row(pool) {
    return {
      cells: [
        h("span", { class: "about" }, poolLink(pool.pool), poolBadges(pool)),
        h("span", { class: "used" }, use(pool), h("span", { class: "figure" }, `${number(pool.used)} / ${number(pool.size)}`)),
        pool.waiters ? h("b", { class: "figure waits" }, number(pool.waiters)) : none("0"),
        pool.waiting_since_ms ? since(pool.waiting_since_ms) : none(),
        h("span", { class: "muted" }, kindOf(pool)),
      ],
      mark: pool.waiters ? "contended" : null,
    };
  }

  function draw() {
    if (error && !pools.size) return show(head, problem(error));
    const everything = [...pools.values()];
    const wanted = filter.toLowerCase();
    const shown = everything.filter((pool) => (!onlyWaiting || pool.waiters) && (!wanted || pool.pool.toLowerCase().includes(wanted)));
    shown.sort(SORTS[sort][1]);
    const quiet = loaded && !everything.length && !activity.buckets.size;
    head.hidden = tools.hidden = quiet;
    show(head, totals(everything), plots(), contended(everything));
    count.textContent = shown.length === everything.length ? number(everything.length) : `${number(shown.length)} of ${number(everything.length)}`;
    list.set(shown);
  }

  function totals(everything) {
    const sum = (of) => everything.reduce((all, pool) => all + of(pool), 0);
    const waiters = sum((pool) => pool.waiters);
    const oldest = everything.reduce((first, pool) => Math.min(first, pool.waiting_since_ms ?? Infinity), Infinity);
    const out = everything.filter((pool) => pool.condition?.state && pool.condition.state !== "in_service").length;
    const figure = (words, value, mark) => h("div", { class: mark }, h("dt", null, words), h("dd", null, value));
    return h(
      "dl",
      { class: "totals" },
      figure("Pools", number(everything.length)),
      figure("Holds", number(sum((pool) => pool.holds))),
      figure("Waiting", number(waiters), waiters ? "waits" : null),
      figure("Longest wait", oldest < Infinity ? since(oldest) : "—", waiters ? "waits" : null),
      out > 0 && figure("Out of service", number(out), "out"),
    );
  }

  function plots() {
    const waits = activity.series("waited");
    return h(
      "div",
      { class: "plots" },
      bars("Grants in 10 s", activity.series("granted"), (most) => number(most)),
      bars("Requests that had to wait, in 10 s", activity.series("queued"), (most) => number(most)),
      bars("Longest wait that was served", waits, (most) => span(most)),
    );
  }

  function contended(everything) {
    const most = everything.filter((pool) => pool.waiters).sort(SORTS.contended[1]).slice(0, CONTENDED_MAX);
    if (!most.length || everything.length <= IN_SIGHT) return null;
    const top = most[0].waiters;
    const line = (pool) =>
      h(
        "li",
        { key: pool.pool },
        poolLink(pool.pool),
        h("span", { class: "amount", "aria-hidden": "true" }, h("i", { style: { width: `${(pool.waiters / top) * 100}%` } })),
        h("span", { class: "figure" }, `${number(pool.waiters)} waiting, longest `, since(pool.waiting_since_ms)),
      );
    return h("section", { class: "contention" }, h("h2", null, "Most contended"), h("ol", null, most.map(line)));
  }

  let looking = null;

  /** One at a time: many pools may take longer than the time to the next. */
  function look() {
    looking ??= lookAtAll().finally(() => (looking = null));
    return looking;
  }

  async function lookAtAll() {
    const begun = Date.now();
    const seen = new Set();
    try {
      for await (const page of pages("/pools", {}, "pools", ending.signal)) {
        for (const pool of page.items) {
          seen.add(pool.pool);
          pools.set(pool.pool, pool);
        }
        // The first thousand are there at once, however many follow.
        if (!loaded) draw();
      }
      for (const name of pools.keys()) if (!seen.has(name)) pools.delete(name);
      [loaded, error] = [true, null];
    } catch (problem) {
      if (ending.signal.aborted) return;
      error = problem;
    }
    [lookedAt, lookTook] = [Date.now(), Date.now() - begun];
    draw();
  }

  async function lookAtChanged() {
    timer = 0;
    const names = [...changed];
    const pause = Math.max(LOOK_PAUSE, LOOK_SHARE * lookTook);
    if (names.length > ONE_BY_ONE_MAX && Date.now() - lookedAt < pause) {
      timer = setTimeout(lookAtChanged, pause);
      return;
    }
    changed.clear();
    if (names.length > ONE_BY_ONE_MAX) return look();
    // A name is the first of those that start with it.
    const one = async (name) => {
      const { pools: found } = await get("/pools", { prefix: name, limit: 1 }, ending.signal);
      if (found[0]?.pool === name) pools.set(name, found[0]);
      else pools.delete(name);
    };
    await Promise.all(names.map(one)).catch(() => {});
    if (!ending.signal.aborted) draw();
  }

  async function lookBack() {
    const from = now() - BUCKET * BUCKETS;
    let after;
    for (let page = 0; page < BACK_PAGES_MAX; page++) {
      const found = await get("/history", { newest_first: true, limit: 1000, since_ms: Math.floor(from), after }, ending.signal);
      activity.add(found.events.filter((event) => event.seq <= (live.last ?? Infinity) && !counted.has(event.seq)));
      if (found.events.length) activity.from = Math.min(activity.from, found.events.at(-1).at_ms);
      if (found.done) {
        activity.from = from;
        break;
      }
      after = found.next;
    }
    counted = null;
    draw();
  }

  // What is heard while the past is still being fetched is in both.
  let counted = new Set();
  const ends = [
    live.on("events", (events) => {
      if (counted) for (const event of events) counted.add(event.seq);
      activity.add(events);
      for (const event of events) if (event.pool) changed.add(event.pool);
      if (changed.size) timer ||= setTimeout(lookAtChanged, CHANGES_TOGETHER);
      else draw();
    }),
    live.on("refresh", look),
  ];
  const ticking = setInterval(draw, BUCKET / 2);
  look();
  lookBack().catch(() => {});

  return {
    list,
    end() {
      ending.abort();
      list.end();
      clearTimeout(timer);
      clearInterval(ticking);
      for (const end of ends) end();
    },
  };
}

function nothingYet() {
  return h(
    "div",
    { class: "welcome" },
    h("h2", null, "Nothing is held yet"),
    h("p", null, "A pool comes to be with its first request. Hold one while a command runs, and watch it appear here:"),
    command("tenure run db -- sleep 60"),
    h("p", null, "Or declare a pool of machines, and let programs take turns on them:"),
    command("tenure pool set gpus --resource 'gpu-1 mem=40' --resource 'gpu-2 mem=80'"),
    h("p", null, h("a", { href: href("/history") }, "What happened before"), " is in the history."),
  );
}
