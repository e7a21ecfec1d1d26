import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { haveBrowser, launch, Visitor } from "./support/browser.js";
import { PushBackend, site } from "./support/site.js";
import { eventually } from "./support/wait.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch({ push: true });
});

afterAll(() => browser?.close());

describe.runIf(haveBrowser)("a page made for Perfecty Push", () => {
  const options = (server: string) => `window.PerfectyPushOptions = {
    path: "", dialogTitle: "Willst du&#039;s?", dialogSubmit: "Ja", dialogCancel: "Nein", settingsTitle: "Glocke", settingsOptIn: "Ich will",
    serverUrl: "${server.replaceAll("/", "&#x2F;")}/compat/perfecty/news", vapidPublicKey: "KEY", token: "nonce", tokenHeader: "X-WP-Nonce",
    enabled: true, unregisterConflicts: true, serviceWorkerScope: "/perfecty/push", loggerLevel: "error", loggerVerbose: false };`;

  async function page() {
    const backend = await PushBackend.start();
    const origin = await site(() => backend.url, {
      "/": `<script src="/options.js"></script><script src="${backend.url}/sdk/perfecty.js"></script>`,
      "/options.js": options(backend.url).replace("KEY", backend.key),
      "/godwit-sw.js": `importScripts("${backend.url}/sdk/sw.js");`,
    });
    const visitor = await Visitor.come(browser);
    await visitor.context.grantPermissions(["notifications"], { origin });
    await visitor.page.goto(origin);
    return { backend, origin, visitor };
  }

  test("works with only its addresses changed: asks, registers, shows, registers again, opts out", async () => {
    const { backend, origin, visitor } = await page();
    await visitor.page.getByRole("dialog", { name: "Willst du's?" }).waitFor();
    await visitor.page.getByRole("button", { name: "Ja" }).click();
    await eventually("the browser is registered", () => backend.users.size === 1);
    expect(backend.users.get("uuid-1")).toMatchObject({
      user: { endpoint: expect.stringContaining("https://push.example.com/send/"), keys: { auth: expect.any(String) } },
      user_id: null,
      first_time: true,
    });
    const uuid = () => visitor.page.evaluate(() => localStorage.getItem("perfecty_user_id"));
    await eventually("the page knows", async () => (await uuid()) === "uuid-1");
    await visitor.worker();
    await visitor.deliver({ title: "Neu", body: "b", extra: { url_to_open: "https://example.org/neu" } });
    await eventually("it is shown", async () => (await visitor.shown())[0]?.title === "Neu");

    backend.users.clear();
    await visitor.page.goto(origin);
    await eventually("it is registered again under its id", () => backend.users.get("uuid-1")?.first_time === false);
    await visitor.page.getByRole("button", { name: "Glocke" }).click();
    await visitor.page.getByRole("checkbox", { name: "Ich will" }).uncheck();
    await eventually("it is unregistered", () => backend.users.size === 0);
    expect(visitor.errors).toEqual([]);
  });
});
