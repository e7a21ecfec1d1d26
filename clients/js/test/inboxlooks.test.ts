import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { haveBrowser, launch } from "./support/browser.js";
import { items } from "./support/inboxbackend.js";
import { faults, inboxPage } from "./support/inboxpage.js";
import { eventually } from "./support/wait.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch();
});

afterAll(() => browser?.close());

const bell = (page: Page) => page.locator("godwit-inbox button[part=bell]");

describe.runIf(haveBrowser)("the element", () => {
  test("shows what a publisher sent as text, and follows no address that would run", async () => {
    const evil = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>{{title}}`;
    const { page, errors } = await inboxPage(browser, {
      items: [
        {
          id: 'evil"><b>',
          title: evil,
          body: evil,
          category: evil,
          data: { url: "javascript:window.hacked=1" },
          actions: [{ id: "a", title: evil, url: "javascript:window.hacked=1" }],
        },
        { id: "b", title: "\u202eevitcerid", body: `${"x".repeat(20_000)}\n\n\n`, data: { url: "data:text/html,hi" } },
        {
          id: "c",
          title: "",
          body: "",
          category: "news",
          data: { url: "//example.org/%00", toString: 1, __proto__: null },
        },
      ],
      inside: `<template slot="row"><b data-inbox="title"></b><i data-inbox="body"></i></template>`,
    });
    await bell(page).click();
    await page.getByRole("article").first().waitFor();
    expect(await page.locator("godwit-inbox b").first().textContent()).toBe(evil);
    expect(await page.locator("godwit-inbox img, godwit-inbox script").count()).toBe(0);
    const links = await page.locator("article a").evaluateAll((all) => all.map((a) => a.getAttribute("href")));
    expect(links.filter((l) => l && !/^https?:/.test(l))).toEqual([]);
    await page.locator("[data-id='evil\"><b>']").press("Enter");
    await page.getByRole("button", { name: evil, exact: true }).click();
    await page.getByText("Answered").waitFor();
    expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).toBeUndefined();
    expect(errors).toEqual([]);
  });

  test("says what is not there, and what went wrong, and recovers", async () => {
    const { backend, page } = await inboxPage(browser, { items: [], backend: (b) => (b.broken = 500) });
    await bell(page).click();
    await page.getByText("That did not work. Please try again.").waitFor();
    backend.broken = 0;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("There are no notifications yet.").waitFor();
    await page.getByRole("tab", { name: "Unread" }).click();
    await page.getByText("You have read everything.").waitFor();
    await page.getByRole("tab", { name: "Archived" }).click();
    await page.getByText("Nothing is archived.").waitFor();
    await page.getByRole("tab", { name: "All" }).click();
    backend.away = true;
    backend.cut();
    await page.getByText("You are offline.").waitFor();
    backend.items = items(1);
    backend.away = false;
    await page.getByText("Item 0", { exact: true }).waitFor();
    await eventually(
      "it is not offline",
      async () =>
        (await page.getByText("You are offline.").count()) === 0 ||
        !(await page.getByText("You are offline.").isVisible()),
    );
  });

  test("without a good token, says that there is nothing to see", async () => {
    const { page } = await inboxPage(browser, { backend: (b) => (b.token = "good"), attributes: 'token="bad"' });
    await bell(page).click();
    await page.getByText("Please sign in again.").waitFor();
    expect(await page.getByRole("article").count()).toBe(0);
  });

  test("takes a token from a function that the page set before the script had come", async () => {
    const { page } = await inboxPage(browser, {
      backend: (b) => (b.token = "good"),
      script: `document.querySelector("godwit-inbox").token = async () => "good";`,
    });
    await bell(page).click();
    await page.getByText("Item 0", { exact: true }).waitFor();
  });

  test("lets people choose channels and quiet hours, and keeps what it does not show", async () => {
    const { backend, page, errors } = await inboxPage(browser, {
      attributes: 'categories="promo: Offers, alarm" channels="webpush fcm"',
      backend: (b) => (b.preferences = { categories: { other: { channels: ["telegram"] } }, timezone: "Europe/Oslo" }),
    });
    await bell(page).click();
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByRole("rowheader").first().waitFor(); // the settings are fetched
    expect(await page.getByRole("rowheader").allTextContents()).toEqual([
      "Offers",
      "alarm",
      "other",
      "Everything else",
    ]);
    await page.getByRole("checkbox", { name: "Offers: Android" }).uncheck();
    await page.getByText("Saved").waitFor();
    expect(backend.preferences).toEqual({
      categories: {
        other: { channels: ["telegram"] },
        promo: { channels: ["webpush", "apns", "telegram", "webhook"] },
      },
      timezone: "Europe/Oslo",
    });
    await page.getByRole("checkbox", { name: "Do not disturb me between these times" }).check();
    await page.getByLabel("From").fill("21:30");
    await page.getByRole("checkbox", { name: "Offers: Android" }).check();
    await eventually("all is stored", () => JSON.stringify(backend.preferences).includes('"promo":{}'));
    expect(backend.preferences).toEqual({
      categories: { other: { channels: ["telegram"] }, promo: {} },
      timezone: "Europe/Oslo",
      quiet_hours: { from: "21:30", to: "08:00" },
    });
    expect(await faults(page)).toEqual([]);
    await page.getByRole("button", { name: "Back to the notifications" }).click();
    await page.getByText("Item 0", { exact: true }).waitFor();
    expect(errors).toEqual([]);
  });

  test("speaks the page's language, and the words of the page", async () => {
    const words: Record<string, string> = {
      de: "Benachrichtigungen",
      "fr-CA": "Notifications",
      es: "Notificaciones",
      "pt-BR": "Notificações",
      hi: "सूचनाएँ",
      nl: "Notifications",
    };
    for (const [lang, title] of Object.entries(words)) {
      const { page } = await inboxPage(browser, { lang, items: items(1) });
      await page.locator(`button[part=bell][aria-label="${title}"]`).click();
      await page.getByRole("dialog", { name: title }).waitFor();
    }
    const { page } = await inboxPage(browser, {
      lang: "ar",
      dir: "rtl",
      script: `document.querySelector("godwit-inbox").texts = { title: "الإشعارات", all: "الكل" };`,
    });
    await page.getByRole("button", { name: "الإشعارات" }).click();
    await page.getByRole("tab", { name: "الكل" }).waitFor();
    expect(await page.locator("article time").first().textContent()).toMatch(/[\u0600-\u06ff]/);
    const odd = await inboxPage(browser, {
      lang: "en_US@posix",
      script: `document.querySelector("godwit-inbox").texts = {};`,
    });
    await bell(odd.page).click();
    expect(await odd.page.locator("article time").first().textContent()).toBe("1 hr. ago");
    expect(odd.errors).toEqual([]);
  });

  test("shows an item as the site draws it, with the site's own style sheet", async () => {
    const { backend, page, errors } = await inboxPage(browser, {
      items: items(2),
      css: "godwit-inbox b { color: rgb(1, 2, 3); }",
      inside: `<template slot="row"><b data-inbox="title"></b></template><span slot="bell">Post</span>`,
    });
    await page.getByText("Post").click();
    const own = page.locator("godwit-inbox > [slot=row-n0] b");
    expect(await own.evaluate((e) => getComputedStyle(e).color)).toBe("rgb(1, 2, 3)");
    await own.click();
    await eventually("it is read", () => Boolean(backend.items[0]?.read_at));
    await page.evaluate(() => {
      const inbox = document.querySelector("godwit-inbox");
      if (inbox) inbox.row = ({ title }) => document.createTextNode(`Drawn: ${title}`);
    });
    await page.getByText("Drawn: Item 1").click();
    await eventually("it is read", () => Boolean(backend.items[1]?.read_at));
    expect(errors).toEqual([]);
  });

  test("is one page of its own, where the site wants that", async () => {
    const { backend, page } = await inboxPage(browser, {
      attributes: 'view="page"',
      css: "html, body, main { height: 100%; margin: 0; }",
      html: "<main><h1>Site</h1>$INBOX</main>",
      backend: (b) => (b.items[0] = { id: "a", title: "New" }),
    });
    await page.getByRole("region", { name: "Notifications" }).getByText("New").waitFor();
    await eventually("it is seen", () => backend.counts.unseen === 0);
    expect(await bell(page).isVisible()).toBe(false);
    expect(await faults(page)).toEqual([]);
  });

  test("stays within the window, wherever the bell is", async () => {
    for (const [css, size] of [
      ["header { position: fixed; right: 0; bottom: 0; }", { width: 700, height: 500 }],
      ["header { position: fixed; left: 0; top: 0; }", { width: 500, height: 300 }],
      [
        "header { position: fixed; left: 40%; bottom: 0; overflow: hidden; transform: translateX(0); z-index: -1; }",
        { width: 520, height: 900 },
      ],
    ] as const) {
      const { page } = await inboxPage(browser, { css, items: items(40), context: { viewport: size } });
      await bell(page).click();
      await page.getByRole("dialog").waitFor();
      const box = await page.getByRole("dialog").boundingBox();
      expect(
        box && box.x >= 0 && box.y >= 0 && box.x + box.width <= size.width && box.y + box.height <= size.height,
      ).toBe(true);
    }
  });

  test("lives on when it is moved, and two of them agree", async () => {
    const { backend, page, errors } = await inboxPage(browser, {
      html: `<header><h1>Site</h1>$INBOX</header><footer></footer>`,
    });
    await bell(page).click();
    await page.evaluate(() => {
      const inbox = document.querySelector("godwit-inbox") as HTMLElement;
      document.querySelector("footer")?.append(inbox, inbox.cloneNode(true));
    });
    await eventually("both are connected", () => backend.connections === 2);
    backend.publish({ id: "x", title: "X" });
    await eventually(
      "both know",
      async () => (await page.getByRole("button", { name: "Notifications, 1 new" }).count()) === 2,
    );
    await bell(page).first().click();
    await eventually(
      "both are seen",
      async () => (await page.getByRole("button", { name: "Notifications, 1 new" }).count()) === 0,
    );
    await page.evaluate(() => {
      for (const e of document.querySelectorAll("godwit-inbox")) e.remove();
    });
    await eventually("nobody is connected", () => backend.connections === 0);
    expect(errors).toEqual([]);
  });

  test("keeps nobody out: light, dark, in the brand's colours, from right to left, and on a phone", async () => {
    const shown = items(12);
    shown[1] = {
      ...shown[1],
      id: "ask",
      title: "Can you come?",
      pinned: true,
      actions: [
        { id: "y", title: "Yes" },
        { id: "n", title: "No" },
      ],
    };
    const brand =
      "godwit-inbox { --godwit-accent: #6b2d5c; --godwit-on-accent: #fff; --godwit-surface: #fff8f0; --godwit-text: #2d1b2e; }";
    for (const o of [
      { css: ":root { color-scheme: light; }" },
      { css: ":root { color-scheme: dark; }" },
      { css: brand },
      { dir: "rtl", attributes: 'theme="dark"' },
      { context: { hasTouch: true, isMobile: true, viewport: { width: 390, height: 800 } } },
    ]) {
      const { page } = await inboxPage(browser, { items: shown, ...o });
      await bell(page).click();
      await page.getByText("Can you come?").waitFor();
      expect(await faults(page)).toEqual([]);
      await page.getByRole("article").nth(3).focus();
      await page.keyboard.press("e");
      await page.getByRole("button", { name: "Undo" }).waitFor();
      expect(await faults(page)).toEqual([]);
    }
  });
});
