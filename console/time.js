// Times as people read them: in their own zone, and as what is left or has passed. The server's clock is the one that counts;
// how far this one is off is learned from every answer.

let [least, most] = [-Infinity, Infinity];

/** An answer that left between two moments of this clock and says which second it was. */
export function learn(date, sent, received) {
  const second = Date.parse(date ?? "");
  if (Number.isNaN(second)) return;
  const [low, high] = [second - received, second + 999 - sent];
  // A clock that was set makes what was learned before wrong.
  if (low > most || high < least) [least, most] = [low, high];
  else [least, most] = [Math.max(least, low), Math.min(most, high)];
}

/** The server's time. */
export function now() {
  const offset = least > 0 ? least : most < 0 ? most : 0;
  return Date.now() + offset;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const shortClock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

export function moment(ms) {
  const at = new Date(ms);
  const today = at.toDateString() === new Date().toDateString();
  return today ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}

export function shortMoment(ms) {
  return shortClock.format(new Date(ms));
}

export function wholeMoment(ms) {
  return full.format(new Date(ms));
}

/** A span: two parts at most, and only as fine as is worth reading. */
export function span(ms) {
  if (ms < 1000) return ms < 1 ? "0 s" : `${Math.max(0.1, Math.round(ms / 100) / 10)} s`;
  const seconds = Math.floor(ms / 1000);
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  const [count, unit] = parts[first];
  const next = parts[first + 1];
  const fine = next && next[0] > 0 && (unit !== "min" || count < 10);
  return fine ? `${count} ${unit} ${next[0]} ${next[1]}` : `${count} ${unit}`;
}

/** A length that was set rather than measured. */
export function length(ms) {
  return ms % 1000 && ms < 10_000 ? `${ms} ms` : span(ms);
}

export function tickText(data) {
  const at = now();
  if (data.until) {
    const left = Number(data.until) - at;
    return left > 0 ? `in ${span(Math.max(1000, Math.ceil(left / 1000) * 1000))}` : "now";
  }
  const passed = at - Number(data.since);
  const text = passed < 1000 ? "just now" : span(passed);
  return data.ago && passed >= 1000 ? `${text} ago` : text;
}

/** Counts all times on the page on, once a second. */
export function startTicking() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time[data-until], time[data-since]")) {
      const text = tickText(element.dataset);
      if (element.textContent !== text) element.textContent = text;
      if (element.dataset.until) element.classList.toggle("soon", Number(element.dataset.until) - now() < 10_000);
    }
  }, 1000);
}
