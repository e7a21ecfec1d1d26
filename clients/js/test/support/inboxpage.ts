import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { onTestFinished } from "vitest";
import { InboxBackend, items, type Stored } from "./inboxbackend.js";
import { site } from "./site.js";

/** The axe engine, which finds what keeps people out. */
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Options {
  items?: Stored[];
  attributes?: string;
  /** Inside the element. */
  inside?: string;
  html?: string;
  css?: string;
  lang?: string;
  dir?: string;
  context?: BrowserContextOptions;
  script?: string;
  pages?: Record<string, string>;
  backend?: (b: InboxBackend) => void;
  /** The page is a program of its own, which learns the server from data-url of main; the server's script is not there. */
  ownData?: boolean;
}

/** A site with the element, under a policy that allows no inline script, no inline style and no markup from strings. */
export async function inboxPage(browser: Browser, o: Options = {}) {
  const backend = await InboxBackend.start();
  backend.items = o.items ?? items(3);
  o.backend?.(backend);
  const element = `<godwit-inbox app="demo" recipient="ada" ${o.attributes ?? ""}>${o.inside ?? ""}</godwit-inbox>`;
  const head = `<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Site</title><link rel="stylesheet" href="/site.css">`;
  const scripts = `${o.ownData ? "" : `<script src="${backend.url}/sdk/inbox.js" async></script>`}${o.script ? '<script src="/page.js"></script>' : ""}`;
  const body =
    o.html?.replace("$INBOX", element) ??
    `<header><h1>Site</h1>${element}</header><main><p>Text</p><a href="#a">A link</a></main>`;
  const own = o.ownData ? body.replace("<main", `<main data-url="${backend.url}"`) : body;
  const pages = {
    "/": `<!doctype html><html lang="${o.lang ?? "en"}" dir="${o.dir ?? "ltr"}">${head}<body>${own}${scripts}`,
    "/site.css": o.css ?? "",
    "/page.js": (o.script ?? "").replaceAll("$SERVER", backend.url),
    "/away": "<h1>Away</h1>",
    ...o.pages,
  };
  const policy = `; require-trusted-types-for 'script'; trusted-types ${o.ownData ? "vue" : "'none'"}; base-uri 'none'; form-action 'none'`;
  const origin = await site(() => backend.url, pages, policy);
  const context = await browser.newContext({
    viewport: { width: 900, height: 700 },
    reducedMotion: "reduce",
    ...o.context,
  });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (e) => errors.push(String(e)));
  page.on("console", (m) => {
    if (m.type() === "error") errors.push(m.text());
  });
  await page.goto(origin);
  return { backend, origin, context, page, errors };
}

/** What axe finds wrong with the page. */
export async function faults(page: Page): Promise<string[]> {
  // Through the debugger: the page's own policy lets no such script in.
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Runtime.evaluate", { expression: axe });
  return page.evaluate(async () => {
    const { axe } = window as unknown as {
      axe: {
        run(on: string): Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }>;
      };
    };
    const { violations } = await axe.run("godwit-inbox");
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => `${n.html} ${n.failureSummary}`).join(" | ")}`);
  });
}
