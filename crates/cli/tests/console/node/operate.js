// What an operator does: each action names what will happen, and is refused if the state has moved on.
"use strict";

const { fact, flow, picture, shows, showsNot, until } = require("./browser.js");

const press = async (page, action, within = "") => {
  const button = await page.waitForSelector(`${within} button[data-action=${action}]`);
  await button.click();
  await page.waitForSelector("dialog[open]");
};
const submit = (page) => page.click("dialog[open] button[type=submit]");
const closed = (page) => page.waitForFunction(() => !document.querySelector("dialog").open);

flow(async ({ page, api, view }) => {
  const held = await api.acquire("db", "backup", { meta: { reason: "nightly dump" } });
  await api.wait("db", "migration");
  await view("#/pools/db");
  await shows(page, "migration", ".list.queue .row");
  await press(page, "force_release");
  await shows(page, "backup loses 1 unit of “db” (token 1) at once.", "dialog");
  await shows(page, "migration, the next in the queue, may get it.", "dialog");
  fact("a forced release names who loses what, and who gets it");

  await submit(page);
  if (!(await page.$("dialog[open] input:invalid"))) throw new Error("a reason is not needed");
  await page.type("dialog input[name=reason]", "stuck since noon");
  // Meanwhile it is released, and somebody else has it.
  await api.release(held);
  await until(async () => (await api.get("/holds?pool=db")).holds[0].holder === "migration");
  await submit(page);
  await shows(page, "Too late: nothing was done. Pool “db” has moved on", "dialog [role=alert]");
  await shows(page, "“migration” holds it with token 2", "dialog [role=alert]");
  if ((await api.get("/holds?pool=db")).holds[0].token !== 2) throw new Error("it was released all the same");
  await picture(page, "too-late");
  await page.keyboard.press("Escape");
  await closed(page);
  fact("a forced release that comes too late is refused, and says so");

  await shows(page, "migration", ".list.places .row");
  await press(page, "force_release");
  await page.type("dialog input[name=reason]", "its host is gone");
  await submit(page);
  await closed(page);
  await shows(page, "Nobody has it.");
  await shows(page, "Hold 2 of migration was released by force.", "#said");
  await shows(page, "released by force after", ".list.events .row");
  await shows(page, "its host is gone", ".list.events .row");
  fact("a forced release in time is done, with its reason in the history");

  await press(page, "drain");
  await shows(page, "Nothing new is granted of “db” until it is returned.", "dialog");
  await submit(page);
  await closed(page);
  await shows(page, "drained", ".title .badge");
  // Somebody returns it while the next operator still looks at it.
  await press(page, "return");
  await api.condition("db", { state: "quarantined", note: "smells of smoke" });
  await submit(page);
  await shows(page, "Too late: nothing was done. Pool “db” has changed", "dialog [role=alert]");
  await page.keyboard.press("Escape");
  await shows(page, "quarantined", ".title .badge");
  await shows(page, "smells of smoke", ".note");
  fact("a drained pool that is quarantined meanwhile is not returned by accident");
  await press(page, "return");
  await submit(page);
  await closed(page);
  await showsNot(page, "quarantined", ".title");
  fact("a pool is drained, quarantined and returned");

  await press(page, "resize");
  await page.keyboard.type("0");
  await shows(page, "“db” will have 10 units instead of 1.", "dialog");
  await api.set("db", { units: 4 });
  await submit(page);
  await shows(page, "its size is 4", "dialog [role=alert]");
  await page.keyboard.press("Escape");
  await shows(page, "0 of 4 in use");
  await press(page, "resize");
  await page.$eval("dialog input[name=units]", (input) => input.select());
  await page.keyboard.type("3");
  await submit(page);
  await closed(page);
  await shows(page, "0 of 3 in use");
  fact("a pool is resized, unless its size is another by now");

  await api.set("gpus", { resources: [{ name: "gpu-1", labels: { mem: "40" } }, { name: "gpu-2", labels: { mem: "80" } }] });
  await api.acquire("gpus", "trainer", { select: "mem >= 80" });
  await view("#/pools/gpus");
  await shows(page, "trainer", ".list.resources .row");
  const button = await page.waitForSelector('button[aria-label="Quarantine: gpu-2 of gpus"]');
  await button.click();
  await shows(page, "trainer keeps it until it lets go.", "dialog");
  await page.type("dialog input[name=note]", "ECC errors");
  await submit(page);
  await closed(page);
  await shows(page, "quarantined", ".list.resources .badge");
  fact("one resource is quarantined, and its holder keeps it");
});
