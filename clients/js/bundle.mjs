// Makes the files that the server serves under /sdk/. They are committed where the server embeds them; the same
// sources and the same esbuild make the same bytes.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { build, transform } from "esbuild";

const out = new URL("../../internal/server/sdk/dist/", import.meta.url).pathname;

const source = (name) => new URL(`src/${name}`, import.meta.url).pathname;

/** Style sheets are text to a script: here they are made small as such. */
const smallStyles = {
  name: "small styles",
  setup({ onLoad }) {
    onLoad({ filter: /style\.ts$/ }, async ({ path }) => {
      const [before, sheet, after] = (await readFile(path, "utf8")).split("`");
      const { code } = await transform(sheet, { loader: "css", minify: true });
      return { contents: `${before}${JSON.stringify(code.trim())}${after}`, loader: "ts" };
    });
  },
};

/** Scripts of the server load from beside themselves what a package leaves to whoever bundles it. */
const beside = {
  name: "parts beside the script",
  setup({ onResolve }) {
    onResolve({ filter: /\/parts\.js$/ }, ({ importer }) => {
      const of = /\/src\/(inbox|live|push)\//.exec(importer)?.[1];
      return { path: source({ inbox: "inboxbeside.ts", live: "livebeside.ts", push: "beside.ts" }[of]) };
    });
  },
};

/** The inbox listens, and leaves out what its listener could do besides. */
const listens = {
  name: "listen for an inbox",
  setup({ onResolve }) {
    onResolve({ filter: /\/(contents|registrations|topics|workers|unread|nack|network|reply)\.js$/ }, () => ({
      path: source("live/unused.ts"),
    }));
  },
};

/** Builds one script, and returns its name with a mark of its content, which the server knows as well. */
async function script(from, name, { plugins = [], ...more } = {}) {
  const { outputFiles } = await build({
    entryPoints: [`src/${from}`],
    outfile: out + name,
    bundle: true,
    minify: true,
    format: "iife",
    target: ["es2022"],
    charset: "utf8",
    legalComments: "none",
    logLevel: "warning",
    plugins: [smallStyles, beside, ...plugins],
    // Every source is a module, which is strict without a word.
    tsconfigRaw: { compilerOptions: { target: "ES2022", alwaysStrict: false, useDefineForClassFields: false } },
    write: false,
    ...more,
  });
  const { contents } = outputFiles[0];
  await writeFile(out + name, contents);
  const mark = createHash("sha256").update(contents).digest().subarray(0, 12).toString("base64url");
  return `${name}?v=${mark}`;
}

// The parts that a page loads on demand.
const names = {
  DIALOGS: JSON.stringify(await script("push/dialogs.ts", "dialogs.js", { format: "esm" })),
  ONCE: JSON.stringify(await script("push/once.ts", "once.js", { format: "esm" })),
  TEXTS: JSON.stringify(await script("push/texts.ts", "texts.js", { format: "esm" })),
};
await script("sdk.ts", "godwit.js", { define: names });
await script("perfecty.ts", "perfecty.js", { define: names });
await script("worker/sw.ts", "sw.js");
// The live client, for pages that listen without a build step of their own.
await script("index.ts", "live.js", {
  format: "esm",
  define: { WEBTRANSPORT: JSON.stringify(await script("live/webtransport.ts", "webtransport.js", { format: "esm" })) },
});

// The bell and the list behind it.
await script("inboxsdk.ts", "inbox.js", {
  plugins: [listens],
  define: {
    INBOX_TEXTS: JSON.stringify(await script("inbox/texts.ts", "inboxtexts.js", { format: "esm" })),
    INBOX_PREFERENCES: JSON.stringify(await script("inbox/preferences.ts", "inboxprefs.js", { format: "esm" })),
  },
});
