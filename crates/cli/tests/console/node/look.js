// How it looks and reads: at the width of a phone, in the dark, in another time zone, to a screen reader, and within the policy.
"use strict";

const fs = require("node:fs");
const { fact, flow, picture, shows, until } = require("./browser.js");

const VIEWS = ["#/", "#/pools/gpus", "#/pools/db", "#/holders/backup", "#/sessions", "#/history", "#/search?text=rack", "#/pools/nowhere"];
const NAMES = ["overview", "pool", "lock", "holder", "sessions", "history", "search", "unknown"];
const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const settled = (page) => page.waitForFunction(() => !document.querySelector("main").innerText.includes("Loading…") && !document.querySelector("main").innerText.includes("Looking…"));

async function stage(api) {
  const labels = [{ mem: "40", zone: "eu" }, { mem: "80", zone: "eu" }, { mem: "80", zone: "us" }, { mem: "24", zone: "us", old: "" }];
  await api.set("gpus", { resources: labels.map((labels, at) => ({ name: `gpu-${at + 1}`, labels })) });
  await api.acquire("gpus", "trainer-1", { select: "mem >= 80", meta: { reason: "run 118", host: "rack-1" } });
  await api.acquire("gpus", "trainer-2", { select: "mem >= 80", meta: { host: "rack-2" } });
  await api.wait("gpus", "trainer-3", { select: "mem >= 80 && zone == eu" });
  await api.acquire("db", "backup", { meta: { reason: "nightly dump", host: "rack-7" } });
  await api.wait("db", "migration", { meta: { reason: "schema 42" } });
  await api.wait("db", "vacuum", { wait_forever: undefined, wait_ms: 900_000 });
  await api.wait("db", "audit", { priority: 5 });
  await api.set("permits", { units: 3 });
  for (const at of [1, 2, 3]) await api.acquire("permits", `web-${at}`);
  for (const at of [1, 2, 3, 4, 5]) await api.wait("permits", `worker-${at}`);
  for (let at = 0; at < 12; at++) await api.acquire("geocoder", `caller-${at % 3}`, { size: 30, lifetime: "window", ttl_ms: 3_600_000 });
  const session = await api.session("scheduler", { meta: { host: "rack-3" } });
  await api.acquire("leader", "scheduler", { ttl_ms: undefined, session_key: session.session_key });
  for (let at = 0; at < 20; at++) {
    const grant = await api.acquire("deploys", `deploy-${at % 4}`);
    await api.release(grant);
  }
  await api.set("printer", { units: 1 });
  await api.condition("printer", { state: "quarantined", note: "smells of smoke" });
}

async function isReadable(page, view) {
  await page.evaluate((script) => new Function(script)(), fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const told = violations.map((it) => `${it.id}: ${it.help}: ${it.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
  if (told.length) throw new Error(`${view}: ${told.join("\n")}`);
}

async function everyControlHasAName(page, view) {
  const tree = await page.accessibility.snapshot({ interestingOnly: true });
  const nameless = [];
  const walk = (node) => {
    const isControl = ["button", "link", "textbox", "searchbox", "checkbox", "combobox", "spinbutton"].includes(node.role);
    if (isControl && !node.name) nameless.push(node.role);
    for (const child of node.children ?? []) walk(child);
  };
  walk(tree);
  if (nameless.length) throw new Error(`${view}: without a name: ${nameless.join(", ")}`);
}

flow(async ({ page, api, view }) => {
  await stage(api);
  await page.emulateTimezone("Asia/Tokyo");
  await view("#/pools/db");
  await shows(page, "backup", ".list.places .row");
  const { at_ms: at } = (await api.get("/history?pool=db&kind=granted")).events[0];
  const hours = (zone) => new Intl.DateTimeFormat("en-US", { timeZone: zone, hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(at);
  await shows(page, hours("Asia/Tokyo"), ".list.events .row");
  await page.emulateTimezone("Europe/Berlin");
  await page.reload();
  await shows(page, hours("Europe/Berlin"), ".list.events .row");
  fact("times are those of the reader's zone");

  const ends = () => page.$eval(".list.places time[data-until]", (time) => time.textContent);
  const before = await ends();
  await until(async () => (await ends()) !== before);
  fact("what is left is counted down");

  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    for (const [at, hash] of VIEWS.entries()) {
      await view(hash);
      await settled(page);
      await everyControlHasAName(page, hash);
      await picture(page, `${NAMES[at]}${scheme === "dark" ? "-dark" : ""}`);
    }
  }
  const dark = await ground(page);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
  if (dark === (await ground(page))) throw new Error(`light and dark are both ${dark}`);
  fact("light and dark follow the reader");
  fact("every control has a name");

  for (const width of [390, 320]) {
    await page.setViewport({ width, height: 844, hasTouch: true, isMobile: true });
    for (const [at, hash] of VIEWS.entries()) {
      await view(hash);
      await settled(page);
      const [content, room] = await page.evaluate(() => [document.scrollingElement.scrollWidth, document.documentElement.clientWidth]);
      if (content > room) throw new Error(`${hash} is ${content} wide on a phone of ${room}`);
      if (width === 390) await picture(page, `${NAMES[at]}-phone`);
    }
  }
  fact("no view scrolls sideways on a phone");

  // What looks for mistakes is itself a script that the policy would not let in.
  await page.setBypassCSP(true);
  await page.setViewport({ width: 1280, height: 860 });
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.reload({ waitUntil: "load" });
    for (const hash of VIEWS) {
      await view(hash);
      await settled(page);
      await isReadable(page, `${hash} (${scheme})`);
    }
  }
  await page.click("#keys");
  await isReadable(page, "keys");
  fact("nothing stands in the way of those who cannot see it, or not well");
});
