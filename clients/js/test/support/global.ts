import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Builds the server once for all tests, unless GODWIT_BIN names one. */
export default function setup(): void {
  if (process.env.GODWIT_BIN) return;
  const root = fileURLToPath(new URL("../../../..", import.meta.url));
  execFileSync("make", ["--no-print-directory", "js-server"], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  process.env.GODWIT_BIN = join(root, ".bin/js/godwit");
}
