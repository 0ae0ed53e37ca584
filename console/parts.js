// Small things that every view shows alike: names as links, times, use against capacity, conditions, labels.

import { namespaceNow } from "./api.js";
import { h } from "./dom.js";
import { length, moment, tickText, wholeMoment } from "./time.js";

/** The address of a view, which can be shared. */
export function href(path, query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries({ namespace: namespaceNow(), ...query })) {
    if (value && !(name === "namespace" && value === "default")) parameters.set(name, value);
  }
  const text = parameters.toString();
  return `#${path}${text ? `?${text}` : ""}`;
}

export const poolLink = (name, text = name) => h("a", { class: "name", href: href(`/pools/${encodeURIComponent(name)}`) }, text);
export const holderLink = (name) => h("a", { class: "name", href: href(`/holders/${encodeURIComponent(name)}`) }, name);

export function since(ms, ago = false) {
  const data = { since: String(ms), ...(ago && { ago: "1" }) };
  return time(ms, data);
}

export function until(ms) {
  return time(ms, { until: String(ms) });
}

function time(ms, data) {
  const attributes = Object.fromEntries(Object.entries(data).map(([name, value]) => [`data-${name}`, value]));
  return h("time", { datetime: new Date(ms).toISOString(), title: wholeMoment(ms), ...attributes }, tickText(data));
}

export function at(ms) {
  return h("time", { datetime: new Date(ms).toISOString(), title: wholeMoment(ms) }, moment(ms));
}

/** Few units as squares, many as a bar. */
export function use({ used, size, waiters }, { wide = false } = {}) {
  const text = `${used} of ${size} in use`;
  const attributes = { class: `use${waiters ? " wanted" : ""}${wide ? " wide" : ""}`, role: "img", "aria-label": text, title: text };
  if (size > 0 && size <= (wide ? 24 : 10)) {
    const cells = Array.from({ length: Math.max(size, Math.min(used, 24)) }, (_, at) =>
      h("i", { class: at >= size ? "over" : at < used ? "on" : null }),
    );
    return h("span", { ...attributes, class: `${attributes.class} cells` }, cells);
  }
  const share = size > 0 ? Math.min(1, used / size) : used > 0 ? 1 : 0;
  return h("span", attributes, h("i", { class: "on", style: { width: `${share * 100}%` } }));
}

const STATES = { in_service: "in service", drained: "drained", quarantined: "quarantined" };

export const stateOf = (condition) => condition?.state ?? "in_service";
export const stateWord = (condition) => STATES[stateOf(condition)];

export function badge(condition, { quiet = true } = {}) {
  const state = stateOf(condition);
  if (state === "in_service" && quiet) return null;
  return h("span", { class: `badge ${state}`, title: condition?.note }, STATES[state]);
}

export function poolBadges(pool) {
  return [badge(pool.condition), pool.returns_at_ms && h("span", { class: "muted" }, "returns ", until(pool.returns_at_ms)), pool.removing && h("span", { class: "badge removing" }, "being removed")];
}

/** What kind of pool it is, in words. */
export function kindOf(pool) {
  if (pool.window_ms) return `at most ${pool.size} in any ${length(pool.window_ms)}`;
  if (pool.named) return pool.size === 1 ? "1 named resource" : `${pool.size} named resources`;
  return pool.size === 1 ? "a lock" : `${pool.size} units`;
}

export function units(count, named = false) {
  const what = named ? "resource" : "unit";
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

/** What somebody waits for. */
export function wants(waiter, named) {
  const amount = waiter.all ? "everything" : units(waiter.units ?? 1, named);
  const more = also(waiter.also ?? waiter.waits_also);
  if (!waiter.select && !waiter.dirty && !more) return amount;
  const select = waiter.select && [" where ", h("code", null, waiter.select)];
  return h("span", { class: "wants", title: waiter.select }, amount, waiter.dirty && " to clean", select, more);
}

/** What a set has, or wants, of further pools. */
export function also(parts) {
  if (!parts?.length) return null;
  return h(
    "span",
    { class: "also" },
    parts.map((part, at) => [at === 0 ? " with " : ", ", partOf(part), " of ", poolLink(part.pool)]),
  );
}

/** How much of one pool, in words. */
export function partOf(part) {
  if (part.resources?.length) return part.resources.join(", ");
  if (part.all) return "everything";
  return `${part.units ?? 1}${part.select ? ` where ${part.select}` : ""}`;
}

/** What happened to a set, as seen from one of its pools; nothing if it is not one of them. */
export function within(pool, event) {
  if (event.pool === pool) return event;
  const parts = event.waits_also ?? event.also ?? [];
  const own = parts.find((part) => part.pool === pool);
  if (!own) return null;
  const { units, resources, all, select } = event;
  const others = [{ pool: event.pool, units, resources, all, select }, ...parts.filter((part) => part !== own)];
  const seen = { ...event, units: own.units, resources: own.resources, all: own.all, select: own.select, pool };
  return { ...seen, [event.waits_also ? "waits_also" : "also"]: others };
}

export function labels(map, without = []) {
  const entries = Object.entries(map ?? {}).filter(([name]) => !without.includes(name));
  if (!entries.length) return null;
  const label = ([name, value]) =>
    h("span", { class: "label" }, h("span", null, name), value !== "" && h("b", null, value));
  return h("span", { class: "labels" }, entries.map(label));
}

/** Why somebody holds or waits, if they said so. */
export const reasonOf = (meta) => meta?.reason ?? meta?.why ?? meta?.command ?? null;
export const REASONS = ["reason", "why"];

const LIFETIMES = {
  leased: "a lease: it ends at its deadline unless it is renewed",
  session: "ends with its session",
  window: "a place in a rate window: it ends by itself",
  kept: "kept until it is released",
  bound: "ends with its owner",
};

/** When a hold ends, or what it ends with. */
export function ends(hold) {
  const title = LIFETIMES[hold.lifetime];
  if (hold.deadline_ms) return h("span", { title }, until(hold.deadline_ms));
  const words = { session: ["with session ", hold.session], kept: ["when released"], bound: ["with its owner"] };
  return h("span", { class: "muted", title: hold.owner ?? title }, words[hold.lifetime] ?? "—");
}

export function none(text = "—") {
  return h("span", { class: text === "—" ? "muted none" : "muted" }, text);
}

/** What to type, in a box that is easy to copy from. */
export function command(text) {
  return h("pre", { class: "command", tabindex: "0", "aria-label": "Command" }, h("code", null, text));
}

export function card(title, ...children) {
  return h("section", { class: "card" }, title && h("h2", null, title), children);
}

export function problem(error) {
  const refusal = error?.refusal;
  if (!refusal) return h("p", { class: "problem" }, "The server cannot be reached. This page goes on by itself when it is back.");
  return h("p", { class: "problem" }, sentences(refusal.message, refusal.advice));
}

/** What the server says, lower case and with names in backticks, as it stands on a page. */
export function sentences(...said) {
  const named = said.filter(Boolean).map((text) => text.replace(/`([^`]*)`/g, "“$1”"));
  return named.map((text) => `${text[0].toUpperCase()}${text.slice(1)}.`).join(" ");
}

export const number = (count) => count.toLocaleString();
