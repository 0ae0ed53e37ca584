// No mouse: from an empty field to a released lock by keys alone.
"use strict";

const { fact, flow, shows } = require("./browser.js");

const focused = (page) => page.evaluate(() => document.activeElement?.textContent?.trim() || document.activeElement?.getAttribute("aria-label") || document.activeElement?.id);

async function until(page, wanted) {
  const passed = [];
  for (let steps = 0; steps < 60; steps++) {
    const now = await focused(page);
    if (now === wanted) return;
    passed.push(now);
    await page.keyboard.press("Tab");
  }
  throw new Error(`${wanted} cannot be reached by Tab, only ${passed.join(", ")}`);
}

flow(async ({ page, api, view }) => {
  for (const pool of ["alpha", "beta", "gamma"]) await api.acquire(pool, `holder-${pool}`);
  await view("#/");
  await shows(page, "gamma", ".list.pools .row");
  await page.keyboard.press("Tab");
  if ((await focused(page)) !== "Skip to the content") throw new Error(`the first is ${await focused(page)}`);
  await page.keyboard.press("Enter");
  if ((await page.evaluate(() => document.activeElement.id)) !== "main") throw new Error("the content was not reached");
  fact("the first stop leads past the header");

  await page.keyboard.press("?");
  await shows(page, "Keys", "dialog[open]");
  await page.keyboard.press("Escape");
  fact("the keys explain themselves");

  await page.keyboard.press("j");
  await page.keyboard.press("j");
  if ((await focused(page)) !== "beta") throw new Error(`j chose ${await focused(page)}`);
  await page.keyboard.press("ArrowDown");
  if ((await focused(page)) !== "gamma") throw new Error(`the arrow chose ${await focused(page)}`);
  await page.keyboard.press("k");
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  if (ring === "none") throw new Error("it cannot be seen where the focus is");
  await page.keyboard.press("Enter");
  await shows(page, "holder-beta", ".list.places .row");
  if ((await focused(page)) !== "beta") throw new Error(`the heading does not have the focus, but ${await focused(page)}`);
  fact("rows are chosen and opened");

  await until(page, "Release by force");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.type("by keys alone");
  await page.keyboard.press("Enter");
  await shows(page, "Nobody has it.");
  fact("a lock is released by force");

  await page.keyboard.press("/");
  await page.keyboard.type("HOLDER-gam");
  await page.keyboard.press("Enter");
  await shows(page, "holder-gamma holds", ".list.found .row");
  await page.keyboard.press("Escape");
  await page.keyboard.press("o");
  await shows(page, "alpha", ".list.pools .row");
  await page.keyboard.press("h");
  await shows(page, "released by force", ".list.events .row");
  await page.keyboard.press("s");
  await shows(page, "Sessions", "h1");
  fact("every view has its key");
});
