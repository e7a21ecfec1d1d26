// Hostile input from a server or a publisher must not stop a client.
import { readFileSync } from "node:fs";
import { afterEach, expect, test, vi } from "vitest";
import { Client, type Listener, RedeliverAfter, UndecodableError } from "../src/node.js";
import { sockets } from "./support/fakesocket.js";

interface Case {
  name: string;
  kind: "notification" | "object" | "other";
  json?: (string | [string, number])[];
  want: "handled" | "nacked" | "either" | "skipped";
  reason?: string;
}

const file = new URL("../../../api/vectors/hostile.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: Case[] };

// Text that is not UTF-8 a platform's WebSocket refuses by itself, and protobuf is not spoken here.
const ours = cases.filter((c) => c.json);

let listener: Listener | undefined;
afterEach(() => listener?.close());

const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

async function connect(handler: (id: string) => void, told: unknown[]) {
  const net = sockets();
  const client = new Client("http://example.org", { webSocket: net.open });
  listener = client.listen("r", (n) => handler(n.id), {
    group: "site",
    ackDelay: 0,
    onHandlerError: (e) => told.push(e),
  });
  listener.register("hostile", () => {});
  listener.register("behind", () => {});
  await settle();
  return { net, socket: net.last() };
}

test.each(ours)("$name", async ({ json, kind, want, reason }) => {
  const told: unknown[] = [];
  const handled: string[] = [];
  const { net, socket } = await connect((id) => handled.push(id), told);
  socket.welcome();
  socket.onmessage?.({ data: json?.map((p) => (typeof p === "string" ? p : p[0].repeat(p[1]))).join("") });
  socket.say({ notification: { id: "behind", seq: 2 } });
  socket.say({ object: { group: "site", object: "behind", version: "1" } });
  await settle();
  expect(net.made.length).toBe(1);
  expect(socket.closed).toBe(false);
  const acks = socket.all("ack").flatMap((a) => a.ids);
  const objects = socket.all("object_ack").map((a) => a.object);
  expect(acks).toContain("behind");
  expect(objects).toContain("behind");
  const good = (kind === "object" ? objects : acks).includes("hostile");
  const expected = want !== "either" ? want : good ? "handled" : kind === "object" ? "skipped" : "nacked";
  expect(good).toBe(expected === "handled");
  expect(handled.includes("hostile")).toBe(expected === "handled" && kind !== "object");
  const nacks = socket.all("nack");
  expect(nacks.map((n) => n.ids)).toEqual(expected === "nacked" ? [["hostile"]] : []);
  if (expected === "handled") {
    expect(told).toEqual([]);
  } else if (reason) {
    expect(told).toHaveLength(1);
    expect(told[0]).toBeInstanceOf(UndecodableError);
    const why = (told[0] as UndecodableError).reason;
    expect(why.startsWith(`${reason}: `)).toBe(true);
    if (expected === "nacked") expect(nacks[0]?.reason).toBe(why);
  }
});

test("what cannot be read is asked for later each time", async () => {
  const { socket } = await connect(() => {}, []);
  socket.welcome();
  for (const attempt of [1, 2, 5, 6, null]) socket.say({ notification: { id: `n${attempt}`, title: 7, attempt } });
  await settle();
  expect(socket.all("nack").map((n) => n.after)).toEqual(["10000ms", "20000ms", "160000ms", "300000ms", "300000ms"]);
});

test("a callback that throws, and a frame that the server does not take, end nothing", async () => {
  const told: unknown[] = [];
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  const net = sockets();
  const fail = () => {
    throw new Error("no");
  };
  listener = new Client("http://example.org", { webSocket: net.open }).listen("r", fail, {
    onConnect: fail,
    onRecall: fail,
    onHandlerError: (e) => {
      told.push(e);
      throw e;
    },
  });
  await settle();
  const socket = net.last();
  socket.welcome();
  socket.say({ recall: { ids: ["a"] } });
  socket.say({ error: { code: "bad_field", message: "after is too long" } });
  socket.say({ notification: { id: "a" } });
  await settle();
  expect(told.map((e) => (e as Error).message)).toEqual([
    "no",
    "no",
    "server refused a frame: bad_field: after is too long",
    "no",
  ]);
  expect(log).toHaveBeenCalledTimes(4);
  log.mockRestore();
  expect(socket.all("nack")).toEqual([{ ids: ["a"] }]);
  expect(net.made.length).toBe(1);
});

test("a handler that asks for the impossible gets what can be had", async () => {
  const asks = [Number.NaN, Number.POSITIVE_INFINITY, -1, "soon", "400d"];
  const { socket } = await connect((id) => {
    throw new RedeliverAfter(asks[Number(id)] as number, "\ud800".repeat(500));
  }, []);
  socket.welcome();
  for (const i of asks.keys()) socket.say({ notification: { id: String(i) } });
  await settle();
  const nacks = socket.all("nack");
  expect(nacks.map((n) => n.after)).toEqual([undefined, "86400000ms", "1ms", undefined, "86400000ms"]);
  for (const n of nacks) expect(new TextEncoder().encode(n.reason).length).toBeLessThanOrEqual(1_000);
});
