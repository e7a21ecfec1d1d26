import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createInbox } from "../src/inbox/index.js";
import { wsSocket } from "../src/node.js";
import { haveBrowser, launch } from "./support/browser.js";
import { InboxBackend, items } from "./support/inboxbackend.js";
import { inboxPage } from "./support/inboxpage.js";
import { eventually } from "./support/wait.js";

// Faults that people reported of other inboxes; docs/field-cases.md names the sources.

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch();
});

afterAll(() => browser?.close());

async function opened(prepare: (b: InboxBackend) => void) {
  const backend = await InboxBackend.start();
  prepare(backend);
  const inbox = createInbox({ url: backend.url, recipient: "ada", webSocket: wsSocket });
  onTestFinished(inbox.subscribe(() => {}));
  await eventually("it is there and live", () => !inbox.state.loading && inbox.state.connection === "live");
  return { backend, inbox };
}

test("items that are read quickly one after the other leave no number behind, and two presses count once", async () => {
  const { backend, inbox } = await opened((b) => (b.items = items(30)));
  const counts: number[] = [];
  onTestFinished(inbox.subscribe(() => counts.push(inbox.state.unread)));
  for (const { id } of inbox.state.items) {
    inbox.read(id);
    inbox.read(id);
  }
  expect(inbox.state.unread).toBe(0);
  await eventually("the server knows", () => backend.counts.unread === 0);
  await eventually("all is quiet", () => backend.requests.filter((r) => r.startsWith("POST")).length === 60);
  expect(counts.every((n, i) => n <= (counts[i - 1] ?? n))).toBe(true); // it never goes up again
  expect(inbox.state.unread).toBe(0);
});

test("to open the list makes no read item unread for a moment", async () => {
  const { backend, inbox } = await opened((b) => {
    b.items = items(3);
    for (const i of b.items) Object.assign(i, { seen_at: null });
  });
  inbox.read("n0");
  const flickered: boolean[] = [];
  onTestFinished(inbox.subscribe(() => flickered.push(inbox.state.items[0]?.readAt === undefined)));
  await inbox.seen();
  await eventually("the server knows both", () => backend.counts.unseen === 0 && Boolean(backend.items[0]?.read_at));
  await eventually("the list was fetched again", () => inbox.state.items.every((i) => i.seenAt !== undefined));
  expect(flickered).not.toContain(true);
});

test("marking all as read reaches what was not fetched, though all that was fetched is read", async () => {
  const { backend, inbox } = await opened((b) => {
    b.items = items(70);
    for (const i of b.items.slice(0, 30)) i.read_at = i.created_at ?? null;
  });
  expect(inbox.state.items.every((i) => i.readAt)).toBe(true);
  expect(inbox.state.unread).toBeGreaterThan(0);
  inbox.readAll();
  await eventually("all is read", () => backend.counts.unread === 0 && inbox.state.unread === 0);
});

test("marking all as read twice, refused twice, is as it was before", async () => {
  const { backend, inbox } = await opened((b) => (b.items = items(3)));
  backend.refuses = 403;
  inbox.readAll();
  inbox.readAll();
  expect(inbox.state.unread).toBe(0);
  await eventually(
    "it is taken back",
    () => inbox.state.unread === 2 && inbox.state.items.filter((i) => !i.readAt).length === 2,
  );
  expect(backend.counts.unread).toBe(2);
});

describe.runIf(haveBrowser)("the element", () => {
  test("stays at the beginning while items of any height come on top", async () => {
    const { backend, page } = await inboxPage(browser, { items: items(60) });
    await page.locator("godwit-inbox button[part=bell]").click();
    await page.getByRole("article").first().waitFor();
    for (let i = 0; i < 5; i++) {
      backend.publish({ id: `top${i}`, title: `Top ${i}`, body: "many words ".repeat(i * 12) });
      await page.getByText(`Top ${i}`, { exact: true }).waitFor();
      const [scrolled, first] = await page.evaluate(() => {
        const root = document.querySelector("godwit-inbox")?.shadowRoot;
        const list = root?.querySelector("[part=list]");
        const top = root?.querySelector("article");
        return [list?.scrollTop, (top?.getBoundingClientRect().top ?? 0) - (list?.getBoundingClientRect().top ?? 0)];
      });
      expect([scrolled, Math.round(first ?? -1)]).toEqual([0, 0]);
    }
  });

  test("is above everything, also out of a header that cuts off, and over a modal dialog that has the bell", async () => {
    const { page } = await inboxPage(browser, {
      items: items(3),
      css: `header { position: relative; z-index: 1; overflow: hidden; height: 60px; transform: translateZ(0); }
        main { position: fixed; inset: 70px 0 0 0; z-index: 2147483647; background: #fff; }`,
      html: `<header><h1>Site</h1>$INBOX</header><main>Above all</main><dialog><p>Modal</p></dialog>`,
    });
    const onTop = () =>
      page.evaluate(() => {
        const root = document.querySelector("godwit-inbox")?.shadowRoot;
        const box = root?.querySelector("[part=panel]")?.getBoundingClientRect();
        const at = box && document.elementFromPoint(box.x + box.width / 2, box.y + box.height - 10);
        return at?.localName;
      });
    await page.locator("godwit-inbox button[part=bell]").click();
    await page.getByRole("article").first().waitFor();
    expect(await onTop()).toBe("godwit-inbox");
    await page.keyboard.press("Escape");
    await page.evaluate(() => {
      const dialog = document.querySelector("dialog") as HTMLDialogElement;
      dialog.append(document.querySelector("godwit-inbox") as HTMLElement);
      dialog.showModal();
    });
    await page.locator("godwit-inbox button[part=bell]").click();
    await page.getByRole("article").first().waitFor();
    expect(await onTop()).toBe("godwit-inbox");
    await page.getByRole("button", { name: "Item 0" }).click(); // it is not inert
    await page.keyboard.press("Escape");
    expect(await page.evaluate(() => document.querySelector("dialog")?.open)).toBe(true); // Escape closes one of both
  });
});
