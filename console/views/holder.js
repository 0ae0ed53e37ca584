// One holder: everything it has and waits for, its sessions, and what it had before.

import { all, get } from "../api.js";
import { buttons, more } from "../actions.js";
import { h, show } from "../dom.js";
import { List } from "../list.js";
import { live } from "../live.js";
import { REASONS, also, ends, href, labels, none, number, poolLink, problem, reasonOf, since, units, until, wants } from "../parts.js";
import { gantt, heldOf } from "../plots.js";
import { now } from "../time.js";
import { SESSION_COLUMNS, sessionRow } from "./sessions.js";

const MOST = 20_000;
const PAUSE = 300;
const DRAWN = 3_600_000;

export function holderView(root, { name }) {
  const ending = new AbortController();
  let [holds, waits, sessions, past, error, loaded, timer] = [[], [], [], [], null, false, 0];

  const held = new List({
    name: "held",
    label: "Holds",
    columns: ["Pool", "Has", "Since", "Ends", "Token", "About", "Actions"],
    boxed: true,
    row: (hold) => ({
      cells: [
        poolLink(hold.pool),
        h("span", { class: "wants" }, hold.resources?.length ? hold.resources.join(", ") : units(hold.units), also(hold.also)),
        since(hold.since_ms),
        ends(hold),
        h("span", { class: "token" }, hold.token),
        h("span", { class: "about" }, reasonOf(hold.meta) && h("q", null, reasonOf(hold.meta)), labels(hold.meta, REASONS)),
        actions(hold),
      ],
    }),
    empty: () => h("p", { class: "muted" }, loaded ? "It holds nothing." : "Loading…"),
  });
  function actions(hold) {
    const seen = { hold, pool: { pool: hold.pool } };
    return h("span", { class: "buttons" }, buttons(seen, ["force_release"], { small: true }), more(`${hold.pool}, ${name}, token ${hold.token}`, [[seen, ["steal"]]]));
  }
  const waiting = new List({
    name: "waiting",
    label: "Waits",
    columns: ["Pool", "Place", "Wants", "For", "Gives up"],
    boxed: true,
    row: ({ pool, waiter }) => ({
      cells: [
        poolLink(pool),
        waiter.position === undefined ? none("away") : h("b", { class: "figure" }, number(waiter.position)),
        wants(waiter),
        since(waiter.since_ms),
        waiter.deadline_ms ? until(waiter.deadline_ms) : none("never"),
      ],
    }),
    empty: () => h("p", { class: "muted" }, loaded ? "It waits for nothing." : "Loading…"),
  });
  const own = new List({
    name: "sessions",
    label: "Sessions",
    columns: SESSION_COLUMNS,
    boxed: true,
    row: sessionRow,
    empty: () => h("p", { class: "muted" }, loaded ? "It has no session." : "Loading…"),
  });
  const picture = h("div");
  const [holdsHeading, waitsHeading, sessionsHeading] = [h("h2"), h("h2"), h("h2")];
  const trouble = h("div");
  show(
    root,
    h("p", { class: "crumbs" }, h("a", { href: href("/sessions") }, "Holders")),
    h("div", { class: "title" }, h("h1", { tabindex: "-1" }, name)),
    trouble,
    h("section", null, holdsHeading, held.element),
    h("section", null, waitsHeading, waiting.element),
    h("section", null, sessionsHeading, own.element),
    h("section", null, h("div", { class: "tools" }, h("h2", null, "What it had when"), h("a", { href: href("/history", { holder: name }) }, "Its history")), picture),
  );

  function draw() {
    show(trouble, error && problem(error));
    trouble.hidden = !error;
    show(holdsHeading, "Has", " ", h("span", { class: "count" }, number(holds.length)));
    show(waitsHeading, "Waits for", " ", h("span", { class: "count" }, number(waits.length)));
    show(sessionsHeading, "Sessions", " ", h("span", { class: "count" }, number(sessions.length)));
    held.set(holds);
    waiting.set(waits);
    own.set(sessions);
    const drawn = heldOf(past, holds);
    const to = now();
    show(picture, drawn.length ? gantt(drawn, { from: to - DRAWN, to, byPool: true, width: picture.clientWidth, label: `What ${name} had when` }) : h("p", { class: "muted" }, "Nothing in the last hour."));
  }

  async function look() {
    timer = 0;
    const options = { max: MOST, signal: ending.signal };
    try {
      const [hold, wait, session, before] = await Promise.all([
        all("/holds", { holder: name }, "holds", options),
        all("/waits", { holder: name }, "waits", options),
        all("/sessions", {}, "sessions", options),
        get("/history", { holder: name, newest_first: true, limit: 1000, since_ms: Math.floor(now() - DRAWN) }, ending.signal),
      ]);
      holds = hold.items;
      waits = wait.items;
      sessions = session.items.filter((it) => it.holder === name);
      past = before.events;
      [error, loaded] = [null, true];
    } catch (problem) {
      if (ending.signal.aborted) return;
      error = problem;
    }
    draw();
  }

  const stops = [
    live.on("events", (events) => {
      if (events.some((event) => event.holder === name)) timer ||= setTimeout(look, PAUSE);
    }),
    live.on("refresh", look),
  ];
  draw();
  look();

  return {
    list: held,
    end() {
      ending.abort();
      clearTimeout(timer);
      for (const list of [held, waiting, own]) list.end();
      for (const stop of stops) stop();
    },
  };
}
