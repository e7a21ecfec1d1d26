// The browser part beside what a site has of its own: it takes nothing from it, and says what stands in its way.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { texts } from "../src/push/texts.js";
import { haveBrowser, launch, type ServiceWorkerTestScope, Visitor } from "./support/browser.js";
import { PushBackend, site } from "./support/site.js";
import { eventually } from "./support/wait.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch({ push: true });
});

afterAll(() => browser?.close());

/** A worker as sites have it that work offline: it answers for every page, from its cache. */
const offlineWorker = `
self.addEventListener("install", (e) => { self.skipWaiting(); e.waitUntil(caches.open("site").then((c) => c.add("/"))); });
self.addEventListener("activate", (e) => e.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (e) => {
  if (e.request.mode === "navigate") e.respondWith(fetch(e.request).catch(() => caches.match("/")));
});
self.addEventListener("notificationclick", (e) => { if (!e.notification.data.godwit) self.own = e.notification.title; });`;

const ownWorker = `navigator.serviceWorker.register("/sw.js");`;

async function world(attributes: string, more: (backend: PushBackend) => Record<string, string> = () => ({})) {
  const backend = await PushBackend.start();
  const script = (a: string) => `<script src="${backend.url}/sdk/godwit.js" ${a} async></script>`;
  const origin = await site(() => backend.url, {
    "/": `<main><h1>News</h1><p><a href="/">Home</a></p></main>${script(attributes)}`,
    "/at-root": script('data-app="news" data-scope="/"'),
    "/godwit-sw.js": `importScripts("${backend.url}/sdk/sw.js");`,
    ...more(backend),
  });
  const visitor = await Visitor.come(browser);
  await visitor.context.grantPermissions(["notifications"], { origin });
  return { backend, origin, visitor, page: visitor.page, script };
}

/** A site with a worker of its own, which has taken over the page. */
async function offlineSite(attributes: string, worker = (_: PushBackend) => offlineWorker) {
  const w = await world(attributes, (backend) => ({
    "/sw.js": worker(backend),
    "/own.js": ownWorker,
    "/plain": `<script src="/own.js"></script>`,
  }));
  await w.page.goto(`${w.origin}/plain`);
  await w.page.waitForFunction(() => navigator.serviceWorker.controller !== null);
  await w.page.goto(w.origin);
  return w;
}

/** Runs in the page: which worker has which scope, and which controls the page. */
async function workers(): Promise<{ scopes: Record<string, string>; controller: string }> {
  const path = (url = "") => new URL(url, location.href).pathname;
  const all = await navigator.serviceWorker.getRegistrations();
  return {
    scopes: Object.fromEntries(all.map((r) => [path(r.scope), path((r.active ?? r.installing)?.scriptURL)])),
    controller: path(navigator.serviceWorker.controller?.scriptURL),
  };
}

const message = { id: "d1", godwit_id: "d1", title: "Hi", body: "There is news", url: "article", tag: "d1" };

const accept = (page: Page) => page.getByRole("button", { name: "Continue" }).click();

