// Small pictures: how much happened over the last minutes, and who held what when. Each says in words what it shows.

import { h, svg } from "./dom.js";
import { moment, now, shortMoment, span } from "./time.js";

export const BUCKET = 10_000;
export const BUCKETS = 60;

/** Counts what happens, in steps of ten seconds. */
export class Activity {
  /** From when on everything is counted. */
  from = now();
  buckets = new Map();

  add(events) {
    for (const event of events) {
      if (event.kind !== "granted" && event.kind !== "queued") continue;
      const bucket = this.bucket(Math.floor(event.at_ms / BUCKET));
      if (event.kind === "queued") bucket.queued++;
      else {
        bucket.granted++;
        if (event.waiter !== undefined) bucket.waited = Math.max(bucket.waited, event.at_ms - (event.since_ms ?? event.at_ms));
      }
    }
    const oldest = Math.floor(now() / BUCKET) - BUCKETS - 2;
    for (const at of this.buckets.keys()) if (at < oldest) this.buckets.delete(at);
  }

  bucket(at) {
    let bucket = this.buckets.get(at);
    if (!bucket) this.buckets.set(at, (bucket = { granted: 0, queued: 0, waited: 0 }));
    return bucket;
  }

  /** The last ten minutes, oldest first; null where nobody looked. */
  series(what) {
    const last = Math.floor(now() / BUCKET);
    return Array.from({ length: BUCKETS }, (_, step) => {
      const at = last - BUCKETS + 1 + step;
      if ((at + 1) * BUCKET <= this.from) return null;
      return this.buckets.get(at)?.[what] ?? 0;
    });
  }
}

/** Bars over the last ten minutes, with the most of them in words. */
export function bars(title, series, text) {
  const known = series.filter((value) => value !== null);
  const most = Math.max(0, ...known);
  const [width, height] = [300, 56];
  const step = width / series.length;
  const shapes = series.map((value, at) => {
    if (value === null) return null;
    const tall = most > 0 ? Math.max(value > 0 ? 2 : 0, (value / most) * (height - 4)) : 0;
    return svg("rect", { x: (at * step + 0.6).toFixed(2), y: (height - tall).toFixed(2), width: (step - 1.2).toFixed(2), height: tall.toFixed(2), rx: 1 });
  });
  const unseen = series.length - known.length;
  const gap = unseen > 0 && svg("rect", { class: "unseen", x: 0, y: 0, width: (unseen * step).toFixed(2), height });
  const said = most > 0 ? `peak ${text(most)}` : "none";
  return h(
    "figure",
    { class: "plot" },
    h("figcaption", null, h("span", null, title), h("b", null, said)),
    svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${said}` },
      gap,
      shapes,
      svg("line", { x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
    ),
    h("div", { class: "axis", "aria-hidden": "true" }, h("span", null, "10 min ago"), h("span", null, "now")),
  );
}

/** Holds out of events: from the grant to the end, as far as they are known. */
export function heldOf(events, holds = []) {
  const byToken = new Map();
  const ordered = [...events].sort((a, b) => a.seq - b.seq);
  for (const hold of holds) byToken.set(hold.token, { ...hold, from: hold.since_ms, to: null });
  for (const event of ordered) {
    if (event.kind === "granted") {
      const { pool, holder, token, resources, units } = event;
      if (!byToken.has(token)) byToken.set(token, { pool, holder, token, resources, units, from: event.at_ms, to: null });
    } else if (event.kind === "ended") {
      const known = byToken.get(event.token);
      if (known) Object.assign(known, { to: event.at_ms, how: event.how });
      else byToken.set(event.token, { ...event, from: event.since_ms, to: event.at_ms });
    }
  }
  return [...byToken.values()];
}

const LANES_MAX = 24;
const LANE = 26;
const LANE_NAME_MAX = 26;
const WIDTH_MIN = 620;

/** Who held what when: a lane a resource, or as many as held at the same time. */
export function gantt(held, { from, to, byPool = false, label, width: room = 0 }) {
  const shown = held.filter((hold) => (hold.to ?? to) > from && hold.from < to).sort((a, b) => a.from - b.from);
  const lanes = layOut(shown, byPool);
  const names = [...lanes.keys()].slice(0, LANES_MAX);
  const width = Math.max(WIDTH_MIN, (room || 900) - 34);
  const longest = Math.max(4, ...names.map((name) => Math.min(LANE_NAME_MAX, [...lanes.get(name).title].length)));
  const left = 14 + longest * 7;
  const height = names.length * LANE + 26;
  const x = (ms) => left + ((Math.min(Math.max(ms, from), to) - from) / (to - from)) * (width - left);
  const marks = ticks(from, to);
  const fine = marks.length > 1 && marks[1] - marks[0] < 60_000;
  const axis = marks.map((ms, at) => [
    svg("line", { class: "grid", x1: x(ms).toFixed(1), x2: x(ms).toFixed(1), y1: 0, y2: height - 20 }),
    svg(
      "text",
      { class: "tick", x: x(ms).toFixed(1), y: height - 5, "text-anchor": at === marks.length - 1 && x(ms) > width - 40 ? "end" : "middle" },
      fine ? moment(ms) : shortMoment(ms),
    ),
  ]);
  const drawn = names.map((name, lane) => [
    svg("text", { class: "lane", x: left - 10, y: lane * LANE + 17, "text-anchor": "end" }, shorten(lanes.get(name).title, LANE_NAME_MAX)),
    lanes.get(name).holds.map((hold) => bar(hold, lane, x, to)),
  ]);
  const hidden = lanes.size - names.length;
  const scroller = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${label}, as a picture` });
  // Now is at the right, and what is now comes first.
  requestAnimationFrame(() => (scroller.scrollLeft = scroller.scrollWidth));
  const words = `${label}: ${shown.length} hold${shown.length === 1 ? "" : "s"} from ${moment(from)} to ${moment(to)}`;
  scroller.append(svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words }, axis, drawn));
  return h(
    "figure",
    { class: "gantt" },
    scroller,
    hidden > 0 && h("figcaption", { class: "muted" }, `${hidden} more lanes are not drawn; a shorter time or one pool shows them.`),
  );
}

