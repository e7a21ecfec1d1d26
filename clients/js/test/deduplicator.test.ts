import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { Client, Deduplicator, FileState, MemoryState, type StateStore } from "../src/node.js";

const dir = mkdtempSync(join(tmpdir(), "godwit-seen-"));
afterAll(() => rmSync(dir, { recursive: true }));
let files = 0;
const newFile = () => join(dir, `seen-${files++}.json`);

type Message = Record<string, unknown>;

interface Step {
  on: string;
  id: string;
  count: number;
  hours: number;
  webpush: Message;
  fcm: Message;
  apns: Message;
  want: string[];
  post?: { tokens: string[]; event: string };
}

const { cases } = JSON.parse(readFileSync(new URL("../../../api/vectors/push.json", import.meta.url), "utf8")) as {
  cases: { name: string; steps: Step[] }[];
};

/** Does with notifications what a program with a Deduplicator does. */
class Device {
  post: Step["post"];
  private ahead = 0;
  private readonly tokens = new Map<unknown, string>();
  private seen: Deduplicator;

  constructor(
    private readonly store: StateStore,
    private readonly channel: "webpush" | "fcm" | "apns",
  ) {
    this.seen = this.start();
  }

  private start(): Deduplicator {
    return new Deduplicator(this.store, () => Date.now() + this.ahead);
  }

  private show(id: string): string[] {
    if (this.seen.seen(id)) return [];
    this.seen.shown(id);
    return ["show"];
  }

  private close(id: string): string[] {
    return this.seen.settled(id) ? ["close"] : [];
  }

  does(s: Step): string[] {
    this.post = undefined;
    if (s.on === "live") return this.show(s.id);
    if (s.on === "push") return this.message(s[this.channel]);
    if (s.on === "recall") return this.close(s.id);
    if (s.on === "clicked" || s.on === "dismissed") return this.reacts(s);
    if (s.on === "later") this.ahead += s.hours * 3_600_000;
    else if (s.on === "restart") this.seen = this.start();
    else if (s.on === "others") for (let i = 0; i < s.count; i++) this.show(`other-${Math.random()}`);
    else throw new Error(`unknown step ${s.on}`);
    return [];
  }

  private message(m: Message): string[] {
    const recalled = [m.godwit_recall].flat()[0] ?? (m.recall ? m.godwit_id : undefined);
    if (recalled) return this.close(recalled as string);
    const id = m.godwit_id as string;
    if (m.godwit_ack) this.tokens.set(id, m.godwit_ack as string);
    const did = this.show(id);
    return did.length > 0 && m.godwit_settle === "shown" ? [...did, ...this.acknowledge(id, "shown")] : did;
  }

  private reacts(s: Step): string[] {
    const did = this.close(s.id);
    return did.length > 0 ? [...did, ...this.acknowledge(s.id, s.on)] : did;
  }

  private acknowledge(id: string, event: string): string[] {
    const token = this.tokens.get(id);
    if (token === undefined) return [];
    this.post = { tokens: [token], event };
    return ["post"];
  }
}

describe.each(["webpush", "fcm", "apns"] as const)("a device with messages as of %s", (channel) => {
  test.each(cases)("$name", ({ steps }) => {
    const many = steps.some((s) => s.on === "others"); // would be 500 files, synced
    const device = new Device(many ? new MemoryState() : new FileState(newFile()), channel);
    for (const [i, step] of steps.entries()) {
      expect([i, device.does(step), device.post]).toEqual([i, step.want, step.post]);
    }
  });
});

test("what is shown is listed, and a file that cannot be understood is as good as none", () => {
  const file = newFile();
  writeFileSync(file, '{"format":1,"ids":[{"id":');
  const seen = new Deduplicator(new FileState(file));
  for (const id of ["a", "b", "c"]) seen.shown(id);
  seen.settled("b");
  expect(new Deduplicator(new FileState(file)).held()).toEqual(["a", "c"]);
  expect((JSON.parse(readFileSync(file, "utf8")) as { ids: object[] }).ids).toEqual([
    { id: "a" },
    { id: "c" },
    { id: "b", settled: expect.stringMatching(/^\d{4}-.*Z$/) },
  ]);
  writeFileSync(file, '{"format":2,"ids":[]}');
  expect(() => new Deduplicator(new FileState(file))).toThrow("later version");
});

test("many tokens go in requests that the server takes, with no credential", async () => {
  const bodies: { tokens: string[]; event?: string }[] = [];
  const take = async (_: unknown, init?: RequestInit) => {
    expect(init?.headers).not.toHaveProperty("Authorization");
    bodies.push(JSON.parse(String(init?.body)) as (typeof bodies)[0]);
    return Response.json({ acked: 7 });
  };
  const client = new Client("http://server", { fetch: take as typeof fetch });
  expect(await client.ackTokens(new Array(101).fill("t"), "clicked")).toBe(14);
  expect(await client.ackTokens(["t"])).toBe(7);
  expect(bodies.map((b) => [b.tokens.length, b.event])).toEqual([
    [100, "clicked"],
    [1, "clicked"],
    [1, undefined],
  ]);
});