describe.runIf(haveBrowser)("beside a site's own service worker", { timeout: 60_000 }, () => {
  test("it has a scope of its own: the site goes on working offline, and messages come", async () => {
    const { backend, origin, visitor, page } = await offlineSite('data-app="news"');
    await accept(page);
    await eventually("the browser is registered", () => backend.endpoints.size === 1);
    const both = { scopes: { "/": "/sw.js", "/godwit/": "/godwit-sw.js" }, controller: "/sw.js" };
    expect(await page.evaluate(workers)).toEqual(both);
    await visitor.worker();
    await visitor.deliver(message);
    expect(await visitor.shown()).toMatchObject([{ title: "Hi" }]);
    expect(await visitor.react("notificationclick")).toBe(`${origin}/article`);

    await visitor.context.setOffline(true);
    await page.goto(`${origin}/never-seen`);
    expect(await page.getByRole("heading", { name: "News" }).count()).toBe(1);
    await visitor.context.setOffline(false);
    await page.goto(origin);
    expect(await page.evaluate(workers)).toEqual(both);
  });

  test("it is refused that worker's scope, and says so to the site's owner and kindly to the visitor", async () => {
    const { backend, visitor, page } = await offlineSite('data-app="news" data-scope="/"');
    await accept(page);
    await page.getByRole("dialog").getByText("It is nothing you did").waitFor();
    expect(visitor.errors.join()).toMatch(
      /scope http:\S+\/ is that of the service worker http:\S+\/sw.js.+importScripts/,
    );
    expect(await page.evaluate(workers)).toEqual({ scopes: { "/": "/sw.js" }, controller: "/sw.js" });
    expect(backend.endpoints.size).toBe(0);
  });

  test("it lives in that worker where the site imports it, and leaves the site's own notifications alone", async () => {
    const { backend, origin, visitor, page } = await offlineSite(
      'data-app="news" data-service-worker="/sw.js" data-scope="/"',
      (b) => `importScripts("${b.url}/sdk/sw.js");${offlineWorker}`,
    );
    await accept(page);
    await eventually("the browser is registered", () => backend.endpoints.size === 1);
    expect(await page.evaluate(workers)).toEqual({ scopes: { "/": "/sw.js" }, controller: "/sw.js" });
    await visitor.deliver(message);
    expect((await visitor.shown()).map((n) => n.title)).toEqual(["Hi"]);
    expect(await visitor.react("notificationclick", "", "/sw.js")).toBe(`${origin}/article`);

    const worker = await visitor.worker("/sw.js");
    const after = await worker.evaluate(async () => {
      const sw = globalThis as unknown as ServiceWorkerTestScope & { own?: string };
      await sw.registration.showNotification("Of the site", { data: { url: "/theirs" } });
      const [notification] = await sw.registration.getNotifications();
      sw.dispatchEvent(new sw.NotificationEvent("notificationclick", { notification }));
      const left = await sw.registration.getNotifications();
      return { own: sw.own, left: left.length };
    });
    expect(after).toEqual({ own: "Of the site", left: 1 });
  });

  test("a subscription of another push service stays as it is", async () => {
    const { visitor, page } = await offlineSite('data-app="news" data-service-worker="/sw.js" data-scope="/"');
    const theirs = () =>
      page.evaluate(async () => {
        const { pushManager } = await navigator.serviceWorker.ready;
        const s = await pushManager.getSubscription();
        return (s ?? (await pushManager.subscribe({ applicationServerKey: new Uint8Array([1]) }))).endpoint;
      });
    const before = await theirs();
    await accept(page);
    await page.getByRole("dialog").getByText("It is nothing you did").waitFor();
    expect(visitor.errors.join()).toContain("subscription of another push service, which is left alone");
    expect(await theirs()).toBe(before);
  });

  test("whom an earlier version subscribed at the root moves without being asked, and no message is lost on the way", async () => {
    const { backend, origin, visitor, page } = await world('data-app="news"');
    await page.goto(`${origin}/at-root`);
    await accept(page);
    await eventually("the browser is registered", () => backend.endpoints.size === 1);
    await visitor.subscribed();
    const [before] = [...backend.endpoints.values()].map((e) => ({ id: e.id, at: e.body.address.endpoint }));
    const at = (scope: string) =>
      page.evaluate((s) => JSON.parse(localStorage.getItem(`test-subscription ${s}`) ?? "{}").endpoint, scope);
    const root = await at("/");
    expect(root).toBe(before?.at);

    await page.goto(origin);
    await eventually("the server has the new address", () => {
      const [now] = [...backend.endpoints.values()];
      return now?.id === before?.id && now?.body.address.endpoint !== before?.at;
    });
    await visitor.subscribed();
    expect(backend.endpoints.size).toBe(1);
    expect([...backend.endpoints.values()][0]?.body.address.endpoint).toBe(await at("/godwit/"));
    expect(await at("/")).toBe(root); // what is on its way to it still comes
    expect(await page.getByRole("dialog").count()).toBe(0);

    await visitor.context.addInitScript(() => {
      const real = Date.now;
      Date.now = () => real() + 2 * 86_400_000; // two days later
    });
    await page.goto(origin);
    await eventually("the old subscription has ended", async () => (await at("/")) === undefined);
    expect([...backend.endpoints.values()][0]?.body.address.endpoint).toBe(await at("/godwit/"));
    expect(visitor.errors).toEqual([]);
  });
});

