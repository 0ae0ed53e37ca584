// What happens, as it does: one stream of events for the whole page. It is taken up again where it broke off, and whoever
// listens is told when it is stale. A server that does more than a page can follow is looked at from time to time instead.

import { address, get } from "./api.js";
import { learn } from "./time.js";

/** The server says something every 15 s, if only how far it has come. */
const SILENCE_MAX = 40_000;
const PAUSES = [300, 700, 1500, 3000, 5000];
/** Beyond this many events a second, for as long as this, reading them costs the server more than asking now and then. */
const RATE_MAX = 3000;
const RATE_SECONDS = 3;
const LOOK_INTERVAL = 2000;
const LOOK_FOR = 20_000;
const EVENTS_TOGETHER = 60;

const listeners = { events: new Set(), refresh: new Set(), status: new Set() };

export const live = {
  /** `connecting`, `live`, `stale` or `busy`. */
  status: "connecting",
  /** When the last word came from the server, by this clock. */
  heard: Date.now(),
  /** The last event that was seen. */
  last: null,
  start,
  on,
};

let running = null;
let waiting = [];
let flush = 0;

/** Hears of `events` (a list), `refresh` (anything may have changed) or `status`, until the function it gives is called. */
function on(what, listener) {
  listeners[what].add(listener);
  return () => listeners[what].delete(listener);
}

function tell(what, news) {
  for (const listener of [...listeners[what]]) listener(news);
}

function setStatus(status) {
  if (live.status === status) return;
  live.status = status;
  tell("status", status);
}

function start() {
  running?.abort();
  running = new AbortController();
  live.last = null;
  waiting = [];
  setStatus("connecting");
  follow(running.signal);
}

async function follow(stopped) {
  let tries = 0;
  while (!stopped.aborted) {
    let ended;
    try {
      live.last ??= await newest(stopped);
      ended = await listen(stopped, () => (tries = 0));
    } catch {
      ended = "lost";
    }
    if (stopped.aborted) return;
    if (ended === "busy") {
      live.last = null;
      if (await lookNowAndThen(stopped)) continue;
    }
    setStatus("stale");
    await pause(PAUSES[Math.min(tries++, PAUSES.length - 1)], stopped);
  }
}

/** The number of the newest event, so that nothing is missed between what is asked next and what is heard. */
async function newest(stopped) {
  const page = await get("/history", { newest_first: true, limit: 1 }, stopped);
  return page.events[0]?.seq ?? page.next ?? 0;
}

/** Until the stream breaks off. */
async function listen(stopped, opened) {
  const ending = new AbortController();
  const stop = () => ending.abort();
  stopped.addEventListener("abort", stop);
  let silence = setTimeout(stop, SILENCE_MAX);
  try {
    const headers = { accept: "text/event-stream", "last-event-id": String(live.last) };
    const sent = Date.now();
    const response = await fetch(address("/watch"), { headers, signal: ending.signal, cache: "no-store" });
    learn(response.headers.get("date"), sent, Date.now());
    if (!response.ok) {
      // Too old to be taken up, or of a server that has lost its memory: from now on, then.
      if (response.status === 410 || response.status === 400) live.last = null;
      return "lost";
    }
    opened();
    live.heard = Date.now();
    setStatus("live");
    tell("refresh");
    const rate = new Rate();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "lost";
      clearTimeout(silence);
      silence = setTimeout(stop, SILENCE_MAX);
      live.heard = Date.now();
      const messages = (text + value).split("\n\n");
      text = messages.pop();
      const events = messages.map(parse).filter(Boolean);
      if (events.length) {
        hand(events);
        if (rate.isTooHigh(events.length)) return "busy";
      }
    }
  } finally {
    clearTimeout(silence);
    stopped.removeEventListener("abort", stop);
    ending.abort();
  }
}

function parse(message) {
  let data = "";
  let kind = "message";
  for (const line of message.split("\n")) {
    if (line.startsWith("id:")) live.last = Number(line.slice(3));
    else if (line.startsWith("data:")) data += line.slice(5);
    else if (line.startsWith("event:")) kind = line.slice(6).trim();
  }
  if (kind !== "message") {
    live.last = null;
    return null;
  }
  return data ? JSON.parse(data) : null;
}

/** Many events come together; those who draw draw once. */
function hand(events) {
  waiting.push(...events);
  flush ||= setTimeout(() => {
    flush = 0;
    const events = waiting;
    waiting = [];
    tell("events", events);
  }, EVENTS_TOGETHER);
}

class Rate {
  second = 0;
  count = 0;
  seconds = 0;

  isTooHigh(events) {
    const second = Math.floor(Date.now() / 1000);
    if (second !== this.second) {
      this.seconds = this.count > RATE_MAX && second === this.second + 1 ? this.seconds + 1 : 0;
      [this.second, this.count] = [second, 0];
    }
    this.count += events;
    return this.seconds >= RATE_SECONDS;
  }
}

/** Whether the server was there all the time. */
async function lookNowAndThen(stopped) {
  setStatus("busy");
  const until = Date.now() + LOOK_FOR;
  try {
    while (!stopped.aborted && Date.now() < until) {
      tell("refresh");
      await pause(LOOK_INTERVAL, stopped);
      await get("/pools", { limit: 1 }, stopped);
      live.heard = Date.now();
    }
    return true;
  } catch {
    return false;
  }
}

function pause(ms, stopped) {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      removeEventListener("online", over);
      stopped.removeEventListener("abort", over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    addEventListener("online", over);
    stopped.addEventListener("abort", over);
  });
}