function bar(hold, lane, x, to) {
  const [start, end] = [x(hold.from), x(hold.to ?? to)];
  const wide = Math.max(2.5, end - start);
  const how = hold.to ? `until ${moment(hold.to)} (${(hold.how ?? "ended").replaceAll("_", " ")}), ${span(hold.to - hold.from)}` : "still";
  const title = `${hold.holder} held ${hold.pool}, token ${hold.token}, from ${moment(hold.from)} ${how}`;
  const fits = Math.floor((wide - 10) / 7);
  return svg(
    "g",
    { class: `bar tone${tone(hold.holder ?? "")}${hold.to ? "" : " open"}${hold.how === "forced" ? " lost" : ""}` },
    svg("title", null, title),
    svg("rect", { x: start.toFixed(1), y: lane * LANE + 3, width: wide.toFixed(1), height: LANE - 7, rx: 3 }),
    fits >= 3 && svg("text", { x: (start + 6).toFixed(1), y: lane * LANE + 17 }, shorten(hold.holder, fits)),
  );
}

function layOut(holds, byPool) {
  const lanes = new Map();
  const put = (name, title, hold) => {
    if (!lanes.has(name)) lanes.set(name, { title, holds: [], free: -Infinity });
    lanes.get(name).holds.push(hold);
    lanes.get(name).free = hold.to ?? Infinity;
  };
  for (const hold of holds) {
    const group = byPool ? hold.pool : "";
    if (hold.resources?.length) {
      for (const resource of hold.resources) put(`${group}\n${resource}`, byPool ? `${hold.pool} ${resource}` : resource, hold);
      continue;
    }
    let lane = 1;
    while ((lanes.get(`${group}\n#${lane}`)?.free ?? -Infinity) > hold.from) lane++;
    put(`${group}\n#${lane}`, byPool ? (lane > 1 ? `${hold.pool} ${lane}` : hold.pool) : `unit ${lane}`, hold);
  }
  return new Map([...lanes].sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true })));
}

function ticks(from, to) {
  const steps = [10, 30, 60, 120, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800].map((it) => it * 1000);
  const step = steps.find((it) => (to - from) / it <= 8) ?? 604_800_000;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

/** The same holder has the same colour everywhere. */
export function tone(text) {
  let hash = 7;
  for (const character of text) hash = (hash * 31 + character.codePointAt(0)) >>> 0;
  return hash % 8;
}

function shorten(text, most) {
  const characters = [...(text ?? "")];
  return characters.length <= most ? characters.join("") : `${characters.slice(0, Math.max(1, most - 1)).join("")}…`;
}
