// What has a text in its name, its labels or its metadata.

import { get } from "../api.js";
import { h, show } from "../dom.js";
import { List } from "../list.js";
import { holderLink, href, labels, number, poolLink, problem } from "../parts.js";

const MOST = 5000;

export function searchView(root, { query }) {
  const ending = new AbortController();
  const text = query.get("text") ?? "";
  let [found, done, error] = [[], false, null];
  const list = new List({
    name: "found",
    label: "Found",
    columns: ["What", "Where", "Because"],
    row,
    empty: () => (error ? problem(error) : h("p", { class: "muted" }, !text ? "Type what to look for: a part of a name, a holder or a label such as gpu or zone=eu." : done ? `Nothing has “${text}” in its name or labels.` : "Looking…")),
  });
  const count = h("span", { class: "count", role: "status" });
  show(root, h("div", { class: "title" }, h("h1", { tabindex: "-1" }, text ? `Search: ${text}` : "Search"), count), list.element);

  function row(it) {
    const because = Object.keys(it.because ?? {}).length ? labels(it.because) : "its name";
    if (it.token !== undefined) return { cells: [[holderLink(it.holder), " holds"], [poolLink(it.pool), ` token ${it.token}`], because] };
    if (it.waiter !== undefined) return { cells: [[holderLink(it.holder), " waits"], poolLink(it.pool), because] };
    if (it.session !== undefined) return { cells: [holderLink(it.holder), h("a", { href: href("/sessions") }, `session ${it.session}`), because] };
    if (it.resource !== undefined) return { cells: [h("b", null, it.resource), [poolLink(it.pool), " (resource)"], because] };
    return { cells: [poolLink(it.pool), "pool", because] };
  }

  async function look() {
    let after;
    try {
      do {
        const page = await get("/search", { text, limit: 1000, after }, ending.signal);
        found.push(...page.found);
        after = page.next;
        list.set(found);
        count.textContent = number(found.length);
      } while (after !== undefined && found.length < MOST);
    } catch (problem) {
      if (ending.signal.aborted) return;
      error = problem;
    }
    done = true;
    count.textContent = number(found.length) + (after === undefined ? "" : "+");
    list.set(found);
  }

  list.set([]);
  if (text) look();
  return {
    list,
    end() {
      ending.abort();
      list.end();
    },
  };
}
