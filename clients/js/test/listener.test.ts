import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Client } from "../src/client.js";
import { RedeliverAfter, RefusedError } from "../src/errors.js";
import type { Listener, ListenOptions, NotificationHandler } from "../src/live/listener.js";
import { type FakeSocket, sockets } from "./support/fakesocket.js";

let net: ReturnType<typeof sockets>;
let listener: Listener | undefined;

beforeEach(() => {
  vi.useFakeTimers();
  net = sockets();
});

afterEach(async () => {
  const closed = listener?.close();
  await vi.advanceTimersByTimeAsync(5_000);
  await closed;
  listener = undefined;
  vi.useRealTimers();
});

async function listen(
  handler: NotificationHandler,
  options: ListenOptions & { token?: () => string } = {},
): Promise<FakeSocket> {
  const { token, ...o } = options;
  const client = new Client("http://server", { app: "demo", webSocket: net.open, ...(token ? { token } : {}) });
  listener = client.listen("driver-42", handler, o);
  await vi.advanceTimersByTimeAsync(0);
  return net.last();
}

const notification = (id: string, seq = 1) => ({
  notification: {
    id,
    seq,
    title: id,
    priority: "normal",
    attempt: 1,
    created_at: "2026-11-21T00:00:00.000Z",
    expires_at: "2026-11-22T00:00:00.000Z",
  },
});

const settle = () => vi.advanceTimersByTimeAsync(0);
/** Until acknowledgements are collected no longer. */
const collected = () => vi.advanceTimersByTimeAsync(5);

test("what is held may have to be looked up, and not to know it keeps nobody from connecting", async () => {
  const errors: unknown[] = [];
  const first = await listen(() => {}, { held: async () => ["ride-1"], onHandlerError: (e) => errors.push(e) });
  first.open();
  await settle();
  expect(first.all("hello")[0]?.held).toEqual(["ride-1"]);
  await listener?.close();
  const held = () => Promise.reject(new Error("no storage"));
  const second = await listen(() => {}, { held, onHandlerError: (e) => errors.push(e) });
  second.open();
  await settle();
  expect(second.all("hello")).toHaveLength(1);
  expect(errors).toEqual([new Error("no storage")]);
});

test("the hello says everything, as in the vectors", async () => {
  const file = new URL("../../../api/vectors/client_frames.json", import.meta.url);
  const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: { name: string; json: { hello: object } }[] };
  const vector = (name: string) => cases.find((c) => c.name === name)?.json.hello;
  const want = vector("hello with everything");
  expect(want).toBeDefined();
  const socket = await listen(() => {}, {
    token: () => "t.o.k",
    group: "oslo",
    device: "phone-1",
    held: () => ["ride-1", "ride-2"],
    window: 16,
    heartbeat: "20s",
  });
  socket.open();
  expect(socket.all("hello")).toEqual([want]);
  await listener?.close();
  const page = await listen(() => {}, { token: () => "t.o.k", device: "page", observe: true });
  page.open();
  const watches = vector("hello that only watches");
  expect(watches).toBeDefined();
  expect(page.all("hello")).toEqual([{ recipient: "driver-42", digest: "0000000000000000", ...watches }]);
});

test("a notification is acknowledged after its handler has returned, and handled once", async () => {
  let finish = () => {};
  const seen: string[] = [];
  const socket = await listen((n) => {
    seen.push(n.id);
    return new Promise<void>((resolve) => (finish = resolve));
  });
  socket.welcome();
  socket.say(notification("a"));
  socket.say(notification("a"));
  await settle();
  expect(socket.all("ack")).toEqual([]);
  finish();
  await settle();
  expect(socket.all("ack")).toEqual([{ ids: ["a"] }]);
  socket.say(notification("a")); // redelivered: the acknowledgement may have been lost
  await collected();
  expect(socket.all("ack")).toEqual([{ ids: ["a"] }, { ids: ["a"] }]);
  expect(seen).toEqual(["a"]);
});

test("handlers run one after the other in order, and each is acknowledged", async () => {
  const seen: string[] = [];
  const socket = await listen((n) => void seen.push(n.id));
  socket.welcome();
  for (let i = 0; i < 10; i++) socket.say(notification(`n${i}`, i + 1));
  await collected();
  expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((i) => `n${i}`));
  expect(socket.all("ack").flatMap((a) => a.ids)).toEqual(seen);
});

