// The sessions of all holders: connected, away, and what ends with them.

import { get } from "../api.js";
import { h, show } from "../dom.js";
import { List } from "../list.js";
import { live } from "../live.js";
import { command, holderLink, labels, none, number, problem, until } from "../parts.js";
import { length } from "../time.js";

const PAUSE = 400;

export const SESSION_COLUMNS = ["Session", "Holder", "State", "Ends", "Grace", "Holds", "Waits"];

export function sessionRow(session) {
  const away = !session.attached && session.deadline_ms;
  return {
    cells: [
      h("span", { class: "token" }, session.session),
      h("span", { class: "about" }, holderLink(session.holder), labels(session.meta)),
      h("span", { class: `state ${session.attached ? "attached" : "alone"}` }, session.attached ? "connected" : "not connected"),
      away ? until(session.deadline_ms) : none("not while connected"),
      length(session.grace_ms),
      h("span", { class: "figure" }, number(session.holds)),
      session.waiters ? h("b", { class: "figure waits" }, number(session.waiters)) : none("0"),
    ],
  };
}

export function sessionsView(root) {
  const ending = new AbortController();
  let [sessions, next, more, loading, error, loaded, timer] = [[], undefined, false, null, null, false, 0];
  const list = new List({
    name: "sessions",
    label: "Sessions",
    columns: SESSION_COLUMNS,
    row: sessionRow,
    need: load,
    empty: () => (error ? problem(error) : loaded ? nobody() : h("p", { class: "muted" }, "Loading…")),
  });
  const count = h("span", { class: "count" });
  show(
    root,
    h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Sessions"), count),
    h("p", { class: "muted lead" }, "A session is a client’s life: what it holds and waits for ends with it. One that lost its connection has its grace to come back."),
    list.element,
  );

  function draw() {
    show(count, loaded && number(sessions.length), more && "+");
    list.set(sessions, sessions.length + (more ? 1 : 0));
  }

  function load() {
    loading ??= (async () => {
      try {
        const page = await get("/sessions", { limit: 1000, after: next }, ending.signal);
        sessions.push(...page.sessions);
        [next, more, loaded, error] = [page.next, page.next !== undefined, true, null];
      } catch (problem) {
        if (!ending.signal.aborted) error = problem;
      }
      loading = null;
      draw();
    })();
    return loading;
  }

  /** As many as were there, once more. */
  async function look() {
    timer = 0;
    const wanted = sessions.length;
    const found = [];
    let after;
    try {
      do {
        const page = await get("/sessions", { limit: 1000, after }, ending.signal);
        found.push(...page.sessions);
        after = page.next;
      } while (after !== undefined && found.length < wanted);
    } catch (problem) {
      if (!ending.signal.aborted) error = problem;
      return draw();
    }
    [sessions, next, more, loaded, error] = [found, after, after !== undefined, true, null];
    draw();
  }

  const concerns = (event) => event.session !== undefined || event.kind === "ended" || event.kind === "granted";
  const stops = [
    live.on("events", (events) => {
      if (events.some(concerns)) timer ||= setTimeout(look, PAUSE);
    }),
    live.on("refresh", look),
  ];
  draw();
  load();

  return {
    list,
    end() {
      ending.abort();
      clearTimeout(timer);
      list.end();
      for (const stop of stops) stop();
    },
  };
}

function nobody() {
  return h(
    "div",
    { class: "welcome" },
    h("p", null, "Nobody has a session. ", h("code", null, "tenure run"), " opens one for as long as its command runs:"),
    command("tenure run db -- sleep 60"),
  );
}
