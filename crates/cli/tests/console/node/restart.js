// The server is killed and comes back: the page says that it is stale, and then catches up by itself.
"use strict";

const { fact, flow, shows, told } = require("./browser.js");

flow(async ({ page, api, view }) => {
  await api.acquire("db", "backup");
  await view("#/pools/db");
  await shows(page, "backup", ".list.places .row");
  const seen = [];
  page.on("request", (request) => {
    if (request.url().includes("/api/v1/watch")) seen.push(request.headers()["last-event-id"]);
  });
  fact("live");

  if ((await told()) !== "killed") throw new Error("it is to be killed now");
  await shows(page, "Stale.", "#banner");
  await shows(page, "this is how things stood at", "#banner");
  await shows(page, "backup", ".list.places .row");
  fact("stale");

  if ((await told()) !== "back") throw new Error("it is to be back now");
  await page.waitForFunction(() => document.querySelector("#pulse").dataset.status === "live");
  await page.waitForFunction(() => document.querySelector("#banner").hidden);
  await shows(page, "backup", ".list.places .row");
  if (!seen.length || !seen.every((id) => Number(id) > 0)) throw new Error(`it did not take the stream up again: ${seen}`);
  await api.wait("db", "migration");
  await shows(page, "migration", ".list.queue .row");
  fact("live again, from the last event that was seen");

  const taken = await page.evaluate(async () => {
    const { get } = await import("/console/api.js");
    const whole = window.fetch;
    const broken = () => new ReadableStream({ start: (body) => body.error(new TypeError("network error")) });
    window.fetch = async () => new Response(broken());
    const asked = await get("/pools").then(JSON.stringify, () => null);
    window.fetch = whole;
    return asked;
  });
  if (taken !== null) throw new Error(`an answer that was broken off is taken for ${taken}`);
  fact("an answer that is broken off is none");
});
