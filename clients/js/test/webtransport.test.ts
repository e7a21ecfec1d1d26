import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Client, type ClientOptions } from "../src/client.js";
import type { Message } from "../src/live/frames.js";
import type { Listener, ListenOptions, NotificationHandler } from "../src/live/listener.js";
import "../src/live/webtransport.js"; // a page loads it when it needs it first
import { parts } from "../src/live/parts.js";
import { sockets } from "./support/fakesocket.js";
import { delimited, type FakeTransport, withTransport } from "./support/faketransport.js";

let net: ReturnType<typeof sockets>;
let quic: ReturnType<typeof withTransport>;
let listeners: Listener[];
let online: () => void;

const fakeTimers = () => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });

beforeEach(() => {
  fakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  net = sockets();
  quic = withTransport();
  listeners = [];
  const target = new EventTarget();
  vi.stubGlobal("addEventListener", target.addEventListener.bind(target));
  vi.stubGlobal("removeEventListener", target.removeEventListener.bind(target));
  online = () => target.dispatchEvent(new Event("online"));
});

afterEach(async () => {
  const closed = Promise.all(listeners.map((l) => l.close()));
  await passes(5_000);
  await closed;
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** Lets streams and modules go on, which take turns of the real event loop. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Lets time pass, and what is due at its end happen. */
async function passes(ms: number): Promise<void> {
  for (const step of [ms, 1]) {
    await settle();
    await vi.advanceTimersByTimeAsync(step);
  }
  await settle();
}

type Options = ListenOptions & Pick<ClientOptions, "webTransport">;

/** Listens, and waits until the first connection is tried. */
async function listen(o: Options = {}, handler: NotificationHandler = () => {}): Promise<Client> {
  const { webTransport = true, ...options } = o;
  const client = new Client("https://server/sub/", { app: "demo", webSocket: net.open, webTransport });
  listeners.push(client.listen("driver-42", handler, { onHandlerError: () => {}, ...options }));
  await settle();
  return client;
}

/** A session over WebTransport that is welcomed. */
async function session(o: Options = {}, handler?: NotificationHandler): Promise<FakeTransport> {
  await listen(o, handler);
  const t = quic.last();
  t.open();
  await settle();
  t.welcome();
  await settle();
  return t;
}

const notification = (id: string) => ({
  notification: {
    id,
    seq: 1,
    title: id,
    priority: "normal",
    attempt: 1,
    created_at: "2026-11-21T00:00:00.000Z",
    expires_at: "2026-11-22T00:00:00.000Z",
  },
});

test("frames go both ways on one stream of the session", async () => {
  const seen: string[] = [];
  const t = await session({}, (n) => void seen.push(n.id));
  expect(t.url).toBe("https://server/sub/v1/transport?protocol=godwit.v1.json");
  expect(t.options).toEqual({ allowPooling: false, requireUnreliable: false });
  expect(t.sent).toEqual([{ hello: { app: "demo", recipient: "driver-42", digest: "0000000000000000" } }]);
  expect(listeners[0]?.connected).toBe(true);
  t.say(notification("a"));
  await settle();
  await passes(5);
  expect(seen).toEqual(["a"]);
  expect(t.sent.slice(1)).toEqual([{ ack: { ids: ["a"] } }]);
  expect(net.made).toEqual([]);
});

test("a frame that comes in pieces, and frames that come in one, are handled in order", async () => {
  const seen: string[] = [];
  const t = await session({}, (n) => void seen.push(n.id));
  const bytes = ["a", "b", "c"].flatMap((id) => [...delimited(JSON.stringify(notification(id)))]);
  for (const b of bytes.slice(0, 100)) t.bytes(new Uint8Array([b]));
  t.bytes(new Uint8Array(bytes.slice(100)));
  await settle();
  expect(seen).toEqual(["a", "b", "c"]);
});

test("place, certificates and datagrams are those of the options", async () => {
  const hash = { algorithm: "sha-256" as const, value: new Uint8Array(32) };
  const messages: Message[] = [];
  const t = await session({
    webTransport: { url: "https://quic.server:4433/", serverCertificateHashes: [hash], datagrams: true },
    onMessage: (m) => void messages.push(m),
  });
  expect(t.url).toBe("https://quic.server:4433/v1/transport?protocol=godwit.v1.json&datagrams=1");
  expect(t.options).toEqual({ allowPooling: false, requireUnreliable: true, serverCertificateHashes: [hash] });
  listeners[0]?.subscribe("rides.*");
  for (let i = 0; i < 100; i++) t.packet({ message: { topic: "rides.oslo", data: i } });
  await settle();
  expect(t.datagrams.incomingHighWaterMark).toBeGreaterThanOrEqual(100); // a browser drops what is beyond
  expect(messages.map((m) => m.data)).toEqual(Array.from({ length: 100 }, (_, i) => i));
});

test("without the option WebTransport is not tried", async () => {
  await listen({ webTransport: false });
  expect(quic.made).toEqual([]);
  expect(net.made).toHaveLength(1);
});

test("where UDP is blocked a WebSocket connects within a second, and nobody waits again for five minutes", async () => {
  const told: string[] = [];
  await listen({ webTransport: { onFallback: (e) => told.push(e.message) } });
  expect(net.made).toEqual([]);
  await passes(900);
  expect(net.made).toHaveLength(1);
  expect(told).toEqual(["WebTransport did not connect in 900 ms: UDP may be blocked"]);
  net.last().welcome({ heartbeat: "24h" });
  await passes(10_000);
  expect(quic.last().left).toEqual({ closeCode: 1000, reason: "" });
  net.last().break();
  await passes(0);
  expect(net.made).toHaveLength(2); // at once
  net.last().welcome({ heartbeat: "24h" });
  expect(quic.made).toHaveLength(1);
  await passes(290_000);
  net.last().break();
  await passes(0);
  expect(quic.made).toHaveLength(2);
  expect(told).toHaveLength(1);
});

test("a network that is slow is tried again at the next connect", async () => {
  await listen();
  await passes(900);
  expect(net.made).toHaveLength(1);
  net.last().welcome({ heartbeat: "24h" });
  await passes(3_000);
  expect(quic.last().left).toBeUndefined();
  quic.last().open();
  await settle();
  expect(quic.last().left).toBeDefined(); // the WebSocket stays
  net.last().break();
  await passes(0);
  expect(quic.made).toHaveLength(2);
});

test("each further failure rests twice as long, up to an hour, and a session that works ends that", async () => {
  await listen();
  for (const minutes of [5, 10, 20, 40, 60, 60]) {
    quic.last().refused("no QUIC here");
    await settle();
    net.last().welcome({ heartbeat: "24h" });
    const tries = quic.made.length;
    await passes(minutes * 60_000 - 10_000);
    net.last().break();
    await passes(0);
    expect(quic.made).toHaveLength(tries);
    net.last().welcome({ heartbeat: "24h" });
    await passes(10_000);
    net.last().break();
    await passes(0);
    expect(quic.made).toHaveLength(tries + 1);
  }
  quic.last().open();
  await settle();
  quic.last().welcome();
  await passes(10_000);
  quic.last().breaks("gone");
  await passes(0);
  quic.last().refused("no QUIC here");
  await settle();
  net.last().welcome({ heartbeat: "24h" });
  await passes(300_000);
  const tries = quic.made.length;
  net.last().break();
  await passes(0);
  expect(quic.made).toHaveLength(tries + 1);
});

test("a refused session and a browser without WebTransport fall back at once", async () => {
  const told: string[] = [];
  const webTransport = { onFallback: (e: Error) => told.push(e.message) };
  await listen({ webTransport });
  quic.last().refused("Opening handshake failed.");
  await settle();
  expect(net.made).toHaveLength(1);
  vi.stubGlobal("WebTransport", undefined);
  await listen({ webTransport });
  expect(net.made).toHaveLength(2);
  vi.stubGlobal(
    "WebTransport",
    class {
      constructor() {
        throw new Error("this browser takes no certificate hashes");
      }
    },
  );
  await listen({ webTransport });
  expect(net.made).toHaveLength(3);
  expect(told).toEqual([
    "Opening handshake failed.",
    "there is no WebTransport here",
    "this browser takes no certificate hashes",
  ]);
});

test("a part of the client that does not load in time keeps nobody from falling back", async () => {
  vi.spyOn(parts, "webTransport").mockReturnValue(new Promise(() => {}));
  await listen();
  await passes(900);
  expect(net.made).toHaveLength(1);
});

test("listeners of one client tell a failure once and count it once", async () => {
  const told: string[] = [];
  const client = await listen({ webTransport: { onFallback: (e) => told.push(e.message) } });
  listeners.push(client.listen("driver-43", () => {}));
  await passes(900);
  expect(told).toHaveLength(1);
  for (const s of net.made) s.welcome({ heartbeat: "24h" });
  await passes(300_000);
  net.last().break();
  await passes(0);
  expect(quic.made).toHaveLength(3);
});

test("a stream that cannot be opened in time falls back", async () => {
  await listen();
  vi.spyOn(quic.last(), "createBidirectionalStream").mockReturnValue(new Promise(() => {}));
  quic.last().open();
  await passes(900);
  expect(net.made).toHaveLength(1);
  await passes(10_000);
  expect(quic.last().left).toBeDefined();
});

test("a callback that throws keeps nobody from falling back", async () => {
  const logged = vi.spyOn(console, "error").mockReturnValue();
  await listen({
    webTransport: {
      onFallback: () => {
        throw new Error("mine");
      },
    },
  });
  quic.last().refused("no");
  await settle();
  expect(net.made).toHaveLength(1);
  expect(logged).toHaveBeenCalledWith("godwit:", new Error("mine"));
});

test("a network that lets nothing through after the handshake is left, and remembered", async () => {
  await listen();
  quic.last().open();
  await settle();
  await passes(30_000); // the patience for a welcome
  await passes(1_000);
  expect(net.made).toHaveLength(1);
  expect(quic.made).toHaveLength(1);
});

test("a server that ends the session before it says anything is left for a WebSocket", async () => {
  await listen();
  quic.last().open();
  await settle();
  quic.last().closes(0, "");
  await passes(0);
  expect(net.made).toHaveLength(1);
});

test("a page that leaves at once says nothing about the network", async () => {
  const client = await listen();
  quic.last().open();
  await settle();
  void listeners.pop()?.close();
  await passes(1_000);
  listeners.push(client.listen("driver-42", () => {}));
  await settle();
  expect(quic.made).toHaveLength(2);
  expect(net.made).toEqual([]);
});

test("a listener that closes while it connects leaves no connection behind", async () => {
  await listen();
  void listeners.pop()?.close();
  await settle();
  quic.last().open();
  await settle();
  expect(quic.last().ended).toBe(true);
  await passes(1_000);
  expect(quic.last().left).toEqual({ closeCode: 1000, reason: "" });
  expect(quic.last().sent).toEqual([]);
});

test("a close sends what was said before, and waits for the server to end the session", async () => {
  const t = await session({}, () => {});
  t.say(notification("a"));
  await settle();
  void listeners.pop()?.close();
  await settle();
  expect(t.sent.at(-1)).toEqual({ ack: { ids: ["a"] } });
  expect(t.ended).toBe(true);
  expect(t.left).toBeUndefined();
  t.closes(1000, "");
  await passes(5_000);
  expect(t.left).toBeUndefined();
});

test("a server that does not answer a close is left after a second", async () => {
  const t = await session();
  void listeners.pop()?.close();
  await settle();
  await passes(990);
  expect(t.left).toBeUndefined();
  await passes(10);
  expect(t.left).toEqual({ closeCode: 1000, reason: "" });
});

test("the code and the reason of a close count as a WebSocket's do", async () => {
  const errors: string[] = [];
  const t = await session({ onDisconnect: (e) => errors.push(e.message) });
  t.closes(1008, "forbidden");
  await settle();
  await expect(listeners[0]?.done).rejects.toThrow("forbidden");
  const other = await session({ onDisconnect: (e) => errors.push(e.message) });
  other.closes(1012, "shutdown");
  await settle();
  expect(errors).toEqual(["connection lost: shutdown"]);
});

test("what came before the close is read before it counts", async () => {
  const errors: string[] = [];
  const seen: string[] = [];
  const t = await session({ onDisconnect: (e) => errors.push(e.message) }, (n) => void seen.push(n.id));
  const ids = Array.from({ length: 50 }, (_, i) => `n${i}`);
  for (const id of ids) t.say(notification(id));
  t.say({ goodbye: { reason: "shutdown", retry_after: "5s" } });
  t.finishes();
  t.closes(1012, "shutdown");
  await settle();
  expect(seen).toEqual(ids);
  expect(errors).toEqual(["server said goodbye: shutdown"]);
});

test("a stream that the server ends ends the session, also if the server says nothing more", async () => {
  const errors: string[] = [];
  const t = await session({ onDisconnect: (e) => errors.push(e.message) });
  t.finishes();
  await passes(990);
  expect(errors).toEqual([]);
  await passes(10);
  expect(errors).toEqual(["connection lost: the server ended the stream"]);
  expect(t.left).toBeDefined();
  expect(quic.made).toHaveLength(2); // it worked: WebTransport is tried again
});

test("a connection that breaks is told with its cause, and made anew", async () => {
  const errors: string[] = [];
  const t = await session({ onDisconnect: (e) => errors.push(e.message) });
  t.breaks("Connection lost.");
  await passes(0);
  expect(errors).toEqual(["connection lost: Connection lost."]);
  expect(quic.made).toHaveLength(2);
});

test("a frame that is longer than any the server sends ends the session", async () => {
  const errors: string[] = [];
  const t = await session({ onDisconnect: (e) => errors.push(e.message) });
  t.bytes(new Uint8Array([0xff, 0xff, 0xff, 0x7f]));
  await settle();
  expect(t.left?.closeCode).toBe(1009);
  expect(errors).toEqual(["connection lost: the server sent a frame of more than 7340032 bytes"]);
});

test("frames that are no JSON are told and end nothing", async () => {
  const errors: unknown[] = [];
  const seen: string[] = [];
  const t = await session({ onHandlerError: (e) => errors.push(e) }, (n) => void seen.push(n.id));
  t.bytes(delimited("[]"));
  t.bytes(delimited(new Uint8Array([0xff, 0xfe])));
  t.bytes(delimited("")); // a sign of life is nothing to tell
  t.say(notification("a"));
  await settle();
  expect(errors).toHaveLength(2);
  expect(seen).toEqual(["a"]);
});

test("a network that comes back is asked at once whether the connection stands", async () => {
  const t = await session();
  online();
  await settle();
  expect(t.sent.at(-1)).toEqual({ ping: {} });
  t.say({ pong: {} });
  await passes(2_000);
  expect(quic.made).toHaveLength(1);
  online();
  await settle();
  t.say(notification("late")); // what was on its way says nothing about the way there
  await passes(2_000);
  expect(quic.made).toHaveLength(2);
});

test("on a new network WebTransport is tried again", async () => {
  await listen();
  quic.last().refused("no QUIC here");
  await settle();
  net.last().welcome({ heartbeat: "24h" });
  online();
  await passes(2_000); // the WebSocket gives no answer on the new network
  expect(quic.made).toHaveLength(2);
});