test("a lone acknowledgement leaves at once, those that follow within 5 ms leave together", async () => {
  const socket = await listen(() => {});
  const acked = () => socket.all("ack").map((a) => a.ids.join(" "));
  socket.welcome();
  socket.say(notification("a"));
  await settle();
  expect(acked()).toEqual(["a"]);
  socket.say(notification("b"));
  await vi.advanceTimersByTimeAsync(3);
  socket.say(notification("c"));
  await vi.advanceTimersByTimeAsync(1);
  expect(acked()).toEqual(["a"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(acked()).toEqual(["a", "b c"]);
  socket.say(notification("d"));
  await settle();
  expect(acked()).toEqual(["a", "b c"]); // some have just left
  await vi.advanceTimersByTimeAsync(10);
  socket.say(notification("e"));
  await settle();
  expect(acked()).toEqual(["a", "b c", "d", "e"]);
});

test("acknowledgements do not wait when the server does, nor when something else leaves, nor where nothing is to wait", async () => {
  const acked = (socket: FakeSocket) => socket.all("ack").map((a) => a.ids.join(" "));
  const answer = (n: { id: string }) => {
    if (n.id === "bad") throw new RedeliverAfter("45s");
  };
  const narrow = await listen(answer, { window: 4 });
  narrow.welcome();
  for (const id of ["a", "b", "c", "d", "bad"]) {
    narrow.say(notification(id));
    await settle();
  }
  expect(acked(narrow)).toEqual(["a", "b c", "d"]);
  await listener?.close();
  const eager = await listen(answer, { ackDelay: 0 });
  eager.welcome();
  for (const id of ["a", "b"]) {
    eager.say(notification(id));
    await settle();
  }
  expect(acked(eager)).toEqual(["a", "b"]);
  await listener?.close();
  vi.stubGlobal("document", { visibilityState: "hidden" });
  const hidden = await listen(answer);
  hidden.welcome();
  for (const id of ["a", "b"]) {
    hidden.say(notification(id));
    await settle();
  }
  vi.unstubAllGlobals();
  expect(acked(hidden)).toEqual(["a", "b"]);
  for (const ackDelay of [1_001, -1, "soon"]) await expect(listen(answer, { ackDelay })).rejects.toThrow(RangeError);
});

test("what was collected is sent before the listener closes, and not lost with a connection", async () => {
  const socket = await listen(() => {});
  socket.welcome();
  socket.say(notification("a"));
  await settle();
  socket.say(notification("b"));
  await settle();
  socket.break();
  await vi.advanceTimersByTimeAsync(1);
  const second = net.last();
  second.welcome();
  expect(second.all("ack")).toEqual([{ ids: ["b"] }]);
  second.say(notification("c"));
  await settle();
  await listener?.close();
  expect(second.all("ack")).toEqual([{ ids: ["b"] }, { ids: ["c"] }]);
});

test("a handler that fails asks for the notification again, after a while of its choice", async () => {
  const errors: unknown[] = [];
  const socket = await listen(
    (n) => {
      throw n.id === "later" ? new RedeliverAfter("45s") : new Error("no");
    },
    { onHandlerError: (e) => errors.push(e) },
  );
  socket.welcome();
  socket.say(notification("bad"));
  socket.say(notification("later", 2));
  await settle();
  expect(socket.all("nack")).toEqual([{ ids: ["bad"] }, { ids: ["later"], after: "45s" }]);
  expect(errors).toEqual([new Error("no")]);
});

test("what a lost connection did not carry goes out on the next one, and nothing is handled twice", async () => {
  const seen: string[] = [];
  let finish = () => {};
  const socket = await listen((n) => {
    seen.push(n.id);
    return new Promise<void>((resolve) => (finish = resolve));
  });
  socket.welcome();
  socket.say(notification("a"));
  await settle();
  socket.break();
  finish();
  await settle();
  const second = net.last();
  expect(second).not.toBe(socket);
  second.welcome();
  second.say(notification("a")); // everything unacknowledged comes again at once
  await settle();
  expect(second.all("ack").flatMap((a) => a.ids)).toContain("a");
  expect(seen).toEqual(["a"]);
});

test("a recalled notification that waits is not handled, one that is being handled is told", async () => {
  const seen: string[] = [];
  const recalled: string[][] = [];
  let reason: unknown;
  const socket = await listen(
    async (n, { signal }) => {
      seen.push(n.id);
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      reason = signal.reason;
      throw reason;
    },
    { onRecall: (ids) => recalled.push(ids) },
  );
  socket.welcome();
  socket.say(notification("a"));
  socket.say(notification("b", 2));
  await settle();
  socket.say({ recall: { ids: ["a", "b"] } });
  await settle();
  expect(seen).toEqual(["a"]);
  expect(String(reason)).toBe("RecalledError: notification a was recalled");
  expect(recalled).toEqual([["a", "b"]]);
  expect(socket.all("ack")).toEqual([]);
  expect(socket.all("nack")).toEqual([]);
});

test("it reconnects at once, then after random waits that double up to five minutes", async () => {
  const waits: number[] = [];
  vi.spyOn(Math, "random").mockReturnValue(0.999_999);
  await listen(() => {}, { onDisconnect: (_, retry) => waits.push(Math.round(retry)) });
  for (let i = 0; i < 12; i++) {
    net.last().break();
    await vi.advanceTimersByTimeAsync(300_000);
  }
  expect(waits.slice(0, 11)).toEqual([
    0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000,
  ]);
  vi.spyOn(Math, "random").mockReturnValue(0);
  net.last().break();
  await settle();
  expect(waits.at(-1)).toBe(0);
  vi.restoreAllMocks();
});

test("a session that lasted makes the next connect immediate again", async () => {
  const waits: number[] = [];
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  await listen(() => {}, { onDisconnect: (_, retry) => waits.push(retry) });
  net.last().break();
  await settle();
  net.last().break();
  await vi.advanceTimersByTimeAsync(500);
  net.last().welcome();
  await vi.advanceTimersByTimeAsync(6_000);
  net.last().break();
  await settle();
  expect(waits).toEqual([0, 500, 0]);
  vi.restoreAllMocks();
});

test("goodbye says when to come back", async () => {
  const waits: number[] = [];
  const socket = await listen(() => {}, { onDisconnect: (_, retry) => waits.push(retry) });
  socket.welcome();
  socket.say({ goodbye: { reason: "shutdown", retry_after: "1500ms" } });
  await settle();
  expect(waits).toEqual([1_500]);
  await vi.advanceTimersByTimeAsync(1_499);
  expect(net.made.length).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(net.made.length).toBe(2);
});

test.each(["forbidden", "replaced", "unknown_app", "erased"])("goodbye %s ends the listener", async (reason) => {
  const socket = await listen(() => {});
  socket.welcome();
  socket.say({ goodbye: { reason } });
  await expect(listener?.done).rejects.toMatchObject({ name: "RefusedError", reason });
  expect(net.made.length).toBe(1);
});

test("a refused token is asked for again, and ends the listener when it is the same", async () => {
  const tokens = ["old", "new", "new", "new"];
  const socket = await listen(() => {}, { token: () => tokens.shift() ?? "new" });
  socket.open();
  socket.say({ goodbye: { reason: "unauthenticated" } });
  await settle();
  expect(net.made.length).toBe(2);
  net.last().open();
  expect(net.last().all("hello")[0]).toMatchObject({ token: "new" });
  net.last().say({ goodbye: { reason: "unauthenticated" } });
  await expect(listener?.done).rejects.toBeInstanceOf(RefusedError);
});

test("a token is renewed on the session before it ends", async () => {
  const made: string[] = [];
  const token = () => {
    const exp = Math.floor(Date.now() / 1_000) + 100;
    made.push(`h.${btoa(JSON.stringify({ exp })).replaceAll("=", "")}.s${made.length}`);
    return made.at(-1) as string;
  };
  const socket = await listen(() => {}, { token, device: "phone-1" });
  socket.welcome();
  expect(socket.all("hello").length).toBe(1);
  for (let i = 0; i < 9; i++) {
    await vi.advanceTimersByTimeAsync(11_000);
    socket.say({ pong: {} });
  }
  expect(socket.all("hello").length).toBe(2);
  expect(socket.all("hello")[1]).toEqual({ app: "demo", recipient: "driver-42", device: "phone-1", token: made[1] });
  expect(net.made.length).toBe(1);
});

test("a token that was renewed too late is good for the next connection", async () => {
  const token = (seconds: number) => `h.${btoa(JSON.stringify({ exp: Math.floor(Date.now() / 1_000) + seconds }))}.s`;
  const tokens = [token(10), token(1_000)];
  const socket = await listen(() => {}, { token: () => (tokens.length > 1 ? tokens.shift() : tokens[0]) as string });
  socket.welcome();
  await vi.advanceTimersByTimeAsync(9_500);
  expect(socket.all("hello").length).toBe(2); // as the server says:
  socket.say({ goodbye: { reason: "token_expired" } });
  await settle();
  expect(net.made.length).toBe(2);
  net.last().open();
  expect(net.last().all("hello")[0]).toMatchObject({ token: tokens[0] });
});

test("a silent server is pinged and, silent for two heartbeats, given up", async () => {
  const reasons: string[] = [];
  const socket = await listen(() => {}, { onDisconnect: (e) => reasons.push(e.message) });
  socket.welcome({ heartbeat: "10s" });
  await vi.advanceTimersByTimeAsync(11_000);
  expect(socket.all("ping")).toEqual([{}]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(reasons).toEqual(["server was silent for two heartbeats"]);
  expect(net.made.length).toBe(2);
});

test("close waits for the handler that runs and sends its acknowledgement", async () => {
  let finish = () => {};
  const socket = await listen(() => new Promise<void>((resolve) => (finish = resolve)));
  socket.welcome();
  socket.say(notification("a"));
  socket.say(notification("b", 2));
  await settle();
  const closed = listener?.close();
  await settle();
  expect(socket.closed).toBe(false);
  finish();
  await closed;
  expect(socket.all("ack")).toEqual([{ ids: ["a"] }]);
  expect(socket.closed).toBe(true);
  await expect(listener?.done).resolves.toBeUndefined();
  expect(net.made.length).toBe(1);
});

test("a server that never welcomes is left after thirty seconds", async () => {
  const reasons: string[] = [];
  const socket = await listen(() => {}, { onDisconnect: (e) => reasons.push(e.message) });
  socket.open();
  await vi.advanceTimersByTimeAsync(30_000);
  expect(reasons).toEqual(["server did not welcome in time"]);
});
