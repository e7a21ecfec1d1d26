import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { eventually } from "./wait.js";

/** A real server, in a process of its own on a data folder of its own. */
export class Server {
  readonly dir = mkdtempSync(join(tmpdir(), "godwit-js-"));
  private http = "127.0.0.1:0";
  private process: ChildProcess | undefined;
  private log = "";

  private constructor(
    private readonly args: string[],
    private readonly env: Record<string, string>,
  ) {}

  /** Starts a development server: app demo, key dev, clients without tokens. It ends with the test. */
  static async start(args: string[] = [], env: Record<string, string> = {}): Promise<Server> {
    const s = new Server(["--dev", ...args], env);
    onTestFinished(async (context) => {
      await s.kill();
      rmSync(s.dir, { recursive: true, force: true });
      if (context.task.result?.state === "fail") process.stderr.write(s.log.slice(-4_000));
    });
    s.http = await address();
    await s.launch();
    return s;
  }

  get url(): string {
    return `http://${this.http}`;
  }

  /** Starts the process; after the first time on the same port. */
  async launch(): Promise<void> {
    const addresses = join(this.dir, "addresses.json");
    rmSync(addresses, { force: true });
    const flags = ["--data", this.dir, "--http-addr", this.http, "--grpc-addr", "127.0.0.1:0"];
    const child = spawn(binary(), ["serve", ...flags, ...this.args], { env: { ...process.env, ...this.env } });
    this.process = child;
    for (const out of [child.stdout, child.stderr]) out.on("data", (b) => (this.log += String(b)));
    await eventually("the server is ready", async () => {
      if (child.exitCode !== null) throw new Error(`the server exited with ${child.exitCode}\n${this.log}`);
      this.http = (JSON.parse(readFileSync(addresses, "utf8")) as { http: string }).http;
      return (await fetch(`${this.url}/readyz`)).ok;
    });
  }

  /** Ends the process as a power cut would. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  /** Takes a database away from a server that does not run, as a dying disk does, and makes an empty one, as an operator does. */
  lose(database: string): void {
    for (const name of readdirSync(this.dir)) {
      if (name.startsWith(database)) rmSync(join(this.dir, name));
    }
    this.run("doctor", "--repair", "--data", this.dir);
  }

  /** Runs the command line on this server's data. */
  run(...args: string[]): string {
    return execFileSync(binary(), args, { encoding: "utf8", cwd: this.dir });
  }
}

/** A free address. Where it can be, it is not among those of outgoing connections: one of these could take it while the server is down. */
async function address(): Promise<string> {
  const range = "/proc/sys/net/ipv4/ip_local_port_range";
  if (!existsSync(range)) return "127.0.0.1:0";
  const lowest = Number.parseInt(readFileSync(range, "utf8"), 10);
  for (let tries = 0; tries < 100; tries++) {
    const port = randomInt(12_000, lowest);
    const probe = createServer();
    const free = await new Promise((resolve) => {
      probe.once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => resolve(true));
    });
    await new Promise((resolve) => probe.close(resolve));
    if (free) return `127.0.0.1:${port}`;
  }
  throw new Error("no port is free");
}

function binary(): string {
  const path = process.env.GODWIT_BIN;
  if (!path) throw new Error("GODWIT_BIN is not set");
  return path;
}
