import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { haveBrowser, launch } from "./support/browser.js";
import { items, type Stored } from "./support/inboxbackend.js";
import { inboxPage } from "./support/inboxpage.js";
import { eventually } from "./support/wait.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch();
});

afterAll(() => browser?.close());

const fresh = (id: string, more: Partial<Stored> = {}): Stored => ({
  id,
  title: `Title of ${id}`,
  created_at: new Date(Date.now() - 60_000).toISOString(),
  ...more,
});

const bell = (page: Page) => page.locator("godwit-inbox button[part=bell]");
const rows = (page: Page) => page.getByRole("article");
const focused = (page: Page) =>
  page.evaluate(() => {
    let e = document.activeElement;
    while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
    return e?.getAttribute("data-id") ?? e?.getAttribute("aria-label") ?? e?.textContent ?? e?.localName;
  });

/** Opens the list, and waits until it is there. */
async function open(page: Page): Promise<void> {
  await bell(page).click();
  await page.getByRole("dialog", { name: "Notifications" }).waitFor();
}

describe.runIf(haveBrowser)("the element", () => {
  test("shows what is new at the bell, and lists it; an open list is a seen one", async () => {
    const { backend, page, errors } = await inboxPage(browser, { items: [fresh("a"), fresh("b"), ...items(2)] });
    await page.getByRole("button", { name: "Notifications, 2 new" }).waitFor();
    await open(page);
    await page.getByRole("button", { name: "Notifications", exact: true }).waitFor();
    expect(backend.counts.unseen).toBe(0);
    await rows(page).nth(3).waitFor();
    expect(await rows(page).count()).toBe(4);
    backend.publish({ id: "c", title: "While it is open" });
    await page.getByText("While it is open").waitFor();
    await eventually("it is seen", () => backend.counts.unseen === 0);
    await page.getByText("New notifications: 1").waitFor({ state: "attached" });
    await page.keyboard.press("Escape");
    backend.publish({ id: "d", title: "While it is closed" });
    await page.getByRole("button", { name: "Notifications, 1 new" }).waitFor();
    expect(backend.counts.unseen).toBe(1);
    expect(errors).toEqual([]);
  });

  test("is read by a click, and leads to where the item leads", async () => {
    const { backend, page, origin } = await inboxPage(browser, {
      items: [fresh("a", { body: "It leads away", data: { url: "/away" } }), fresh("b")],
    });
    await open(page);
    await page.getByRole("button", { name: "Title of b" }).click();
    await eventually("it is read", () => Boolean(backend.items[1]?.read_at));
    expect(page.url()).toBe(`${origin}/`);
    await page.getByText("It leads away").click(); // beside the link
    await page.waitForURL(`${origin}/away`);
    await eventually("it is read although the page has gone", () => Boolean(backend.items[0]?.read_at));
  });

  test("leaves to the page what a click does, where it wants that", async () => {
    const { backend, page, origin } = await inboxPage(browser, {
      items: [fresh("a", { data: { url: "/away" }, actions: [{ id: "yes", title: "Yes", url: "/away" }] })],
      script: `const inbox = document.querySelector("godwit-inbox"); window.told = [];
        for (const name of ["godwit-open", "godwit-action"]) document.addEventListener(name, (e) => { e.preventDefault(); told.push([name, e.detail.item.id, e.detail.action?.id ?? null]); });`,
    });
    await open(page);
    await page.getByRole("link", { name: "Title of a" }).click();
    await page.getByRole("button", { name: "Yes" }).click();
    const told = () => page.evaluate(() => (window as unknown as { told: unknown[] }).told);
    await eventually("the page knows", async () => (await told()).length === 2);
    expect(JSON.stringify(await told())).toBe('[["godwit-open","a",null],["godwit-action","a","yes"]]');
    expect(page.url()).toBe(`${origin}/`);
    expect(backend.items[0]?.answered).toBeUndefined();
  });

  test("is used by the keyboard alone", async () => {
    const { backend, page } = await inboxPage(browser, {
      items: [
        fresh("a", {
          actions: [
            { id: "yes", title: "Yes" },
            { id: "no", title: "No" },
          ],
        }),
        fresh("b"),
        fresh("c"),
      ],
    });
    await bell(page).waitFor();
    await page.getByRole("button", { name: "Notifications, 3 new" }).waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    for (const at of ["Mark all as read", "Settings", "All"]) {
      await page.keyboard.press("Tab");
      expect(await focused(page)).toBe(at);
    }
    await page.keyboard.press("Tab");
    expect(await focused(page)).toBe("a");
    await page.keyboard.press("ArrowDown");
    expect(await focused(page)).toBe("b");
    await page.keyboard.press("p");
    await eventually("b is pinned, and first", async () => (await rows(page).first().getAttribute("data-id")) === "b");
    expect(await focused(page)).toBe("b"); // it went there with its row
    await page.keyboard.press("p");
    await eventually("b is back", async () => (await rows(page).first().getAttribute("data-id")) === "a");
    expect(await focused(page)).toBe("b");
    await page.keyboard.press("e");
    await eventually("b is archived", () => Boolean(backend.items[1]?.archived_at));
    expect(await focused(page)).toBe("c"); // its neighbour, not the page
    await page.keyboard.press("Delete");
    expect(await focused(page)).toBe("a");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    expect(await focused(page)).toBe("Yes");
    await page.keyboard.press("Enter");
    await eventually("it is answered", () => backend.items[0]?.answered === "yes");
    await page.getByText("Answered: Yes").waitFor();
    expect(await focused(page)).toBe("a");
    await page.keyboard.press("p");
    await eventually("it is pinned", () => backend.items[0]?.pinned === true);
    await page.keyboard.press("u");
    await eventually("it is unread", () => backend.items[0]?.read_at === null);
    await page.getByRole("button", { name: "Undo" }).press("Enter");
    await eventually("c is back", () => !backend.items[2]?.archived_at);
    await page.getByRole("tab", { name: "All" }).focus();
    await page.keyboard.press("ArrowRight");
    expect(await focused(page)).toBe("Unread");
    await page.keyboard.press("End");
    expect(await focused(page)).toBe("Archived");
    await page.getByText("Title of b").waitFor();
    await page.keyboard.press("Escape");
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(await focused(page)).toBe("Notifications");
  });

  test("has the focus at once when it opens, and never takes it back", async () => {
    const { page } = await inboxPage(browser, { items: [fresh("a")] });
    await page.getByRole("button", { name: "Notifications, 1 new" }).waitFor();
    const at = await bell(page).evaluate((bell: HTMLButtonElement) => {
      bell.click();
      const root = bell.getRootNode() as ShadowRoot;
      const first = root.activeElement?.getAttribute("role");
      root.querySelector<HTMLElement>("[role=tab]")?.focus();
      return new Promise<string>((resolve) =>
        setTimeout(() => requestAnimationFrame(() => resolve(`${first}, ${root.activeElement?.role}`))),
      );
    });
    expect(at).toBe("dialog, tab");
  });

  test("traps nobody: where the focus goes on, or somebody clicks elsewhere, it closes", async () => {
    const { page } = await inboxPage(browser, { items: [fresh("a")] });
    await open(page);
    for (let i = 0; i < 12 && (await focused(page)) !== "A link"; i++) await page.keyboard.press("Tab");
    expect(await focused(page)).toBe("A link");
    expect(await page.getByRole("dialog").count()).toBe(0);
    await open(page);
    await page.getByText("Text").click({ position: { x: 700, y: 5 }, force: true });
    await eventually("it is closed", async () => (await page.getByRole("dialog").count()) === 0);
    await open(page);
    await bell(page).click();
    await eventually("it is closed", async () => (await page.getByRole("dialog").count()) === 0);
  });

  test("is swiped by a finger, away and back, in either direction of writing", async () => {
    for (const dir of ["ltr", "rtl"]) {
      const { backend, page } = await inboxPage(browser, {
        items: [fresh("a"), fresh("b"), fresh("c")],
        dir,
        context: { hasTouch: true, isMobile: true, viewport: { width: 390, height: 800 } },
      });
      const swipe = await fingers(page);
      await bell(page).tap();
      await rows(page).first().waitFor();
      const forward = dir === "ltr" ? 200 : -200;
      await swipe("a", forward / 4);
      expect(backend.requests.filter((r) => r.startsWith("POST /v1/inbox/a"))).toEqual([]);
      await swipe("a", forward);
      await eventually("a is archived", () => Boolean(backend.items[0]?.archived_at));
      await swipe("b", -forward);
      await eventually("b is read", () => Boolean(backend.items[1]?.read_at));
      expect(backend.items[1]?.archived_at).toBeFalsy();
      await page.getByRole("button", { name: "Archive", exact: true }).first().tap();
      await eventually("by its button, too", () => Boolean(backend.items[1]?.archived_at));
      await page.getByRole("button", { name: "Close" }).tap();
      await eventually("it is closed", async () => (await page.getByRole("dialog").count()) === 0);
    }
  });

  test("draws a few of a thousand rows of any height, and loses nobody's place", async () => {
    const many = items(1_000).map((i, at) => ({ ...i, body: `Body ${"and more of it ".repeat(at % 17)}` }));
    const { backend, page, errors } = await inboxPage(browser, { items: many });
    await open(page);
    await rows(page).first().waitFor();
    await page.getByRole("tab", { name: "All" }).press("Tab");
    for (let last = ""; last !== "n999"; ) {
      await page.keyboard.press("End");
      last = String(await focused(page));
    }
    expect(await rows(page).count()).toBeLessThan(40);
    expect(await page.locator("[data-id=n999]").getAttribute("aria-posinset")).toBe("1000");
    const order = await page.evaluate(() => {
      const all = [...(document.querySelector("godwit-inbox")?.shadowRoot?.querySelectorAll("article") ?? [])];
      const numbers = all.map((e) => Number(e.getAttribute("aria-posinset")));
      const tops = all.map((e) => e.getBoundingClientRect());
      return {
        sorted: numbers.every((n, i) => i === 0 || n > (numbers[i - 1] ?? 0)),
        apart: tops.every((t, i) => i === 0 || t.top >= (tops[i - 1]?.bottom ?? 0) - 1),
      };
    });
    expect(order).toEqual({ sorted: true, apart: true });
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    const place = async () => (await page.locator("[data-id=n997]").boundingBox())?.y ?? 0;
    await eventually("it is measured", async () => (await place()) > 0);
    const before = await place();
    backend.publish({ id: "new", title: "At the top" });
    await eventually(
      "it has come",
      async () => (await page.locator("[data-id=n997]").getAttribute("aria-posinset")) === "999",
    );
    expect(Math.abs((await place()) - before)).toBeLessThan(2);
    expect(await focused(page)).toBe("n997");
    // Whoever scrolls away from the row with the focus is not called back by news.
    const list = page.locator("[part=list]");
    await list.evaluate((e) => e.scrollBy(0, -5_000));
    const scrolled = await list.evaluate((e) => e.scrollTop);
    backend.publish({ id: "newer", title: "Newer" });
    await eventually(
      "it has come",
      async () => (await page.locator("[data-id=n997]").getAttribute("aria-posinset")) === "1000",
    );
    expect(await list.evaluate((e) => e.scrollTop)).toBeLessThan(scrolled + 300);
    expect(await focused(page)).toBe("n997");
    await page.keyboard.press("Home");
    await page.getByText("At the top").waitFor();
    expect(await focused(page)).toBe("newer");
    expect(errors).toEqual([]);
  }, 120_000);
});

/** A finger that pushes rows aside. */
async function fingers(page: Page): Promise<(id: string, by: number) => Promise<void>> {
  const cdp = await page.context().newCDPSession(page);
  return async (id, by) => {
    const box = await page.locator(`[data-id=${id}]`).boundingBox();
    if (!box) throw new Error(`${id} is not in sight`);
    const [x, y] = [box.x + box.width / 2 - by / 2, box.y + 20];
    // The finger rests before it leaves: after a fling the browser takes the next tap for its end.
    let timestamp = Date.now() / 1_000;
    const touch = (type: "touchStart" | "touchMove" | "touchEnd", at: number, after = 0.02) => {
      timestamp += after;
      const touchPoints = type === "touchEnd" ? [] : [{ x: at, y }];
      return cdp.send("Input.dispatchTouchEvent", { type, touchPoints, timestamp });
    };
    await touch("touchStart", x);
    for (let i = 1; i <= 8; i++) await touch("touchMove", x + (by * i) / 8);
    await touch("touchMove", x + by, 0.5);
    await touch("touchEnd", x + by);
  };
}
