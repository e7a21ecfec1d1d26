import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { haveBrowser, launch, Visitor } from "./support/browser.js";
import { subscribed as subscribedIn, world } from "./support/pushworld.js";
import { eventually } from "./support/wait.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch({ push: true });
});

afterAll(() => browser?.close());

const subscribed = (attributes?: string, more?: Record<string, string>) => subscribedIn(browser, attributes, more);

/** Visitors are asked, and change their mind, with the prompt and the bell of the page. */
describe.runIf(haveBrowser)("a visitor", () => {
  test("opts out with the box, is not asked again, and may opt in again", async () => {
    const { backend, origin, visitor } = await subscribed();
    const { page } = visitor;
    const bell = page.getByRole("button", { name: "Notification preferences" });
    await bell.click();
    const box = page.getByRole("checkbox", { name: "I want to receive notifications" });
    expect(await box.isChecked()).toBe(true);
    await box.uncheck();
    await eventually("the server forgot the browser", () => backend.endpoints.size === 0);
    await page.goto(origin);
    await bell.waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    await bell.focus();
    await page.keyboard.press("Enter");
    await page.locator("input[type=checkbox]:focus").waitFor(); // once the dialog has come
    await page.keyboard.press("Space");
    await eventually("it is registered again", () => backend.endpoints.size === 1);
    await page.keyboard.press("Escape");
    expect(await bell.getAttribute("aria-expanded")).toBe("false");
  });

  test("who says not now is left alone, also on the next page", async () => {
    const { backend, origin } = await world();
    const { page } = await Visitor.come(browser);
    await page.goto(origin);
    await page.getByRole("button", { name: "Not now" }).click();
    await page.goto(origin);
    await page.getByRole("button", { name: "Notification preferences" }).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(backend.endpoints.size).toBe(0);
  });

  test("is asked on the visit the site chose, not before", async () => {
    const { origin } = await world('data-app="news" data-visits="2" data-bell="none"');
    const { page } = await Visitor.come(browser);
    await page.goto(origin);
    await page.waitForFunction(() => document.querySelector("[data-godwit]"));
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.evaluate(() => {
      for (const name of Object.keys(localStorage).filter((n) => n.startsWith("godwit-prompt "))) {
        const m = JSON.parse(localStorage.getItem(name) ?? "{}");
        localStorage.setItem(name, JSON.stringify({ ...m, lastSeen: Date.now() - 3_600_000 }));
      }
    });
    await page.goto(origin);
    await page.getByRole("dialog").waitFor();
    expect(await page.getByRole("button", { name: "Notification preferences" }).count()).toBe(0);
  });

  test("gets the browser's own question at once where the site wants that, and no bell once subscribed", async () => {
    const { backend, origin } = await world('data-app="news" data-ask="direct" data-hide-bell');
    const { page, context, errors } = await Visitor.come(browser);
    const bell = page.getByRole("button", { name: "Notification preferences" });
    await context.grantPermissions(["notifications"], { origin });
    await page.goto(origin);
    await eventually("the browser is registered", () => backend.endpoints.size === 1);
    await eventually("the bell has gone", async () => (await bell.count()) === 0);
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(errors).toEqual([]);
  });

  test("is not asked where the site wants that, and finds the bell where it was put", async () => {
    const { origin } = await world('type="module" data-app="news" data-ask="none" data-bell="left"');
    const { page } = await Visitor.come(browser);
    await page.goto(origin);
    const bell = page.getByRole("button", { name: "Notification preferences" });
    await bell.waitFor();
    expect((await bell.boundingBox())?.x).toBe(20);
    expect(await page.getByRole("dialog").count()).toBe(0);
    await bell.click();
    const panel = page.getByRole("dialog", { name: "Notification preferences" });
    await panel.waitFor();
    expect((await panel.boundingBox())?.x).toBe(20);
  });

  test("who blocked notifications is told where to allow them", async () => {
    const { origin } = await world();
    const { page, context } = await Visitor.come(browser);
    await context.addInitScript(() => {
      Object.defineProperty(Notification, "permission", { get: () => "denied" });
    });
    await page.goto(origin);
    await page.getByRole("button", { name: "Notification preferences" }).click();
    await page.getByText("Notifications are blocked for this site").waitFor();
  });

  test("has the service worker of an earlier push service removed, where the site wants that", async () => {
    const { backend, origin } = await world('data-app="news" data-remove-conflicts', {
      "/old-push.js": "self.addEventListener('push', () => {});",
    });
    const visitor = await Visitor.come(browser);
    await visitor.context.grantPermissions(["notifications"], { origin });
    await visitor.page.goto(`${origin}/bare`);
    await visitor.page.evaluate(async () => {
      const old = await navigator.serviceWorker.register("/old-push.js");
      await old.pushManager.subscribe({ applicationServerKey: new Uint8Array([1]) });
    });
    await visitor.page.goto(origin);
    await visitor.page.getByRole("button", { name: "Continue" }).click();
    await eventually("the browser is registered", () => backend.endpoints.size === 1);
    const scripts = await visitor.page.evaluate(async () =>
      (await navigator.serviceWorker.getRegistrations()).map((r) => (r.active ?? r.installing)?.scriptURL),
    );
    expect(scripts).toEqual([`${origin}/godwit-sw.js`]);
  });

  test("finds the prompt readable by light and by dark", async () => {
    const { origin } = await world(
      'data-app="news" data-icon="/icon.svg" data-title="Shall we tell you what is new?"',
      {
        "/icon.svg": icon,
      },
    );
    const sizes = { "": { width: 760, height: 440 }, "phone-": { width: 390, height: 640 } };
    const { page, errors } = await Visitor.come(browser);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.goto(origin);
      await page.evaluate(() => {
        document.documentElement.style.colorScheme = "light dark"; // as a site that has both
      });
      const dialog = page.getByRole("dialog", { name: "Shall we tell you what is new?" });
      await dialog.waitFor();
      const [text, surface] = await dialog.evaluate((e) => {
        const s = getComputedStyle(e);
        return [s.color, s.backgroundColor];
      });
      expect(contrast(text as string, surface as string)).toBeGreaterThan(7);
      await page.getByRole("button", { name: "Notification preferences" }).click();
      const panel = page.getByRole("dialog", { name: "Notification preferences" });
      await panel.waitFor();
      for (const [of, size] of Object.entries(sizes)) {
        await page.setViewportSize(size);
        for (const drawn of [dialog, panel]) {
          const { x, y, width, height } = (await drawn.boundingBox()) ?? { x: -1, y: -1, width: 0, height: 0 };
          expect(x >= 0 && y >= 0 && x + width <= size.width && y + height <= size.height).toBe(true);
        }
        // The pictures of the guide: make screenshots
        if (process.env.SCREENSHOTS)
          await page.screenshot({ path: `${process.env.SCREENSHOTS}/prompt-${of}${colorScheme}.png` });
      }
    }
    expect(errors).toEqual([]);
  }, 60_000);
});

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 48 48"><rect width="48" height="48" fill="#b3261e"/>
<text x="24" y="34" font-family="serif" font-size="30" font-weight="bold" text-anchor="middle" fill="#fff">N</text></svg>`;

/** The contrast of two colours (WCAG 2.2). */
function contrast(a: string, b: string): number {
  const luminance = (color: string) => {
    const [r, g, blue] = (color.match(/[\d.]+/g) ?? []).map((v) => {
      const c = Number(v) / 255;
      return c <= 0.039_28 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    }) as [number, number, number];
    return 0.2126 * r + 0.7152 * g + 0.0722 * blue;
  };
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}
