// A holder appears and leaves while somebody looks, in every view, and the page is never loaded again.
"use strict";

const { fact, flow, shows, showsNot } = require("./browser.js");

flow(async ({ page, api, view }) => {
  await view("#/");
  await shows(page, "Nothing is held yet");
  await shows(page, "tenure run db -- sleep 60");
  fact("an empty server says what to type");
  await page.evaluate(() => (window.sameDocument = true));

  const held = await api.acquire("db", "backup", { meta: { reason: "nightly dump", host: "rack-7" } });
  await shows(page, "db", ".list.pools .row");
  await shows(page, "1 / 1", ".list.pools .row");
  fact("a pool appears in the overview");

  await view("#/pools/db");
  await shows(page, "backup", ".list.places .row");
  await shows(page, "nightly dump", ".list.places .row");
  await api.wait("db", "migration");
  await shows(page, "migration", ".list.queue .row");
  await shows(page, "“backup” holds 1 unit with token 1", ".list.queue .why");
  await api.wait("db", "vacuum");
  await shows(page, "“migration”, who wants 1 unit, is served before it.", ".list.queue .why");
  fact("waiters appear with the reason why they wait");

  await api.release(held);
  await shows(page, "migration", ".list.places .row");
  await showsNot(page, "backup", ".list.places .row");
  await showsNot(page, "migration", ".list.queue .name");
  await shows(page, "migration got 1 unit of db after", ".list.events .row");
  fact("a release goes to the next, and the page shows it");

  await view("#/holders/vacuum");
  await shows(page, "Waits for 1");
  await shows(page, "db", ".list.waiting .row");
  const session = await api.session("vacuum");
  await shows(page, "not connected", ".list.sessions .row");
  await api.acquire("leader", "vacuum", { ttl_ms: undefined, session_key: session.session_key });
  await shows(page, "with session", ".list.held .row");
  fact("a holder shows all that it has and waits for");

  await view("#/sessions");
  await shows(page, "vacuum", ".list.sessions .row");
  await view("#/history");
  await shows(page, "migration began to wait for 1 unit of db", ".list.events .row");
  await api.acquire("cache", "warmer");
  await shows(page, "warmer got 1 unit of cache", ".list.events .row");
  if (!(await page.evaluate(() => window.sameDocument))) throw new Error("the page was loaded again");
  fact("history and sessions go on by themselves");
});
