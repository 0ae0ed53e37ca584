// The page around the views: which one an address means, the state of the line to the server, search, namespace and keys.

import { namespaceNow, setNamespace } from "./api.js";
import { h, say, show } from "./dom.js";
import { live } from "./live.js";
import { href } from "./parts.js";
import { moment, startTicking } from "./time.js";
import { historyView } from "./views/history.js";
import { holderView } from "./views/holder.js";
import { overview } from "./views/overview.js";
import { poolView } from "./views/pool.js";
import { searchView } from "./views/search.js";
import { sessionsView } from "./views/sessions.js";

const VIEWS = [
  [/^\/?$/, "overview", () => "Overview", overview],
  [/^\/pools\/(.+)$/, "overview", (name) => name, poolView],
  [/^\/holders\/(.+)$/, "sessions", (name) => name, holderView],
  [/^\/sessions$/, "sessions", () => "Sessions", sessionsView],
  [/^\/history$/, "history", () => "History", historyView],
  [/^\/search$/, "", () => "Search", searchView],
];

const main = document.getElementById("main");
const dialog = document.getElementById("dialog");
const field = document.getElementById("text");
let current = null;
let started = false;

function read() {
  const [path, text = ""] = location.hash.replace(/^#/, "").split("?");
  return { path: path || "/", query: new URLSearchParams(text) };
}

function route() {
  const { path, query } = read();
  const namespace = query.get("namespace") || "default";
  if (namespace !== namespaceNow() || !started) {
    setNamespace(namespace);
    live.start();
  }
  const found = VIEWS.find(([pattern]) => pattern.test(path)) ?? VIEWS[0];
  const [pattern, tab, title, view] = found;
  const name = decodeURIComponent(pattern.exec(path)?.[1] ?? "");
  current?.end();
  show(main);
  document.title = `${title(name)} · Tenure`;
  for (const link of document.querySelectorAll("nav [data-view]")) {
    link.href = href({ overview: "/", sessions: "/sessions", history: "/history" }[link.dataset.view]);
    if (link.dataset.view === tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("home").href = href("/");
  document.getElementById("namespace").textContent = namespace;
  document.getElementById("namespace").setAttribute("aria-label", `Namespace ${namespace}, change`);
  if (path !== "/search") field.value = "";
  else field.value = query.get("text") ?? "";
  scrollTo(0, 0);
  const setQuery = (values) => history.replaceState(null, "", href(path, values));
  current = view(main, { name, query, setQuery });
  if (started && document.activeElement !== field) main.querySelector("h1")?.focus({ preventScroll: true });
  started = true;
}

const WORDS = { connecting: "connecting", live: "live", stale: "stale", busy: "sampled" };

function drawStatus() {
  const pulse = document.getElementById("pulse");
  pulse.dataset.status = live.status;
  show(pulse, h("i", { "aria-hidden": "true" }), h("span", null, WORDS[live.status]));
  const banner = document.getElementById("banner");
  banner.hidden = live.status === "live" || live.status === "connecting";
  banner.dataset.status = live.status;
  if (live.status === "stale") {
    show(banner, h("b", null, "Stale. "), `The server cannot be reached: this is how things stood at ${moment(live.heard)}. Connecting again…`);
  } else if (live.status === "busy") {
    show(banner, "More happens than can be shown event by event: figures are taken every few seconds.");
  } else show(banner);
}

let wasStale = false;
live.on("status", (status) => {
  drawStatus();
  if (status === "live" && wasStale) say("Connected again.");
  wasStale = status === "stale" || (wasStale && status !== "live");
});

document.getElementById("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = field.value.trim();
  if (text) location.hash = href("/search", { text });
});

document.getElementById("namespace").addEventListener("click", () => {
  const go = (event) => {
    event.preventDefault();
    const name = new FormData(event.target).get("namespace").trim() || "default";
    dialog.close();
    location.hash = name === "default" ? "#/" : `#/?namespace=${encodeURIComponent(name)}`;
  };
  open(
    h(
      "form",
      { method: "dialog", onsubmit: go },
      h("h2", null, "Another namespace"),
      h("p", null, "A namespace keeps the pools, sessions and history of one team apart from those of others."),
      h("label", { class: "field" }, h("span", null, "Namespace"), h("input", { name: "namespace", maxlength: "64", autocomplete: "off", value: namespaceNow() })),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel"), h("button", { type: "submit", class: "solid" }, "Go there")),
    ),
  );
});

const KEYS = [
  ["/", "search", () => field.focus()],
  ["f", "filter the pools", () => document.getElementById("filter")?.focus()],
  ["o", "overview", () => (location.hash = href("/"))],
  ["s", "sessions", () => (location.hash = href("/sessions"))],
  ["h", "history", () => (location.hash = href("/history"))],
  ["j", "next row", () => current?.list?.move(1)],
  ["k", "row before", () => current?.list?.move(-1)],
  ["?", "these keys", showKeys],
];

function showKeys() {
  const line = ([key, words]) => [h("dt", null, h("kbd", null, key)), h("dd", null, words)];
  open(
    h(
      "form",
      { method: "dialog" },
      h("h2", null, "Keys"),
      h("dl", { class: "keys" }, KEYS.map(line), h("dt", null, h("kbd", null, "↑"), h("kbd", null, "↓")), h("dd", null, "from row to row, in a list"), h("dt", null, h("kbd", null, "Enter")), h("dd", null, "open what is chosen"), h("dt", null, h("kbd", null, "Esc")), h("dd", null, "close, or leave a field")),
      h("div", { class: "buttons" }, h("button", { type: "submit", class: "solid" }, "Close")),
    ),
  );
}

function open(content) {
  show(dialog);
  show(dialog, content);
  dialog.setAttribute("aria-label", content.querySelector("h2").textContent);
  dialog.showModal();
  (dialog.querySelector("input") ?? dialog.querySelector("button[type=submit]")).focus();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  // The address is that of the view.
  event.preventDefault();
  main.focus();
});

document.getElementById("keys").addEventListener("click", showKeys);

addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape" && typing && !dialog.open) return event.target.blur();
  if (typing || dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = KEYS.find(([name]) => name === event.key);
  if (!key) return;
  event.preventDefault();
  key[2]();
});

addEventListener("hashchange", route);
startTicking();
drawStatus();
route();
