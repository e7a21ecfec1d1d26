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

const folders = ["/a/", "/b/"] as const;

/** Two sites in folders of one origin, each with an app of its own, of one server or of two. */
async function world({ servers = 1, oneWorker = false, prompt = false } = {}) {
  const a = await PushBackend.start();
  const b = servers === 2 ? await PushBackend.start() : a;
  a.apps.add("second");
  const page = (at: PushBackend, app: string, worker: string) =>
    `<h1>${app}</h1><script src="${at.url}/sdk/godwit.js" data-app="${app}" data-service-worker="${worker}" data-ask="${prompt ? "dialog" : "none"}" async></script>`;
  const worker = `importScripts("${a.url}/sdk/sw.js");`;
  const origin = await site(() => `${a.url} ${b.url}`, {
    "/a/": page(a, "news", oneWorker ? "/godwit-sw.js" : "/a/godwit-sw.js"),
    "/b/": page(b, servers === 2 ? "news" : "second", oneWorker ? "/godwit-sw.js" : "/b/godwit-sw.js"),
    "/godwit-sw.js": worker,
    "/a/godwit-sw.js": worker,
    "/b/godwit-sw.js": worker,
  });
  const visitor = await Visitor.come(browser);
  await visitor.context.grantPermissions(["notifications"], { origin });
  const { page: tab } = visitor;
  const options = (at: (typeof folders)[number]) => ({
    server: (at === "/a/" ? a : b).url,
    app: at === "/a/" || servers === 2 ? "news" : "second",
    serviceWorker: oneWorker ? "/godwit-sw.js" : `${at}godwit-sw.js`,
  });
  const look = async (at: (typeof folders)[number]) => {
    await tab.goto(origin + at);
    await tab.waitForFunction(() => document.querySelector("[data-godwit]"));
  };
  const does = (at: (typeof folders)[number], what: "subscribe" | "unsubscribe" | "status" | "keep") =>
    tab.evaluate(async ([o, what]): Promise<unknown> => new window.Godwit.Push(o)[what](), [
      options(at),
      what,
    ] as const);
  const of = (at: (typeof folders)[number]) => {
    const { server, app } = options(at);
    const list = [...(server === a.url ? a : b).endpoints.values()].filter((e) => e.app === app);
    return list.map((e) => e.body.address.endpoint);
  };
  return { a, b, origin, visitor, tab, look, does, of };
}

describe.runIf(haveBrowser)("two apps in folders of one origin", { timeout: 120_000 }, () => {
  test.each([
    ["of one server", {}],
    ["of one server, with one worker's file", { oneWorker: true }],
    ["of two servers", { servers: 2 }],
    ["of two servers, with one worker's file", { servers: 2, oneWorker: true }],
  ])("%s, have subscriptions of their own", async (_, how) => {
    const { look, does, of, visitor } = await world(how);
    await look("/a/");
    expect(await does("/a/", "subscribe")).toBe("subscribed");
    const [first] = of("/a/");
    await look("/b/");
    expect(await does("/b/", "keep")).toBe("unsubscribed");
    await look("/a/");
    expect(await does("/a/", "keep")).toBe("subscribed");
    expect([of("/a/"), of("/b/")]).toEqual([[first], []]);

    await look("/b/");
    expect(await does("/b/", "subscribe")).toBe("subscribed");
    expect(of("/b/")).toHaveLength(1);
    expect(of("/b/")).not.toEqual([first]);
    await look("/a/");
    await does("/a/", "unsubscribe");
    expect([await does("/a/", "status"), await does("/b/", "status")]).toEqual(["unsubscribed", "subscribed"]);
    expect([of("/a/").length, of("/b/").length]).toEqual([0, 1]);
    await look("/b/");
    await does("/b/", "unsubscribe");
    expect([of("/a/"), of("/b/")]).toEqual([[], []]);
    expect(visitor.errors).toEqual([]);
  });

  test("ask by themselves: opting out of one is no answer to the other", async () => {
    const { look, tab, of } = await world({ prompt: true });
    await look("/a/");
    await tab.getByRole("dialog").waitFor();
    await tab.getByRole("button", { name: "Not now" }).click();
    await look("/b/");
    await tab.getByRole("button", { name: "Continue" }).click();
    await eventually("it is registered", () => of("/b/").length === 1);
    await look("/a/");
    expect(await tab.getByRole("dialog").count()).toBe(0);
    expect(of("/a/")).toEqual([]);
  });

  test("and a subscriber of an earlier version stays one, without being asked", async () => {
    const { look, does, of, tab, visitor } = await world({ prompt: true });
    await look("/a/");
    await does("/a/", "subscribe");
    const before = of("/a/");
    // An earlier version kept one record for the whole origin, and one memory of the visitor.
    await tab.evaluate(
      () =>
        new Promise<void>((resolve, reject) => {
          const open = indexedDB.open("godwit");
          open.onerror = () => reject(open.error);
          open.onsuccess = () => {
            const rows = open.result.transaction("kept", "readwrite").objectStore("kept");
            const read = rows.get("subscription");
            read.onsuccess = () => {
              const wrote = rows.put({ ...read.result[0], checkedAt: 0 }, "subscription");
              wrote.onsuccess = () => {
                open.result.close();
                for (const n of Object.keys(localStorage).filter((n) => n.startsWith("godwit-prompt ")))
                  localStorage.removeItem(n);
                localStorage.setItem("godwit-prompt", '{"visits":3,"optedOut":false}');
                resolve();
              };
            };
          };
        }),
    );
    await look("/a/");
    expect(await does("/a/", "keep")).toBe("subscribed");
    expect(of("/a/")).toEqual(before);
    expect(await tab.getByRole("dialog").count()).toBe(0);
    await look("/b/");
    expect(await does("/b/", "keep")).toBe("unsubscribed");
    expect([of("/a/"), of("/b/")]).toEqual([before, []]);
    expect(visitor.errors).toEqual([]);
  });
});
