// Finding things: by name, holder and label, in the history by pool, holder, kind and time, and by an address that somebody sent.
"use strict";

const { fact, flow, shows, showsNot } = require("./browser.js");

const write = async (page, name, text) => {
  await page.$eval(`.filters [name=${name}]`, (field) => field.select());
  await page.type(`.filters [name=${name}]`, text);
};

flow(async ({ page, base, api, view }) => {
  await api.set("gpus", { resources: [{ name: "gpu-1", labels: { zone: "eu-west" } }, { name: "gpu-2", labels: { zone: "us" } }] });
  const held = await api.acquire("db", "backup", { meta: { host: "rack-7" } });
  await api.wait("db", "migration", { meta: { host: "rack-9" } });
  await api.session("scheduler", { meta: { host: "rack-1" } });
  await view("#/");
  const find = async (text) => {
    await page.$eval("#text", (field) => field.select());
    await page.type("#text", text);
    await page.keyboard.press("Enter");
    await shows(page, `Search: ${text}`, "h1");
  };
  await find("GPU");
  await shows(page, "gpus", ".list.found .row");
  await shows(page, "gpu-2", ".list.found .row");
  fact("pools and resources are found by name");
  await find("eu-west");
  await shows(page, "gpu-1", ".list.found .row");
  await showsNot(page, "gpu-2", ".list.found .row");
  fact("resources are found by a label");
  await find("rack-");
  await shows(page, "backup holds", ".list.found .row");
  await shows(page, "migration waits", ".list.found .row");
  await shows(page, "scheduler", ".list.found .row");
  fact("holds, waits and sessions are found by what their holders say");

  await api.release(held);
  await view("#/history");
  await shows(page, "backup got 1 unit of db", ".list.events .row");
  await write(page, "pool", "db");
  await showsNot(page, "gpus was made", ".list.events");
  await page.select(".filters [name=kind]", "granted");
  await showsNot(page, "began to wait", ".list.events");
  await shows(page, "migration got 1 unit of db", ".list.events .row");
  await write(page, "holder", "backup");
  await showsNot(page, "migration", ".list.events");
  await shows(page, "backup got 1 unit of db", ".list.events .row");
  if (!(await page.$eval(".gantt title", (title) => title.textContent)).includes("backup held db")) throw new Error("no picture");
  fact("the history is filtered by pool, kind and holder, and drawn");
  const address = await page.evaluate(() => location.hash);
  if (address !== "#/history?pool=db&holder=backup&kind=granted") throw new Error(address);
  await page.goto("about:blank");
  await page.goto(`${base}/${address}`);
  await shows(page, "backup got 1 unit of db", ".list.events .row");
  await showsNot(page, "migration", ".list.events");
  fact("its address can be shared");
  await page.$eval(".filters [name=until]", (field) => {
    field.value = "2020-01-01T00:00:00";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await shows(page, "Nothing of the kind happened, as far back as is kept.");
  fact("and by time");

  await api.set("%2F a/b?c#d 'é'", { units: 1 });
  await view("#/");
  await page.type("#filter", "a/b");
  const link = await page.waitForSelector(".list.pools .row .name");
  await link.click();
  await shows(page, "%2F a/b?c#d 'é'", "h1");
  await shows(page, "0 of 1 in use");
  fact("a pool may have any name");
  await page.goto(`${base}/#/?namespace=other`);
  await page.reload();
  await shows(page, "Nothing is held yet");
  await api.acquire("db", "neighbour", { namespace: "other" });
  await shows(page, "db", ".list.pools .row");
  await (await page.waitForSelector(".list.pools .row .name")).click();
  await shows(page, "neighbour", ".list.places .row");
  fact("another namespace is another world");
});
