// Ten thousand pools and a queue of a hundred thousand: few rows are there, and all can be reached.
"use strict";

const { count, fact, flow, picture, shows } = require("./browser.js");

const ROWS_MAX = 120;

flow(async ({ page, api, view }) => {
  await view("#/");
  await shows(page, "10,001", ".totals");
  await shows(page, "100,000", ".totals");
  await shows(page, "busiest", ".list.pools .row");
  if ((await count(page, ".list.pools .rows .row")) > ROWS_MAX) throw new Error("too many rows are there");
  await picture(page, "large");
  fact("ten thousand pools are listed, the most contended first");

  await page.select(".tools select", "name");
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await shows(page, "pool-09999", ".list.pools .row");
  if ((await count(page, ".list.pools .rows .row")) > ROWS_MAX) throw new Error("too many rows are there");
  fact("the last of them can be scrolled to");
  await page.evaluate(() => scrollTo(0, 0));
  await page.type("#filter", "0777");
  await shows(page, "11 of 10,001");
  await shows(page, "pool-07770", ".list.pools .row");
  fact("one is found by a part of its name");

  await view("#/pools/busiest");
  await shows(page, "100,000", "h2");
  await shows(page, "job-0", ".list.queue .row");
  await shows(page, "“job-0”, who wants 1 unit, is served before it", ".list.queue .why");
  if ((await count(page, ".list.queue .rows .row")) > ROWS_MAX) throw new Error("too many rows are there");
  fact("a queue of a hundred thousand shows its first at once");
  await page.$eval(".list.queue", (list) => (list.scrollTop = list.scrollHeight));
  await shows(page, "job-99999", ".list.queue .row");
  await shows(page, "100,000 job-99999", ".list.queue .row");
  await shows(page, "“job-0”, who wants 1 unit, is served before it", ".list.queue .why");
  if ((await count(page, ".list.queue .rows .row")) > ROWS_MAX) throw new Error("too many rows are there");
  fact("and its last can be scrolled to");
  await view("#/pools/new");
  await shows(page, "There is no such pool now.");
  await api.acquire("new", "late");
  await shows(page, "late", ".list.places .row");
  fact("and it is still live");
});
