import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { haveBrowser, launch } from "./support/browser.js";
import { items } from "./support/inboxbackend.js";
import { inboxPage } from "./support/inboxpage.js";
import { eventually } from "./support/wait.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch();
});

afterAll(() => browser?.close());

const root = fileURLToPath(new URL("..", import.meta.url));
const guide = readFileSync(new URL("../../../docs/guides/inbox-component.md", import.meta.url), "utf8");
const blocks = (language: string) =>
  [...guide.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "gms"))].map((m) => m[1] as string);

const script = '<script src="http://localhost:8080/sdk/inbox.js" async></script>\n';

/** A block of the guide as a site bundles it, with what the block takes for granted. */
async function bundled(block: string, loader: "ts" | "tsx", around: (block: string) => string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: around(block), resolveDir: root, loader },
    ...{ bundle: true, write: false, format: "iife", jsx: "automatic", logLevel: "error" },
    define: { "process.env.NODE_ENV": '"production"' },
    alias: {
      "godwit/inbox/react": `${root}src/inbox/react.ts`,
      "godwit/inbox/vue": `${root}src/inbox/vue.ts`,
      "godwit/inbox": `${root}src/inbox/index.ts`,
    },
  });
  return (outputFiles[0]?.text ?? "").replaceAll("http://localhost:8080", "$SERVER");
}

describe.runIf(haveBrowser)("what the guide shows", () => {
  test("as HTML shows an inbox", async () => {
    const all = blocks("html");
    expect(all.length).toBe(3);
    for (const block of all) {
      expect(block).toContain(script);
      const [, css = ""] = /<style>(.*)<\/style>\n/s.exec(block) ?? [];
      const html = block.replace(script, "").replace(/<style>.*<\/style>\n/s, "");
      const { page, errors } = await inboxPage(browser, { html: `<h1>Site</h1>${html}`, css, items: items(2) });
      await page.locator("godwit-inbox button[part=bell]").click();
      await page.getByText("Item 0", { exact: true }).filter({ visible: true }).first().waitFor();
      expect(errors).toEqual([]);
    }
  });

  test("as JavaScript takes hold of the element", async () => {
    const [block] = blocks("js");
    const { backend, page, errors } = await inboxPage(browser, {
      items: [{ id: "a", title: "A", data: { url: "/weather" } }],
      backend: (b) => (b.token = "secret"),
      html: `<h1>Site</h1>$INBOX<button id="all">All</button>`,
      script: `window.router = { go: (to) => (window.went = to) };\n${block}`,
      pages: { "/me/godwit-token": "" },
    });
    await page.route("**/me/godwit-token", (route) => route.fulfill({ body: "secret" }));
    await page.reload();
    await page.getByText("All", { exact: true }).first().click();
    await page.getByRole("dialog", { name: "Harbour office" }).getByRole("link", { name: "A" }).click();
    await eventually(
      "the page goes its own way",
      async () => (await page.evaluate(() => (window as { went?: string }).went)) === "/weather",
    );
    await eventually("it is read", () => Boolean(backend.items[0]?.read_at));
    expect(errors.filter((e) => !e.includes("401"))).toEqual([]); // of the visit before there was a token
  });

  test("as TypeScript works without a picture", async () => {
    const [block = ""] = blocks("ts");
    const program = await bundled(
      block,
      "ts",
      (
        b,
      ) => `const fetchToken = () => "t"; const draw = (s) => { document.querySelector("main").textContent = "Items: " + s.items.length; };
        ${b.replace('inbox.show("unread");', 'document.querySelector("main").onclick = async () => {\ninbox.show("unread");')}\nstop(); };`,
    );
    const { backend, page, errors } = await inboxPage(browser, {
      html: "<h1>Site</h1><main></main>",
      script: program,
      ownData: true,
      items: items(40),
    });
    await page.getByText("Items: 30").click();
    await eventually("nobody is connected", () => backend.connections === 0);
    expect(errors).toEqual([]);
  });

  test("for React and for Vue draws the element and the number", async () => {
    const [react = ""] = blocks("tsx");
    const [, vue = ""] = blocks("ts");
    const programs = [
      await bundled(
        react,
        "tsx",
        (b) =>
          `${b}\nimport { createRoot } from "react-dom/client"; createRoot(document.querySelector("main")!).render(<><Header token={async () => "t"} /><Unread token={async () => "t"} /></>);`,
      ),
      await bundled(
        vue,
        "ts",
        (b) => `${b}\nimport { createApp } from "vue"; createApp(Header, { token: async () => "t" }).mount("main");`,
      ),
    ];
    for (const program of programs) {
      const { page, errors } = await inboxPage(browser, {
        html: "<h1>Site</h1><main></main>",
        script: program,
        ownData: true,
      });
      await page.getByText("Unread: 2").waitFor();
      await page.locator("godwit-inbox button[part=bell]").click();
      await page.getByText("Item 0", { exact: true }).waitFor();
      expect(errors).toEqual([]);
    }
  });
});
