// A browser on the console, as the flows use it. Whatever the browser complains of fails the flow.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const puppeteer = require("puppeteer-core");

/** Much longer than anything should take. */
const LIMIT = 60_000;

/** Runs a flow; each fact that it has seen becomes a line. */
async function flow(play) {
  const [base] = process.argv.slice(2);
  const args = ["--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"];
  // Its own fence needs rights that are not there for the superuser of a container.
  if (process.getuid() === 0) args.push("--no-sandbox");
  const browser = await puppeteer.launch({ executablePath: chromium(), args, protocolTimeout: 180_000 });
  const complaints = [];
  try {
    const page = await open(browser, complaints);
    await play({ page, base, api: apiOf(base), view: (hash) => view(page, base, hash), complaints });
    const unexpected = complaints.filter((it) => !it.expected);
    if (unexpected.length) throw new Error(`the browser complained: ${unexpected.map((it) => it.text).join("; ")}`);
  } catch (error) {
    process.exitCode = 1;
    console.error(error);
  } finally {
    await browser.close();
    // Those who still wait would keep it.
    process.exit();
  }
}

/** Where the system has it. */
function chromium() {
  const places = (process.env.PATH ?? "").split(path.delimiter).map((folder) => path.join(folder, "chromium"));
  const found = places.find((place) => fs.existsSync(place));
  if (!found) throw new Error("chromium is not installed: `cargo xtask tools` does it");
  return found;
}

async function open(browser, complaints) {
  const page = await browser.newPage();
  page.setDefaultTimeout(LIMIT);
  await page.setViewport({ width: 1280, height: 860 });
  page.on("pageerror", (error) => complaints.push({ text: error.stack ?? String(error) }));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warn") {
      // What the server refuses on purpose shows there too, and so does a server that is away.
      const expected = /status of (404|409)|ERR_(CONNECTION|INCOMPLETE|EMPTY|NETWORK|SOCKET_NOT_CONNECTED)/.test(message.text());
      complaints.push({ text: message.text(), expected });
    }
  });
  await page.evaluateOnNewDocument(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`against the policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  return page;
}

async function view(page, base, hash) {
  const there = page.url().split("#")[0] === `${base}/`;
  if (there) await page.evaluate((hash) => (location.hash = hash), hash);
  else await page.goto(`${base}/${hash}`, { waitUntil: "load" });
  await page.waitForFunction(() => document.querySelector("#pulse").dataset.status === "live");
}

/** What other programs do meanwhile. */
function apiOf(base) {
  const call = async (method, route, body) => {
    const headers = body ? { "content-type": "application/json" } : {};
    const answer = await fetch(`${base}/api/v1${route}`, { method, headers, body: body && JSON.stringify(body) });
    return answer.json();
  };
  return {
    acquire: (pool, holder, more = {}) => call("POST", "/acquire", { pool, holder, ttl_ms: 600_000, ...more }),
    release: (grant) => call("POST", "/release", { key: grant.key }),
    session: (holder, more = {}) => call("POST", "/sessions", { holder, grace_ms: 600_000, ...more }),
    set: (pool, spec) => call("PUT", `/pools/${encodeURIComponent(pool)}`, spec),
    condition: (pool, condition) => call("PUT", `/pools/${encodeURIComponent(pool)}/condition`, condition),
    post: (route, body) => call("POST", route, body),
    get: (route) => call("GET", route),
    /** Waits in the background, until the queue is known to have so many. */
    async wait(pool, holder, more = {}) {
      const before = (await call("GET", `/pools/${encodeURIComponent(pool)}/queue`)).waiters?.length ?? 0;
      call("POST", "/acquire", { pool, holder, ttl_ms: 600_000, wait_forever: true, ...more }).catch(() => {});
      await until(async () => (await call("GET", `/pools/${encodeURIComponent(pool)}/queue`)).waiters.length > before);
    },
  };
}

async function until(condition) {
  const end = Date.now() + LIMIT;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`it does not come about that ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Waits until the page, or a part of it, has a text. */
async function shows(page, text, selector = "body") {
  const has = (selector, text) => [...document.querySelectorAll(selector)].some((it) => it.innerText.replace(/\s+/g, " ").includes(text));
  try {
    await page.waitForFunction(has, {}, selector, text);
  } catch {
    const there = await page.$$eval(selector, (found) => found.map((it) => it.innerText).join("\n---\n"));
    throw new Error(`${selector} does not show “${text}” but\n${there}`);
  }
}

async function showsNot(page, text, selector = "body") {
  const has = (selector, text) => ![...document.querySelectorAll(selector)].some((it) => it.innerText.replace(/\s+/g, " ").includes(text));
  await page.waitForFunction(has, {}, selector, text);
}

function fact(text) {
  console.log(text);
}

/** Those that the docs show. */
const PICTURES = ["overview", "overview-dark", "pool", "history-dark", "lock-phone", "too-late", "large"];

/** For the docs, if pictures are wanted. */
async function picture(page, name) {
  const folder = process.env.TENURE_CONSOLE_PICTURES;
  if (!folder || !PICTURES.includes(name)) return;
  await page.screenshot({ path: path.join(folder, `${name}.png`), optimizeForSpeed: false });
}

let lines = null;

/** The next line that the test says. */
function told() {
  lines ??= readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  return lines.next().then(({ value }) => value);
}

const count = (page, selector) => page.$$eval(selector, (found) => found.length);

module.exports = { LIMIT, count, fact, flow, picture, shows, showsNot, told, until };
