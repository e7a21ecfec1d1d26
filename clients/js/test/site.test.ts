// A site, a browser, a push service and the real server: everything between a visitor's yes and the click.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Client } from "../src/node.js";
import { haveBrowser, launch, Visitor } from "./support/browser.js";
import { PushService } from "./support/pushservice.js";
import { Server } from "./support/server.js";
import { site } from "./support/site.js";
import { eventually } from "./support/wait.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch({ push: true });
});

afterAll(() => browser?.close());

async function world(pages: (server: Server) => Record<string, string>) {
  const push = await PushService.start();
  const server = await Server.start(["--allow-private-urls"], { SSL_CERT_FILE: push.certificate });
  const origin = await site(() => server.url, {
    "/godwit-sw.js": `importScripts("${server.url}/sdk/sw.js");`,
    ...pages(server),
  });
  server.run("app", "allow-anonymous", "demo", "--origin", origin, "--data", server.dir);
  await eventually("the site is allowed", async () => {
    const headers = { Origin: origin, "Access-Control-Request-Method": "POST" };
    const r = await fetch(`${server.url}/v1/endpoints?app=demo`, { method: "OPTIONS", headers });
    return r.headers.get("access-control-allow-origin") === origin;
  });
  const visitor = await Visitor.come(browser, {}, push.subscriptions);
  await visitor.context.grantPermissions(["notifications"], { origin });
  await visitor.page.goto(origin);
  const api = new Client(server.url, { apiKey: "dev" });
  return { push, server, origin, visitor, api };
}

test.runIf(haveBrowser)("a page listens with the live client that the server hands out", async () => {
  const server = await Server.start();
  const origin = await site(() => server.url, {
    "/": `<script type="module" src="/listen.js"></script>`,
    "/listen.js": `import { Client } from "${server.url}/sdk/live.js";
      window.got = [];
      window.listener = new Client("${server.url}", { app: "demo" }).listen("browser-1", (n) => { window.got.push(n.title); }, { group: "g" });
      window.listener.register("camera", (u) => { window.got.push(u.version); });`,
  });
  server.run("app", "set", "demo", "--origin", origin, "--data", server.dir);
  const api = new Client(server.url, { apiKey: "dev" });
  await api.putObject("g", "camera", { version: 7 });
  await api.publish({ to: "browser-1", id: "n", title: "Blåbær ☕" });
  const { page, errors } = await Visitor.come(browser);
  await eventually("the page got both", async () => {
    await page.goto(origin); // until the server has noticed that the page is allowed
    const both = () => {
      const { got = [] } = window as { got?: string[] };
      return got.includes("7") && got.includes("Blåbær ☕");
    };
    await page.waitForFunction(both, undefined, { timeout: 2_000 });
    return true;
  });
  await eventually("it is acknowledged", async () => (await api.status("n", "browser-1")).status === "acked");
  expect(errors.filter((e) => !e.includes("WebSocket"))).toEqual([]); // those before the page was allowed
});

interface Endpoint {
  id: string;
  channel: string;
  status: string;
  tags: string[];
  attributes: Record<string, unknown>;
  address: { endpoint: string };
}

const endpoints = async (api: Client) => (await api.call<{ items: Endpoint[] }>("GET", "/v1/endpoints")).items;

interface Campaign {
  id: string;
  state: string;
  counts: Record<string, number>;
  shown: number;
  clicked: number;
}

/** The page's part of a site that shows what comes live and by push. */
const rides = (server: Server) => ({
  "/": `<script src="${server.url}/sdk/godwit.js"></script><script type="module" src="/rides.js"></script>`,
  "/rides.js": `import { Client } from "${server.url}/sdk/live.js";
    window.push = new Godwit.Push({ server: "${server.url}", app: "demo" });
    window.listen = () => new Promise((resolve) => {
      const client = new Client("${server.url}", { app: "demo" });
      push.listen(client, "ann", (n, { signal }) => push.show(n, { signal }).then(() => {}), { onConnect: resolve });
    });`,
  "/bare": "<h1>Nothing listens here</h1>",
});

interface RidesWindow {
  push: { subscribe(): Promise<string> };
  listen(): Promise<void>;
}

