// Makes the files that the server serves under /sdk/. They are committed where the server embeds them; the same
// sources and the same esbuild make the same bytes.
import { build } from "esbuild";

const out = new URL("../../internal/sdk/dist/", import.meta.url).pathname;

const common = {
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  external: ["./texts.js"],
};

await build({ ...common, entryPoints: ["src/sdk.ts"], outfile: `${out}godwit.js` });
await build({ ...common, entryPoints: ["src/perfecty.ts"], outfile: `${out}perfecty.js` });
await build({ ...common, entryPoints: ["src/worker/sw.ts"], outfile: `${out}sw.js` });
// The prompt's words in other languages, which a page loads when it needs them.
await build({ ...common, format: "esm", entryPoints: ["src/push/texts.ts"], outfile: `${out}texts.js` });
// The live client, for pages that listen without a build step of their own.
await build({ ...common, format: "esm", entryPoints: ["src/index.ts"], outfile: `${out}live.js` });
