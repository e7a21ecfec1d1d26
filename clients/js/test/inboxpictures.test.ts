import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { haveBrowser, launch } from "./support/browser.js";
import type { Stored } from "./support/inboxbackend.js";
import { faults, inboxPage } from "./support/inboxpage.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch();
});

afterAll(() => browser?.close());

const hour = 3_600_000;

/** Items of a harbour office: new, unread and read ones, one pinned, one that asks. */
function shown(texts: readonly (readonly [string, string])[], yes: string, no: string): Stored[] {
  const ages = [0.2, 3, 20, 26, 50, 75];
  return texts.map(([title, body], i) => {
    const at = new Date(Date.now() - (ages[i] ?? 100) * hour).toISOString();
    const item: Stored = { id: `n${i}`, title, body, created_at: at, seen_at: i === 0 ? null : at };
    if (i === 0) item.actions = [yes, no].map((each, n) => ({ id: `a${n}`, title: each }));
    if (i === 1) item.pinned = true;
    if (i > 2) item.read_at = at;
    return item;
  });
}

const english = [
  ["Can you free berth 7?", "A pilot boat needs it from six in the morning until the flood has gone out again."],
  ["Storm from the west", "From six in the evening, force nine. Double your lines."],
  ["Your berth is paid until June", ""],
  ["Low tide at noon", "The flats are open. Bring boots."],
  ["The crane is free again", "Lifts from Monday, in the order of the list."],
  ["New opening hours", "The office is open until eight on Thursdays."],
] as const;

const arabic = [
  ["هل يمكنك إخلاء المرسى ٧؟", "يحتاجه قارب المرشد من السادسة صباحا."],
  ["عاصفة من الغرب", "من السادسة مساء. ضاعفوا الحبال."],
  ["المرسى مدفوع حتى يونيو", ""],
  ["الجزر عند الظهر", "الشاطئ مفتوح."],
  ["Crane is free", "The next lift is on Monday."],
] as const;

const arabicWords = {
  ...{ title: "الإشعارات", news: "الإشعارات، {n} جديدة", all: "الكل", unread: "غير مقروءة", archived: "المؤرشفة" },
  ...{ readAll: "اعتبار الكل مقروءا", settings: "الإعدادات", close: "إغلاق" },
};

const site = `html { font: 16px/1.5 system-ui, sans-serif; background: light-dark(#fff, #17191c); color: light-dark(#1f2328, #e6e8eb); }
  body { margin: 0; } header { display: flex; justify-content: space-between; align-items: center; padding: 6px 20px; border-bottom: 1px solid #8884; }
  h1 { font-size: 20px; } main { padding: 0 20px; max-width: 300px; }`;

const themes = {
  light: { css: `${site} :root { color-scheme: light; }` },
  dark: { css: `${site} :root { color-scheme: dark; }` },
  brand: {
    css: `${site} header { background: #14424f; color: #fff; } godwit-inbox { --godwit-accent: #9c3d10; --godwit-on-accent: #fff; --godwit-surface: #fdf6ec;
      --godwit-text: #2b2118; --godwit-badge: #ffb74d; --godwit-on-badge: #2b2118; --godwit-radius: 4px; --godwit-font: Georgia, "DejaVu Serif", serif; }`,
  },
  rtl: {
    css: `${site} :root { color-scheme: light; }`,
    ...{
      lang: "ar",
      dir: "rtl",
      script: `document.querySelector("godwit-inbox").texts = ${JSON.stringify(arabicWords)};`,
    },
  },
};

const picture = async (page: Page, name: string, clip?: { x: number; y: number; width: number; height: number }) => {
  const folder = process.env.SCREENSHOTS;
  if (folder) await page.screenshot({ path: `${folder}/inbox-${name}.png`, ...(clip ? { clip } : {}) });
};

/** Opens the inbox of the harbour on a desk, or on a phone, and takes its picture. */
async function readable(name: keyof typeof themes, on: "desk" | "phone"): Promise<void> {
  const rtl = name === "rtl";
  const phone = on === "phone";
  const viewport = phone ? { width: 390, height: 640 } : { width: 760, height: 560 };
  const [title, text] = rtl ? ["الميناء", "مرحبا"] : ["Harbour", "The office is open until eight."];
  const { page, errors } = await inboxPage(browser, {
    ...themes[name],
    items: rtl ? shown(arabic, "نعم", "لا") : shown(english, "Yes", "No"),
    context: { viewport, ...(phone ? { hasTouch: true, isMobile: true } : {}) },
    html: `<header><h1>${title}</h1>$INBOX</header><main><p>${text}</p></main>`,
  });
  const bell = page.getByRole("button", { name: rtl ? "الإشعارات، 1 جديدة" : "Notifications, 1 new" });
  await bell.waitFor();
  const plain = name === "light" || name === "dark"; // the guide shows the others on a desk alone
  if (!phone && plain) await picture(page, `bell-${name}`, { x: 0, y: 0, width: 760, height: 80 });
  await bell.click();
  await page.getByRole("article").nth(3).waitFor();
  const box = (await page.getByRole("dialog").boundingBox()) ?? { x: -1, y: -1, width: 0, height: 0 };
  expect(Math.min(box.x, box.y)).toBeGreaterThanOrEqual(0);
  expect(box.x + box.width).toBeLessThanOrEqual(viewport.width);
  expect(box.y + box.height).toBeLessThanOrEqual(viewport.height);
  expect(await faults(page)).toEqual([]);
  expect(errors).toEqual([]);
  await page.mouse.move(0, 0);
  if (!phone || plain) await picture(page, `${phone ? "phone-" : ""}${name}`);
}

/** The pictures of the guide: make screenshots. */
describe.runIf(haveBrowser)("the inbox", () => {
  for (const name of Object.keys(themes) as (keyof typeof themes)[]) {
    test(`is readable in ${name}, on a desk and on a phone`, async () => {
      await readable(name, "desk");
      await readable(name, "phone");
    });
  }
});
