// What an operator does about who is served next: reserve, quarantine for a time, move, give to another. And what the page tells of
// pools with such rules.
"use strict";

const { fact, flow, shows, showsNot, until } = require("./browser.js");

const press = async (page, label) => {
  const button = await page.waitForSelector(`button[aria-label="${label}"]`);
  await button.click();
  await page.waitForSelector("dialog[open]");
};
/** One of those that are behind “More”. */
const choose = async (page, about, label) => {
  await press(page, `More: ${about}`);
  await press(page, label);
};
const enter = (page, field, text) => page.type(`dialog [name=${field}]`, text);
const submit = (page) => page.click("dialog[open] button[type=submit]");
const closed = (page) => page.waitForFunction(() => !document.querySelector("dialog").open);
const tooLate = async (page, why) => {
  await shows(page, "Too late: nothing was done.", "dialog [role=alert]");
  await shows(page, why, "dialog [role=alert]");
  await page.keyboard.press("Escape");
  await closed(page);
};
const holders = async (api, route, what) => (await api.get(route))[what].map((it) => it.holder).join(" ");

flow(async ({ page, api, view }) => {
  await api.set("beds", { resources: [{ name: "bed-1" }, { name: "bed-2" }], cleaning: true });
  await view("#/pools/beds");
  await choose(page, "bed-1 of beds", "Reserve: bed-1 of beds");
  await enter(page, "holder", "ada");
  await shows(page, "Then only a request of ada gets “bed-1” of “beds”", "dialog");
  await enter(page, "lasts", "60");
  await shows(page, "for 1 h at most", "dialog");
  await enter(page, "reason", "arrives at noon");
  await submit(page);
  await closed(page);
  await shows(page, "for ada ends in", ".list.resources .badge");
  await shows(page, "bed-1 of beds was reserved for ada", ".list.events .row");
  await api.acquire("beds", "bob");
  await api.wait("beds", "carl");
  await shows(page, "“bed-1” is reserved for “ada” (arrives at noon)", ".list.queue .why");
  await page.click(".list.queue .told");
  await shows(page, "“carl” waits for 1 resource, at place 1", "dialog .sentences");
  await page.keyboard.press("Escape");
  await closed(page);
  fact("a resource is reserved, and those who wait are told so");

  await choose(page, "bed-1 of beds", "End the reservation: bed-1 of beds");
  await shows(page, "It is no longer kept for ada.", "dialog");
  await enter(page, "reason", "she called");
  await api.post("/reserve", { pool: "beds", resource: "bed-1", holder: "eve", instead_of: "ada", reason: "in her place" });
  await submit(page);
  await tooLate(page, "eve");
  await shows(page, "for eve", ".list.resources .badge");
  await choose(page, "bed-1 of beds", "End the reservation: bed-1 of beds");
  await enter(page, "reason", "nobody comes");
  await submit(page);
  await closed(page);
  await shows(page, "carl", ".list.resources .row");
  await showsNot(page, "for eve", ".list.resources");
  fact("a reservation that is another's by now is not ended");

  await press(page, "Quarantine: bed-2 of beds");
  await enter(page, "note", "broken leg");
  await enter(page, "lasts", "30");
  await shows(page, "for 30 min, unless it is returned before", "dialog");
  await submit(page);
  await closed(page);
  await shows(page, "returns in", ".list.resources .row");
  fact("a resource is quarantined for a time, and says when it returns");

  const held = await api.acquire("db", "backup");
  for (const holder of ["first", "second", "third"]) await api.wait("db", holder);
  const [, , third] = (await api.get("/pools/db/queue")).waiters;
  await view("#/pools/db");
  await press(page, `Move: third, waiter ${third.waiter} of db`);
  await shows(page, "third will be the next to be served, before everybody who waits.", "dialog");
  await enter(page, "reason", "customer waits");
  await submit(page);
  await closed(page);
  await shows(page, "1 third", ".list.queue .row");
  await shows(page, "“third”, who wants 1 unit, is served before it", ".list.queue .why");
  await shows(page, "third was put before all who wait for db: customer waits", ".list.events .row");
  fact("a waiter is moved to the front");

  const [, first, second] = (await api.get("/pools/db/queue")).waiters;
  await press(page, `Move: second, waiter ${second.waiter} of db`);
  await page.select("dialog select[name=before]", String(first.waiter));
  await shows(page, `second will be served directly before first (waiter ${first.waiter})`, "dialog");
  await enter(page, "reason", "smaller");
  await submit(page);
  await closed(page);
  await shows(page, "2 second", ".list.queue .row");
  await press(page, `Move: second, waiter ${second.waiter} of db`);
  await page.select("dialog select[name=before]", String(third.waiter));
  await enter(page, "reason", "smaller still");
  // Meanwhile that one is served.
  await api.release(held);
  await until(async () => (await holders(api, "/holds?pool=db", "holds")) === "third");
  await submit(page);
  await tooLate(page, `number ${third.waiter} does not wait`);
  if ((await holders(api, "/pools/db/queue", "waiters")) !== "second first") throw new Error("it was moved all the same");
  fact("a waiter is moved before another, unless that one waits no longer");

  const [of] = (await api.get("/holds?pool=db")).holds;
  const about = `db, third, token ${of.token}`;
  await choose(page, about, `Give to another: ${about}`);
  await shows(page, `third loses 1 unit of “db” (token ${of.token}) at once.`, "dialog");
  await enter(page, "to", "rescue");
  await shows(page, "rescue has it from the same moment on, with a new token, for 10 min unless it is renewed.", "dialog");
  await enter(page, "reason", "third is stuck");
  // Meanwhile another operator has released it, and the next has it.
  await api.post("/force-release", { pool: "db", holder: "third", token: of.token, reason: "stuck" });
  await until(async () => (await holders(api, "/holds?pool=db", "holds")) === "second");
  await submit(page);
  await tooLate(page, "“second” holds it");
  if ((await holders(api, "/holds?pool=db", "holds")) !== "second") throw new Error("it was taken all the same");
  fact("a hold that has moved on is not given to another");

  const [now] = (await api.get("/holds?pool=db")).holds;
  await choose(page, `db, second, token ${now.token}`, `Give to another: db, second, token ${now.token}`);
  await enter(page, "to", "rescue");
  await enter(page, "reason", "second is stuck");
  await submit(page);
  await shows(page, "rescue has db instead of second.", "dialog h2");
  const key = await page.$eval("dialog .command", (it) => it.innerText.trim());
  await page.keyboard.press("Escape");
  await closed(page);
  await shows(page, "rescue", ".list.places .row");
  await shows(page, "given to another by force after", ".list.events .row");
  await shows(page, "to rescue: second is stuck", ".list.events .row");
  await api.release({ key });
  await shows(page, "first", ".list.places .row");
  fact("a hold is given to another, with its key");

  await api.set("wards", { resources: [{ name: "ward" }], cleaning: true, fair: { by: "tenant", weights: { web: 3 } } });
  await api.release(await api.acquire("wards", "guest"));
  await view("#/pools/wards");
  await shows(page, "served in turn by tenant (web ×3)", ".summary");
  await shows(page, "cleaned after each hold: 1 dirty", ".summary");
  await shows(page, "dirty", ".list.resources .badge");
  await shows(page, "to be cleaned", ".list.resources .row");
  fact("turns and cleaning of a pool are told, and what is dirty");

  await api.set("gpus", { units: 4 });
  const set = await api.acquire("lock", "trainer", { also: [{ pool: "gpus", units: 3 }] });
  await view("#/pools/gpus");
  await shows(page, "3 units with 1 of lock", ".list.places .row");
  await api.wait("gpus", "next", { units: 2, also: [{ pool: "lock" }] });
  await shows(page, "2 units with 1 of lock", ".list.queue .row");
  await page.click(".list.queue .wants a");
  await shows(page, "1 unit with 3 of gpus", ".list.places .row");
  await api.release(set);
  await shows(page, "1 unit with 2 of gpus", ".list.places .row");
  await shows(page, "Nobody waits.");
  fact("a set shows what it has and wants of further pools");
});
