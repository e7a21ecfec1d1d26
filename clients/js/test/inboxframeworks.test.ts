import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { haveBrowser, launch } from "./support/browser.js";
import { inboxPage } from "./support/inboxpage.js";
import { eventually } from "./support/wait.js";

let browser: Browser;

beforeAll(async () => {
  if (haveBrowser) browser = await launch();
});

afterAll(() => browser?.close());

const root = fileURLToPath(new URL("..", import.meta.url));

/** A site's own program, bundled as a site bundles one, with the real framework. */
async function bundled(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root, loader: "ts" },
    bundle: true,
    write: false,
    format: "iife",
    define: {
      "process.env.NODE_ENV": '"development"',
      __VUE_OPTIONS_API__: "true",
      __VUE_PROD_DEVTOOLS__: "false",
      __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false",
    },
    logLevel: "error",
  });
  return (outputFiles[0]?.text ?? "").replaceAll("</script", "<\\/script");
}

const programs = {
  React: `
    import { createElement as h, StrictMode, useState } from "react";
    import { createRoot } from "react-dom/client";
    import { GodwitInboxElement, useInbox } from "./src/inbox/react.ts";
    const url = document.querySelector("main").dataset.url;
    function Count() {
      const { inbox, state } = useInbox({ url, app: "demo", recipient: "ada" });
      return h("button", { onClick: () => inbox.readAll() }, "Unread here: " + state.unread);
    }
    function App() {
      const [told, tell] = useState("");
      const [on, turn] = useState(true);
      const [category, choose] = useState("");
      return h("div", null, h("output", null, told), h("button", { onClick: () => turn(!on) }, "Turn"),
        h("button", { onClick: () => choose("promo") }, "Promo"), on && h(Count),
        on && h(GodwitInboxElement, { app: "demo", recipient: "ada", url, className: "mine", token: () => "t", category: category || undefined,
          row: (item) => document.createTextNode("Drawn: " + item.title),
          onOpen: (e) => { e.preventDefault(); tell(told + "opened " + e.detail.item.id); } }, h("b", { slot: "bell" }, "Post")));
    }
    createRoot(document.querySelector("main")).render(h(StrictMode, null, h(App)));`,
  Vue: `
    import { createApp, h, ref } from "vue";
    import { GodwitInboxElement, useInbox } from "./src/inbox/vue.ts";
    const url = document.querySelector("main").dataset.url;
    const Count = { setup() {
      const { inbox, state } = useInbox({ url, app: "demo", recipient: "ada" });
      return () => h("button", { onClick: () => inbox.readAll() }, "Unread here: " + state.value.unread);
    } };
    createApp({ setup() {
      const told = ref(""), on = ref(true), category = ref(undefined), token = () => "t";
      const row = (item) => document.createTextNode("Drawn: " + item.title);
      const open = (e) => { e.preventDefault(); told.value += "opened " + e.detail.item.id; };
      return () => h("div", [h("output", told.value), h("button", { onClick: () => (on.value = !on.value) }, "Turn"),
        h("button", { onClick: () => (category.value = "promo") }, "Promo"), on.value && h(Count),
        on.value && h(GodwitInboxElement, { app: "demo", recipient: "ada", url, class: "mine", token, category: category.value, row, onOpen: open },
          () => h("b", { slot: "bell" }, "Post"))]);
    } }).mount("main");`,
};

describe.runIf(haveBrowser)("the inbox in a framework", () => {
  for (const [name, program] of Object.entries(programs)) {
    test(`${name} sets its properties, hears its events, and ends its connections`, async () => {
      const script = await bundled(program);
      const { backend, page, errors } = await inboxPage(browser, {
        html: "<h1>Site</h1><main></main>",
        script,
        ownData: true,
      });
      await eventually("the hook and the element are connected", () => backend.connections === 2);
      await page.getByText("Unread here: 2").waitFor();
      expect(await page.locator("godwit-inbox").getAttribute("class")).toBe("mine");
      await page.getByText("Post").click();
      await page.getByText("Drawn: Item 0").click();
      await page.getByText("opened n0").waitFor();
      await page.getByText("Unread here: 1").waitFor();
      await page.keyboard.press("Escape");
      await page.getByText("Unread here: 1").click();
      await page.getByText("Unread here: 0").waitFor();
      await eventually("the server knows", () => backend.counts.unread === 0);
      await page.getByText("Promo").click();
      await eventually("the element asks for the category", () =>
        backend.requests.some((r) => r.includes("category=promo")),
      );
      await page.getByText("Turn").click();
      await eventually("nobody is connected", () => backend.connections === 0);
      await page.getByText("Turn").click();
      await eventually("they are connected again", () => backend.connections === 2);
      expect(errors).toEqual([]);
    });
  }
});

test("a server that draws pages can import all of it", async () => {
  const contents = `
    import { createElement } from "react";
    import { renderToString } from "react-dom/server";
    import { createSSRApp, h } from "vue";
    import { renderToString as vue } from "vue/server-renderer";
    import * as react from "./src/inbox/react.ts";
    import * as views from "./src/inbox/vue.ts";
    import "./src/inbox/element.ts";
    const options = { url: "http://localhost", recipient: "ada" };
    const Count = () => "unread " + react.useInbox(options).state.unread;
    console.log(renderToString(createElement(react.GodwitInboxElement, { app: "demo", recipient: "ada", className: "a" })), renderToString(createElement(Count)));
    vue(createSSRApp({ setup() { const { state } = views.useInbox(options); return () => [h(views.GodwitInboxElement, { app: "demo", recipient: "ada", class: "a" }), "unread " + state.value.unread]; } })).then(console.log);`;
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root, loader: "ts" },
    ...{ bundle: true, write: false, format: "cjs", platform: "node", logLevel: "error" },
  });
  const told = execFileSync(process.execPath, ["-"], {
    input: outputFiles[0]?.text ?? "",
    encoding: "utf8",
    cwd: root,
  });
  expect(told).toContain('<godwit-inbox app="demo" recipient="ada" class="a"></godwit-inbox> unread 0\n');
  expect(told).toContain('<godwit-inbox app="demo" recipient="ada" class="a"></godwit-inbox>unread 0');
});