describe.runIf(haveBrowser)(
  "what fails is told to the site's owner, and kindly to the visitor:",
  { timeout: 60_000 },
  () => {
    const cases: [string, string, (w: Awaited<ReturnType<typeof world>>) => Promise<void> | void, RegExp, string][] = [
      [
        "an app that the server does not have",
        "nwes",
        () => {},
        /app "nwes" of http:\S+: there is no such app.+godwit app list/,
        "nothing you did",
      ],
      [
        "a page that the app does not take",
        "news",
        ({ backend }) => {
          backend.refusesPages = true;
        },
        /allow-anonymous news --origin http:/,
        "nothing you did",
      ],
      [
        "a push service out of reach",
        "news",
        ({ page }) => page.evaluate(() => localStorage.setItem("test-push-service-away", "1")),
        /push service gives no subscription: AbortError/,
        "cannot be reached",
      ],
      [
        "a server that does not answer",
        "news",
        async ({ page, backend }) => {
          await page.route(`${backend.url}/v1/**`, (r) => r.abort());
        },
        /no answer .+connect-src/,
        "cannot be reached",
      ],
      [
        "no permission",
        "news",
        ({ page }) =>
          page.evaluate(() => {
            Notification.requestPermission = async () => "denied";
          }),
        /blocked for http:.+site settings/,
        "blocked for this site",
      ],
    ];
    for (const [what, app, arrange, told, kindly] of cases) {
      test(what, async () => {
        const w = await world(`data-app="${app}"`);
        await w.page.goto(w.origin);
        await w.page.getByRole("dialog").waitFor();
        await arrange(w);
        await accept(w.page);
        await w.page.getByRole("dialog").getByText(kindly).waitFor();
        expect(w.visitor.errors.join()).toMatch(told);
        await w.page.keyboard.press("Escape"); // also where it says something
        expect(await w.page.getByRole("dialog").count()).toBe(0);
      });
    }

    test("a worker that is not there", async () => {
      const { origin, visitor, page } = await world('data-app="news" data-service-worker="/none.js"');
      await page.goto(origin);
      await accept(page);
      await page.getByRole("dialog").getByText("nothing you did").waitFor();
      expect(visitor.errors.join()).toMatch(
        /cannot install the service worker http:\S+\/none.js: .*404.+importScripts\("http:\S+\/sdk\/sw.js"\)/,
      );
    });

    test("a page without https", async () => {
      const { origin, visitor, page } = await world('data-app="news"');
      await page.goto(origin.replace("127.0.0.1", "site.test"));
      await page.getByRole("button", { name: "Notification preferences" }).click();
      await page.getByText("Notifications need a secure connection").waitFor();
      expect(visitor.errors.join()).toMatch(/http:\/\/site.test:\d+ is not https/);
      expect(await page.getByRole("checkbox").isChecked()).toBe(false);
    });

    test("a script element that names no app", async () => {
      const { origin, visitor, page } = await world("");
      await page.goto(origin);
      await eventually("it is told", () => visitor.errors.join().includes('put data-app="NAME"'));
    });
  },
);

