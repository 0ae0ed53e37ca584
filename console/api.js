// The public REST API, as everybody may use it.

import { learn } from "./time.js";

export const BASE = "/api/v1";

/** What the server says no to, with its reason and what to do now. */
export class Refused extends Error {
  constructor(refusal, status) {
    super(refusal.message);
    this.refusal = refusal;
    this.status = status;
  }
}

let namespace = "default";

export function setNamespace(name) {
  namespace = name;
}

export function namespaceNow() {
  return namespace;
}

export function address(path, query = {}) {
  const parameters = new URLSearchParams();
  if (namespace !== "default") parameters.set("namespace", namespace);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") parameters.set(name, value);
  }
  const text = parameters.toString();
  return BASE + path + (text ? `?${text}` : "");
}

export async function call(method, path, { query, body, signal } = {}) {
  const options = { method, signal, cache: "no-store" };
  if (body !== undefined) {
    options.headers = { "content-type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const sent = Date.now();
  const response = await fetch(address(path, query), options);
  learn(response.headers.get("date"), sent, Date.now());
  // One that is broken off halfway is no answer, and not an empty one either.
  if (response.ok) return response.json();
  const answer = await response.json().catch(() => ({}));
  const unknown = { code: `http_${response.status}`, message: `the server answered ${response.status}`, advice: "" };
  throw new Refused(answer.error ?? unknown, response.status);
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const pool = (name) => `/pools/${encodeURIComponent(name)}`;

export function post(path, body) {
  return call("POST", path, { body: namespace === "default" ? body : { namespace, ...body } });
}

export const put = (path, body, query) => call("PUT", path, { body, query });

/** The pages of a listing, one after another. */
export async function* pages(path, query, what, signal) {
  let after;
  do {
    const page = await get(path, { limit: 1000, ...query, after }, signal);
    after = page.next;
    yield { items: page[what], more: after !== undefined };
  } while (after !== undefined);
}

export async function all(path, query, what, { max = Infinity, signal } = {}) {
  const items = [];
  for await (const page of pages(path, query, what, signal)) {
    items.push(...page.items);
    if (items.length >= max) return { items, more: page.more };
  }
  return { items, more: false };
}
