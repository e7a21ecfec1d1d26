import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Builds the server once for all tests, unless GODWIT_BIN names one. */
export default function setup(): (() => void) | undefined {
  if (process.env.GODWIT_BIN) return undefined;
  const dir = mkdtempSync(join(tmpdir(), "godwit-bin-"));
  const binary = join(dir, "godwit");
  const root = fileURLToPath(new URL("../../../..", import.meta.url));
  // Built as `make build` does, so that both share Go's cache.
  const flags = ["-trimpath", "-tags", "grpcnotrace,nopgxregisterdefaulttypes", "-ldflags", "-s -w"];
  const env = { ...process.env, CGO_ENABLED: "0" };
  execFileSync("go", ["build", ...flags, "-o", binary, "./cmd/godwit"], { cwd: root, env, stdio: "inherit" });
  process.env.GODWIT_BIN = binary;
  return () => rmSync(dir, { recursive: true, force: true });
}