describe.runIf(haveBrowser)("the prompt", { timeout: 60_000 }, () => {
  test("loads its dialogs for those who see one, says when it cannot, and tries again", async () => {
    const { backend, origin, visitor, page } = await world('data-app="news"');
    await page.goto(origin);
    await accept(page);
    await eventually("the browser is registered", () => backend.endpoints.size === 1);
    await visitor.subscribed(); // else the next page asks again
    const asked: string[] = [];
    page.on("request", (r) => asked.push(new URL(r.url()).pathname));
    let away = true;
    await page.route("**/sdk/dialogs.js?v=*", (r) => (away ? r.abort() : r.continue()));
    await page.goto(origin);
    const bell = page.getByRole("button", { name: "Notification preferences" });
    await bell.waitFor(); // the subscription is looked after by then
    expect(asked.filter((path) => path.startsWith("/sdk/"))).toEqual(["/sdk/godwit.js"]);
    await bell.click();
    await eventually("it is told", () => visitor.errors.join().includes("cannot be loaded"));
    expect(visitor.errors.join()).toMatch(/godwit: .*dialogs.js\?v=\S+ cannot be loaded: .+in the page's script-src/);
    expect(await bell.getAttribute("aria-expanded")).toBe("false");
    away = false;
    await bell.click();
    await page.getByRole("checkbox", { name: "I want to receive notifications", checked: true }).waitFor();
  });

  test("tells who comes with an iPhone's tab of the home screen, once", async () => {
    const { origin, visitor, page } = await world('data-app="news"');
    await visitor.context.addInitScript(() => {
      Object.defineProperty(navigator, "standalone", { value: false });
      Reflect.deleteProperty(window, "PushManager");
    });
    await page.goto(origin);
    await page.getByRole("dialog").getByText("Add to Home Screen").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.goto(origin);
    await page.getByRole("button", { name: "Notification preferences" }).click();
    await page.getByRole("dialog").getByText("Add to Home Screen").waitFor(); // in the box that the bell opens
    expect(await page.getByRole("dialog").count()).toBe(1);
    expect(visitor.errors).toEqual([]);
  });

  test("speaks the page's language, or the words of its attributes", async () => {
    const { origin, visitor, page } = await world("", (b) => {
      const in_ = (lang: string, more = "") =>
        `<!doctype html><html lang="${lang}"><meta charset="utf-8"><title>Site</title><body><script src="${b.url}/sdk/godwit.js" data-app="news" data-bell="none" ${more} async></script>`;
      const own = 'data-title="Vil du ha varsler?" data-text-accept="Ja" data-text-later="Nei"';
      const pages = Object.keys(texts).map((l) => [`/${l}`, in_(`${l}-XX`)]);
      return { ...Object.fromEntries(pages), "/nb": in_("nb", own), "/fi": in_("fi") };
    });
    for (const [language, words] of Object.entries(texts)) {
      await page.goto(`${origin}/${language}`);
      const dialog = page.getByRole("dialog", { name: words.title });
      await dialog.getByRole("button", { name: words.accept }).waitFor();
    }
    await page.goto(`${origin}/nb`);
    await page.getByRole("dialog", { name: "Vil du ha varsler?" }).getByRole("button", { name: "Ja" }).waitFor();
    await page.goto(`${origin}/fi`);
    await page.getByRole("dialog", { name: "Do you want to receive notifications?" }).waitFor();
    expect(visitor.errors).toEqual([]);
  });

  test("is reached and left by keyboard, and axe finds nothing to complain of", async () => {
    const { origin, page } = await world('data-app="news" data-text-body="At most one a day."');
    const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    const violations = () =>
      page.evaluate(async () => {
        const { violations: found } = await (window as unknown as Axe).axe.run();
        return found.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join()}`);
      });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.goto(origin);
      await page.getByRole("dialog").waitFor();
      await page.evaluate(axe);
      expect(await violations()).toEqual([]);
      await page.getByRole("button", { name: "Notification preferences" }).click();
      expect(await violations()).toEqual([]);
    }
    await page.keyboard.press("Escape"); // the box of the bell, which had the focus
    await page.getByRole("dialog", { name: "Do you want" }).waitFor();
    const focused = () =>
      page.evaluate(() => document.querySelector("[data-godwit]")?.shadowRoot?.activeElement?.textContent);
    await page.getByRole("link", { name: "Home" }).focus();
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("Not now");
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("Continue");
    await page.getByRole("link", { name: "Home" }).focus();
    await page.keyboard.press("Escape"); // wherever the focus is
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.goto(origin);
    await page.getByRole("button", { name: "Notification preferences" }).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0); // it was "not now"
  });
});

interface Axe {
  axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
}
