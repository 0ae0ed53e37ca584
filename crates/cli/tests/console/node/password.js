// A server with a password: the browser asks for it, and everything after that knows it.
"use strict";

const { fact, flow, shows } = require("./browser.js");

flow(async ({ page, base, view, complaints }) => {
  const refused = await page.goto(`${base}/`).catch((error) => error);
  if (!(refused instanceof Error) && refused.status() !== 401) throw new Error(`it is let in with ${refused.status()}`);
  fact("without the password nothing is shown");
  await page.authenticate({ username: "anybody", password: process.env.TENURE_PASSWORD });
  await view("#/");
  await shows(page, "Nothing is held yet");
  const send = (body) =>
    page.evaluate(async (body) => {
      const headers = { "content-type": "application/json" };
      return (await fetch("/api/v1/acquire", { method: "POST", headers, body })).status;
    }, body);
  if ((await send(JSON.stringify({ pool: "db", holder: "backup" }))) !== 200) throw new Error("it is not let in");
  await shows(page, "db", ".list.pools .row");
  // That it was not let in at first is what the browser complains of, when it comes to it.
  for (const complaint of complaints) complaint.expected ||= complaint.text.includes("401");
  fact("with it the page is live");
});
