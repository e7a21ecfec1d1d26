import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { haveBrowser, launch, type ServiceWorkerTestScope } from "./support/browser.js";
import { subscribed as subscribedIn } from "./support/pushworld.js";
import { eventually } from "./support/wait.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch({ push: true });
});

afterAll(() => browser?.close());

const subscribed = (attributes?: string, more?: Record<string, string>) => subscribedIn(browser, attributes, more);

/** Runs in the page: what page and worker remember. */
function seen(): Promise<{ id: string; settled?: string }[]> {
  return new Promise((resolve, reject) => {
    const open = indexedDB.open("godwit");
    open.onerror = () => reject(open.error);
    open.onsuccess = () => {
      const row = open.result.transaction("kept").objectStore("kept").get(`seen ${location.origin}/godwit/`);
      row.onsuccess = () => {
        open.result.close();
        resolve(row.result ?? []);
      };
    };
  });
}

const message = {
  id: "d1",
  godwit_id: "d1",
  title: "Hi",
  body: "There is news",
  url: "/article",
  tag: "d1",
  track: "signed",
  extra: { url_to_open: "/article" },
};

describe.runIf(haveBrowser)("a visitor", () => {
  test("who says yes is registered with all that sending needs, under a strict policy and without an error", async () => {
    const { backend, visitor } = await subscribed('data-app="news" data-tags="sport, oslo"');
    const [e] = [...backend.endpoints.values()];
    expect(e?.body).toMatchObject({
      channel: "webpush",
      address: {
        endpoint: expect.stringContaining("https://push.example.com/send/"),
        keys: { auth: expect.any(String) },
      },
      tags: ["sport", "oslo"],
      timezone: expect.any(String),
      locale: expect.any(String),
    });
    expect(await visitor.page.getByRole("dialog").count()).toBe(0);
    expect(await visitor.page.evaluate(() => localStorage.getItem("test-subscription /godwit/"))).toContain(
      JSON.stringify([...Buffer.from(backend.key, "base64url")]),
    );
    expect(visitor.errors).toEqual([]);
  });

  test("sees a message, its click is counted and leads to the page, and a recall removes another", async () => {
    const { backend, origin, visitor } = await subscribed();
    await visitor.deliver(message);
    await eventually("it is shown", async () => (await visitor.shown()).length === 1);
    expect(await visitor.shown()).toMatchObject([{ title: "Hi", body: "There is news", tag: "d1" }]);
    await eventually("that is reported", () => backend.reports.some((r) => r.event === "shown"));

    const opened = await visitor.react("notificationclick");
    expect(opened).toBe(`${origin}/article`);
    await eventually("the click is counted", () => backend.reports.some((r) => r.event === "clicked"));
    expect(backend.reports).toEqual([
      { token: "signed", event: "shown" },
      { token: "signed", event: "clicked" },
    ]);
    await eventually("it is gone", async () => (await visitor.shown()).length === 0);

    await visitor.deliver({ ...message, godwit_id: "d2", title: "Wrong", tag: "d2", track: undefined });
    await visitor.deliver({ ...message, godwit_id: "d3", title: "Other", tag: "d3", track: undefined });
    await eventually("both are shown", async () => (await visitor.shown()).length === 2);
    await visitor.deliver({ id: "d2", godwit_id: "d2", title: "", body: "", tag: "d2", recall: true });
    await eventually("the recalled one is gone", async () => (await visitor.shown()).length === 1);
    expect((await visitor.shown())[0]?.title).toBe("Other");
    await visitor.deliver({ id: "d9", title: "", body: "", tag: "d9", recall: true });
    await visitor.deliver({ ...message, godwit_id: "d4", title: "Last", tag: "d4", track: undefined });
    await eventually("the last is shown", async () => (await visitor.shown()).some((n) => n.title === "Last"));
    expect((await visitor.shown()).map((n) => n.title).sort()).toEqual(["Last", "Other"]);
    expect(visitor.errors).toEqual([]);
  });

  test("is led to a new window where the one that shows the page refuses to be focused", async () => {
    const { origin, visitor } = await subscribed();
    const refuse = () => {
      const sw = globalThis as unknown as { clients: { matchAll: unknown } };
      const window = {
        url: `${location.origin}/article`,
        focus: () => Promise.reject(new TypeError()),
        postMessage: () => {},
      };
      sw.clients.matchAll = async () => [window];
    };
    await visitor.deliver({ ...message, track: undefined });
    await eventually("it is shown", async () => (await visitor.shown()).length === 1);
    await (await visitor.worker()).evaluate(refuse);
    expect(await visitor.react("notificationclick")).toBe(`${origin}/article`);
  });

  test("sees nothing of a recall whose message never came, though Safari is shown something", async () => {
    const { visitor } = await subscribed();
    const worker = await visitor.worker();
    const note = () => {
      const sw = globalThis as unknown as ServiceWorkerTestScope & { calls: (boolean | null | undefined)[] };
      const safari =
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15";
      Object.defineProperty(navigator, "userAgent", { value: safari });
      const show = sw.registration.showNotification.bind(sw.registration);
      sw.calls = [];
      sw.registration.showNotification = (title, options) => {
        sw.calls.push(options?.silent);
        return show(title, options);
      };
    };
    await worker.evaluate(note);
    await visitor.deliver({ id: "d9", title: "", body: "", tag: "d9", recall: true });
    const calls = () => worker.evaluate(() => (globalThis as unknown as { calls: unknown[] }).calls);
    await eventually("the browser is satisfied", async () => (await calls()).length === 1);
    expect(await calls()).toEqual([true]);
    await eventually("nothing is left", async () => (await visitor.shown()).length === 0);
  });

  test("sees a notification once that comes by several steps, and what she does with it acknowledges it", async () => {
    const { backend, visitor } = await subscribed();
    const ride = { ...message, godwit_id: "ride-1", tag: "ride-1", track: undefined, godwit_ack: "t1" };
    await visitor.deliver(ride);
    await visitor.deliver({ ...ride, id: "of a later step" });
    expect(await visitor.shown()).toHaveLength(1);
    expect(backend.acks).toEqual([]);

    backend.acksAway = 503;
    await visitor.react("notificationclick");
    await eventually("it is told", () => backend.requests.includes("POST /v1/acks"));
    backend.acksAway = 0;
    await visitor.send({ ...ride, id: "late" }); // acknowledged: nothing is shown
    await visitor.deliver({ ...ride, godwit_id: "ride-2", tag: "ride-2", godwit_ack: "t2", godwit_settle: "shown" });
    expect((await visitor.shown()).map((n) => n.tag)).toEqual(["ride-2"]);
    const clicked = JSON.stringify({ tokens: ["t1"], event: "clicked" });
    const shown = JSON.stringify({ tokens: ["t2"], event: "shown" });
    await eventually("both are told, one maybe twice", () => {
      const told = backend.acks.map((a) => JSON.stringify(a));
      return told.includes(clicked) && told.includes(shown);
    });
    await visitor.react("notificationclose");
    await eventually("dismissal is told", () => backend.acks.at(-1)?.event === "dismissed");
    expect(backend.acks.at(-1)).toEqual({ tokens: ["t2"], event: "dismissed" });
    expect(visitor.errors.filter((e) => !e.includes("503"))).toEqual([]);
  });

  test("sees nothing of what was recalled before it came, and of one tag the newer stays", async () => {
    const { visitor } = await subscribed();
    const of = (godwit_id: string) => ({ ...message, godwit_id, track: undefined, tag: "ride", godwit_ack: "t" });
    await visitor.deliver({ ...of("ride-1"), title: "", recall: true });
    await visitor.send({ ...of("ride-1"), tag: "its own" });
    await visitor.deliver({ ...of("ride-2"), title: "Old" });
    await visitor.deliver({ ...of("ride-3"), title: "New" });
    await visitor.deliver({ ...of("ride-2"), title: "", recall: true });
    expect((await visitor.shown()).map((n) => n.title)).toEqual(["New"]);
  });

  test("sees one notification of what a page shows and push brings, and the push acknowledges what the page could not", async () => {
    const { backend, visitor } = await subscribed();
    const show = (godwit_id: string) =>
      visitor.page.evaluate(async (id) => {
        const [registration] = await navigator.serviceWorker.getRegistrations();
        const payload = { godwit_id: id, tag: id, title: "Live" };
        registration?.active?.postMessage({ godwit: { type: "show", payload } });
      }, godwit_id);
    const of = (godwit_id: string) => ({ ...message, godwit_id, track: undefined, godwit_ack: `t-${godwit_id}` });
    const tags = async () => (await visitor.shown()).map((n) => n.tag).sort();

    await show("ride-1");
    await visitor.deliver({ ...of("ride-1"), tag: "of all rides" }); // after the page's, which the worker got first
    expect(await tags()).toEqual(["of all rides"]);
    await show("ride-1");
    await show("ride-2");
    await eventually("the live one is shown", async () => (await tags()).length === 2);
    expect(await tags()).toEqual(["of all rides", "ride-2"]);
    await visitor.deliver({ ...of("ride-1"), recall: true });

    await visitor.react("notificationclick"); // on ride-2, which has no token
    await eventually("that is kept", async () =>
      (await visitor.page.evaluate(seen)).some((s) => s.settled && s.id === "ride-2"),
    );
    await visitor.send({ ...of("ride-2"), tag: "ride-2" });
    await eventually("its push acknowledges it", () => backend.acks.length === 1);
    expect(backend.acks).toEqual([{ tokens: ["t-ride-2"] }]);
    expect(await tags()).toEqual([]);
  });

  test("loses no message that comes while another is recalled: they are handled in turn", async () => {
    const { visitor } = await subscribed();
    const order = await (await visitor.worker()).evaluate(async () => {
      const sw = globalThis as unknown as ServiceWorkerTestScope & {
        PushEvent: new (type: string, init: object) => Event;
      };
      const calls: string[] = [];
      const { registration } = sw;
      const [get, show] = [
        registration.getNotifications.bind(registration),
        registration.showNotification.bind(registration),
      ];
      const shown = new Promise<void>((resolve) => {
        registration.getNotifications = async (filter) => {
          calls.push("asks");
          await new Promise((done) => setTimeout(done, 50)); // time for the other to come in between
          const list = await get(filter);
          calls.push("knows");
          return list;
        };
        registration.showNotification = async (title, options) => {
          calls.push(title);
          await show(title, options);
          if (title === "Second") resolve();
        };
      });
      const push = (data: object) => sw.dispatchEvent(new sw.PushEvent("push", { data: JSON.stringify(data) }));
      await show("First", { tag: "d1" });
      push({ id: "d1", tag: "d1", recall: true });
      push({ id: "d2", title: "Second", tag: "d2" });
      await shown;
      return calls;
    });
    expect(order).toEqual(["asks", "knows", "asks", "knows", "Second"]);
  });

  test("is told of the newer message of a tag, once", async () => {
    const { visitor } = await subscribed();
    const told = async () => (await visitor.shown()).map((n) => [n.title, n.renotify]);
    const of = (id: string) => ({ ...message, id, godwit_id: id, tag: "score", title: id });
    await visitor.deliver(of("1:0"));
    await visitor.deliver(of("2:0"));
    expect(await told()).toEqual([["2:0", true]]);
    await visitor.deliver(of("2:0"));
    expect(await told()).toEqual([["2:0", false]]);
    await visitor.deliver("words without a tag");
    expect(await told()).toContainEqual(["words without a tag", false]);
  });

  test.each(["hangs", "fails"])(
    "sees messages and follows them where the worker's storage %s",
    async (how) => {
      const { backend, visitor } = await subscribed();
      await (await visitor.worker()).evaluate((how) => {
        IDBFactory.prototype.open = () => {
          if (how === "fails") throw new DOMException("no storage", "UnknownError");
          return {} as IDBOpenDBRequest;
        };
      }, how);
      await visitor.send({ ...message, track: undefined, godwit_ack: "t1", server: backend.url });
      await visitor.send({ ...message, godwit_id: "d2", tag: "d2", title: "Second", track: undefined });
      await eventually("both are shown", async () => (await visitor.shown()).length === 2, 60_000);
      expect(await visitor.react("notificationclick")).toMatch(/\/article$/);
      await eventually("it is acknowledged", () => backend.acks.some((a) => a.event === "clicked"), 60_000);
    },
    120_000,
  );

  test("sees the next message while a server does not answer", async () => {
    const { backend, visitor } = await subscribed();
    backend.silent = true;
    await visitor.send({ ...message, godwit_ack: "t1", godwit_settle: "shown" });
    await eventually("the server is asked", () => backend.requests.includes("POST /v1/acks"));
    await visitor.send({ ...message, godwit_id: "d2", tag: "d2", title: "Second" });
    await eventually("the next is shown", async () => (await visitor.shown()).some((n) => n.title === "Second"));
  });

  test("sees the newer message of a tag, the actions, and text that is no JSON", async () => {
    const { backend, visitor } = await subscribed();
    const actions = [{ action: "buy", title: "Buy", url: "https://shop.example/x" }];
    await visitor.deliver({ ...message, title: "Old" });
    await visitor.deliver({ ...message, title: "New", actions, require_interaction: true });
    await eventually("the newer is shown", async () => (await visitor.shown())[0]?.title === "New");
    expect(await visitor.shown()).toMatchObject([{ actions: ["buy"], requireInteraction: true }]);
    await visitor.react("notificationclose");
    const opened = await visitor.react("notificationclick", "buy");
    expect(opened).toBe("https://shop.example/x");
    await eventually("dismissal is counted", () => backend.reports.some((r) => r.event === "dismissed"));
    await visitor.deliver("plain words");
    await eventually("words are shown", async () => (await visitor.shown()).some((n) => n.title === "plain words"));
  });

  test("does not open what is no web address", async () => {
    const { visitor } = await subscribed();
    await visitor.deliver({ ...message, url: "javascript:alert(1)", extra: { url_to_open: "" }, track: undefined });
    await eventually("it is shown", async () => (await visitor.shown()).length === 1);
    const opened = await visitor.react("notificationclick");
    expect(opened).toBe("");
  });

  test("whom the server forgot is registered again, and nobody is asked twice", async () => {
    const { backend, origin, visitor } = await subscribed();
    const before = backend.requests.length;
    await visitor.page.goto(origin);
    await visitor.page.getByRole("button", { name: "Notification preferences" }).waitFor();
    expect(backend.requests.slice(before).filter((r) => r.includes("/v1/"))).toEqual([]); // it was asked today
    backend.endpoints.clear();
    const change = () => visitor.page.evaluate(() => new window.Godwit.Push({ server: "", app: "news" }).update({}));
    await expect(change()).rejects.toThrow("the server has forgotten this browser: subscribe again");
    await visitor.page.evaluate(() => {
      const real = Date.now;
      Date.now = () => real() + 2 * 86_400_000;
      return window.Godwit.start({
        app: "news",
        server: String(document.querySelector("script")?.src).replace("/sdk/godwit.js", ""),
      });
    });
    expect(backend.endpoints.size).toBe(1);
    expect(await visitor.page.getByRole("dialog").count()).toBe(0);
  });

  test("whose subscription was made with another key gets a new one", async () => {
    const { backend, visitor } = await subscribed();
    const old = [...backend.endpoints.values()][0]?.body.address.endpoint;
    backend.key = Buffer.from([4, ...Array.from({ length: 64 }, (_, i) => 255 - i)]).toString("base64url");
    await visitor.page.evaluate(async () => {
      const real = Date.now;
      Date.now = () => real() + 2 * 86_400_000;
      await window.Godwit.start({
        app: "news",
        server: String(document.querySelector("script")?.src).replace("/sdk/godwit.js", ""),
      });
    });
    await eventually("one endpoint is left", () => backend.endpoints.size === 1);
    expect([...backend.endpoints.values()][0]?.body.address.endpoint).not.toBe(old);
  });

  test("whose browser changes the subscription is registered anew by the service worker", async () => {
    const { backend, visitor } = await subscribed();
    const before = [...backend.endpoints.keys()];
    const worker = await visitor.worker();
    await worker.evaluate(() => {
      const sw = globalThis as unknown as ServiceWorkerTestScope & { key?: unknown };
      const endpoint = "https://push.example.com/send/changed";
      const subscription = { endpoint, toJSON: () => ({ endpoint, keys: { p256dh: "p", auth: "a" } }) };
      Object.assign(sw.registration.pushManager, {
        getSubscription: async () => null,
        subscribe: async (o: { applicationServerKey: unknown }) => {
          sw.key = o.applicationServerKey;
          return subscription;
        },
      });
      sw.dispatchEvent(new Event("pushsubscriptionchange"));
    });
    await eventually("the new address is known, the old one gone", () => {
      const all = [...backend.endpoints.values()].map((e) => e.body.address.endpoint);
      return all.length === 1 && all[0] === "https://push.example.com/send/changed";
    });
    expect([...backend.endpoints.keys()]).toEqual(before); // with its tags
    expect(await worker.evaluate(() => (globalThis as { key?: unknown }).key)).toBe(backend.key);
  });
});