describe.runIf(haveBrowser)("with the real server, a visitor", () => {
  test("sees what comes live and by push once; a click settles it, and an ack on another device takes it away", async () => {
    const { push, server, origin, visitor, api } = await world(rides);
    server.run("app", "set", "demo", "--origin", origin, "--data", server.dir);
    const page = visitor.page;
    await page.waitForFunction(() => "listen" in window);
    await page.evaluate(() => (window as unknown as RidesWindow).push.subscribe());
    const [endpoint] = await endpoints(api);
    await api.call("PATCH", `/v1/endpoints/${endpoint?.id}`, { json: { recipient: "ann" } });
    await page.evaluate(() => (window as unknown as RidesWindow).listen());

    const ride = (id: string) =>
      api.publish({ to: "ann", id, title: id, escalate: [{ channel: "live" }, { channel: "webpush", after: "1s" }] });
    const pushed = (id: string, recall?: true) =>
      push.messages.find((m) => m.godwit_id === id && m.recall === recall) as Record<string, unknown>;
    const tags = async () => (await visitor.shown()).map((n) => n.tag);

    await ride("ride-1");
    await eventually("it is shown live", async () => (await tags()).includes("ride-1"));
    await eventually("it is pushed", () => pushed("ride-1") !== undefined);
    await visitor.deliver(pushed("ride-1"));
    expect(await tags()).toEqual(["ride-1"]);
    await page.goto(`${origin}/bare`); // now its token alone can settle it
    await visitor.react("notificationclick");
    await eventually("the click settles it", async () => (await api.status("ride-1", "ann")).status === "acked");
    expect(await tags()).toEqual([]);

    await page.goto(origin);
    await page.waitForFunction(() => "listen" in window);
    await page.evaluate(() => (window as unknown as RidesWindow).listen());
    await ride("ride-2");
    await eventually("it is pushed", () => pushed("ride-2") !== undefined);
    await visitor.deliver(pushed("ride-2"));
    expect(await tags()).toEqual(["ride-2"]);
    const phone = new Client(server.url, { app: "demo" }).listen("ann", () => {}, { device: "phone" }); // acknowledges
    onTestFinished(() => phone.close());
    await eventually("the other device takes it from the screen", async () => (await tags()).length === 0);
    await eventually("its push is withdrawn", () => pushed("ride-2", true) !== undefined);
    await visitor.deliver(pushed("ride-2", true));
    expect(await tags()).toEqual([]);
    expect(visitor.errors.filter((e) => !e.includes("WebSocket"))).toEqual([]); // those before the page was allowed
  }, 60_000);

  test("subscribes, gets a campaign, sees it, clicks; a recall removes another; opting out ends it", async () => {
    const { push, origin, visitor, api } = await world((server) => ({
      "/": `<script src="${server.url}/sdk/godwit.js" data-app="demo" data-tags="sport" async></script>`,
    }));
    await visitor.page.getByRole("button", { name: "Continue" }).click();
    await eventually("the browser is registered", async () => (await endpoints(api)).length === 1);
    const [endpoint] = await endpoints(api);
    expect(endpoint).toMatchObject({ channel: "webpush", status: "active", tags: ["sport"] });
    await visitor.worker();

    const send = async (name: string, title: string) => {
      const { id } = await api.call<Campaign>("POST", "/v1/campaigns", {
        json: {
          name,
          content: { title, body: "There is news", url: `${origin}/article` },
          audience: { channels: ["webpush"], tags_any: ["sport"] },
        },
      });
      const before = push.messages.length;
      await api.call("POST", `/v1/campaigns/${id}/start`, { json: {} });
      await eventually("the message is sent", () => push.messages.length === before + 1);
      const message = push.messages.at(-1) as Record<string, unknown>;
      await visitor.deliver(message);
      return { id, message };
    };
    const campaign = (id: string) => api.call<Campaign>("GET", `/v1/campaigns/${id}`);

    const first = await send("first", "Hi");
    expect(push.headers.at(-1)).toMatchObject({ "content-encoding": "aes128gcm", ttl: expect.any(String) });
    expect(first.message).toMatchObject({ title: "Hi", body: "There is news", track: expect.any(String) });
    await eventually("it is shown", async () => (await visitor.shown())[0]?.title === "Hi");
    expect(await visitor.react("notificationclick")).toContain(`${origin}/article`);
    await eventually("the campaign counts it", async () => {
      const c = await campaign(first.id);
      return c.counts.accepted === 1 && c.shown === 1 && c.clicked === 1;
    });

    const second = await send("second", "Wrong price");
    await eventually("it is shown", async () => (await visitor.shown())[0]?.title === "Wrong price");
    await eventually("it is completed", async () => (await campaign(second.id)).state === "completed");
    await api.call("POST", `/v1/campaigns/${second.id}/recall`, { json: {} });
    await eventually("the recall is sent", () => push.messages.at(-1)?.recall === true);
    await visitor.deliver(push.messages.at(-1) as object);
    await eventually("it is gone", async () => (await visitor.shown()).length === 0);
    await eventually("the campaign says so", async () => (await campaign(second.id)).state === "recalled");

    await visitor.page.getByRole("button", { name: "Notification preferences" }).click();
    await visitor.page.getByRole("checkbox").uncheck();
    await eventually("the server forgot the browser", async () => (await endpoints(api)).length === 0);
    expect(visitor.errors).toEqual([]);
  }, 60_000);

  test("changes tags and attributes, and comes back after the server forgot", async () => {
    const { visitor, api, origin } = await world((server) => ({
      "/": `<script src="${server.url}/sdk/godwit.js" data-app="demo" async></script>`,
    }));
    await visitor.page.getByRole("button", { name: "Continue" }).click();
    await eventually("the browser is registered", async () => (await endpoints(api)).length === 1);
    await visitor.subscribed("demo");
    await visitor.page.evaluate(() =>
      new window.Godwit.Push({ server: "", app: "demo" }).update({ tags: ["chess"], attributes: { age: 30 } }),
    );
    const [endpoint] = await endpoints(api);
    expect(endpoint).toMatchObject({ tags: ["chess"], attributes: { age: 30 } });

    await api.call("DELETE", `/v1/endpoints/${endpoint?.id}`);
    await visitor.context.addInitScript(() => {
      const real = Date.now;
      Date.now = () => real() + 2 * 86_400_000; // two days later
    });
    await visitor.page.goto(origin);
    await eventually("it is registered again", async () => (await endpoints(api)).length === 1);
    expect((await endpoints(api))[0]).toMatchObject({ tags: ["chess"], attributes: { age: 30 } });
  }, 60_000);

  test("of a page made for Perfecty Push needs nothing but the addresses changed", async () => {
    const { visitor, api, origin } = await world((server) => ({
      "/": `<script src="/options.js"></script><script src="${server.url}/sdk/perfecty.js"></script>`,
      "/options.js": `window.PerfectyPushOptions = {
        serverUrl: "${server.url}/compat/perfecty/demo", vapidPublicKey: localStorage.getItem("key"),
        token: "nonce", tokenHeader: "X-WP-Nonce", enabled: true };`,
    }));
    const { public_key } = await api.call<{ public_key: string }>("GET", "/v1/webpush/key", { query: { app: "demo" } });
    await visitor.page.evaluate((key) => localStorage.setItem("key", key), public_key);
    await visitor.page.goto(origin);
    await visitor.page.getByRole("button", { name: "Continue" }).click();
    await eventually("the browser is registered", async () => (await endpoints(api)).length === 1);
    const uuid = () => visitor.page.evaluate(() => localStorage.getItem("perfecty_user_id"));
    await eventually("the page knows", async () => /^[0-9a-f-]{36}$/.test((await uuid()) ?? ""));

    const [endpoint] = await endpoints(api);
    await api.call("DELETE", `/v1/endpoints/${endpoint?.id}`);
    await visitor.page.goto(origin);
    await eventually("it is registered again", async () => (await endpoints(api)).length === 1);
    await visitor.page
      .getByRole("button", { name: "Notifications preferences" })
      .or(visitor.page.getByRole("button", { name: "Notification preferences" }))
      .click();
    await visitor.page.getByRole("checkbox").uncheck();
    await eventually("it is unregistered", async () => (await endpoints(api)).length === 0);
    expect(visitor.errors).toEqual([]);
  }, 60_000);
});
