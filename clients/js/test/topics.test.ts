import { expect, test } from "vitest";
import type { ClientFrame } from "../src/live/frames.js";
import { Topics } from "../src/live/topics.js";
import { MemberError } from "../src/live/unread.js";
import { Client, type ListenOptions, type Message, type SubscriptionError } from "../src/node.js";
import { Server } from "./support/server.js";
import { eventually } from "./support/wait.js";

const publisher = (server: Server) => new Client(server.url, { apiKey: "dev" });

/** A client that subscribes to patterns and notes what comes. */
function subscriber(server: Server, patterns: string[], options: ListenOptions & { queue?: string } = {}) {
  const got: Message[] = [];
  const client = new Client(server.url, { app: "demo" });
  const listener = client.listen("reader", () => {}, { onMessage: (m) => void got.push(m), ...options });
  listener.subscribe(patterns, options.queue === undefined ? {} : { queue: options.queue });
  return { got, listener };
}

test("messages of any kind arrive whole, once a session however many patterns match", async () => {
  const server = await Server.start();
  const api = publisher(server);
  const { got, listener } = subscriber(server, ["rides.>", "rides.*"]);
  await listener.subscribed();
  await api.publishMessage("rides.json", { fare: 120 });
  await api.publishMessage("rides.text", "two\nlines", { contentType: "text/plain" });
  await api.publishMessage("rides.bytes", new Uint8Array([0, 255]));
  await api.publishMessage("rides.a.b");
  await eventually("the last is there", () => got.some((m) => m.topic === "rides.a.b"));
  expect(got).toEqual([
    { topic: "rides.json", data: { fare: 120 }, contentType: "application/json" },
    { topic: "rides.text", data: "two\nlines", contentType: "text/plain" },
    { topic: "rides.bytes", data: new Uint8Array([0, 255]), contentType: "application/octet-stream" },
    { topic: "rides.a.b", data: undefined, contentType: "" },
  ]);
  listener.unsubscribe(["rides.>", "rides.*"]);
  listener.subscribe("end");
  await listener.subscribed();
  await api.publishMessage("rides.json", 1);
  await api.publishMessage("end", 2);
  await eventually("the end is there", () => got.some((m) => m.topic === "end"));
  expect(got.length).toBe(5);
  await listener.close();
});

test("of a queue one member gets each message", async () => {
  const server = await Server.start();
  const members = [1, 2].map(() => subscriber(server, ["work"], { queue: "q" }));
  for (const m of members) await m.listener.subscribed();
  for (let i = 0; i < 50; i++) await publisher(server).publishMessage("work", i);
  const all = () => members.flatMap((m) => m.got.map((message) => message.data as number));
  await eventually("all are there", () => all().length >= 50);
  expect(all().sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i));
  for (const m of members) await m.listener.close();
});

test("subscriptions are made again on a new connection", async () => {
  const server = await Server.start();
  const connected: unknown[] = [];
  const { got, listener } = subscriber(server, ["news"], { onConnect: (w) => void connected.push(w) });
  await listener.subscribed();
  await publisher(server).call("DELETE", "/v1/recipients/reader/sessions");
  await eventually("it is back", () => connected.length === 2);
  await listener.subscribed();
  await publisher(server).publishMessage("news", "again");
  await eventually("it came", () => got.length === 1);
  await listener.close();
});

test("a pattern that the token does not allow is told and dropped", async () => {
  const server = await Server.start();
  const refused: SubscriptionError[] = [];
  const client = new Client(server.url, {
    token: server.run("token", "--data", server.dir, "--recipient", "anna", "--topics", "rides.*").trim(),
  });
  const listener = client.listen("anna", () => {}, { onSubscriptionRefused: (e) => void refused.push(e) });
  listener.subscribe(["rides.oslo", "rides.>"]);
  await eventually("it is told", () => refused.length === 1);
  expect(refused[0]).toMatchObject({ topics: ["rides.>"], code: "forbidden" });
  await listener.subscribed();
  await listener.close();
});

test("topics that are none are refused before they are sent", async () => {
  const client = new Client("http://localhost:1");
  for (const bad of ["", "a..b", "a.>.b", "a*", ".a", "a b", "a\r\nb", `${"a.".repeat(16)}a`, "a".repeat(256)]) {
    await expect(client.publishMessage(bad, 1)).rejects.toThrow(/topic/);
  }
});

/** Topics without a server, and what they send. */
function alone(onMessage: (m: Message) => void | Promise<void>, gaps: number[], broken: unknown[] = []) {
  const sent: ClientFrame[] = [];
  const line = { send: (f: ClientFrame) => void sent.push(f), live: () => true, pings: () => 0 };
  const topics = new Topics(
    line,
    onMessage,
    (count) => void gaps.push(count),
    undefined,
    (e) => void broken.push(e),
  );
  return { topics, sent };
}

test("what the handler is too slow for is told as a gap", async () => {
  const gaps: number[] = [];
  const got: number[] = [];
  let go = () => {};
  const first = new Promise<void>((resolve) => {
    go = resolve;
  });
  const { topics } = alone(async (m) => {
    if (got.push(m.data as number) === 1) await first;
  }, gaps);
  for (let i = 0; i < 4_100; i++) topics.take({ message: { topic: "a", data: i, contentType: "" } });
  topics.take({ gap: 5 });
  go();
  await eventually("all are handled", () => gaps.length === 1);
  expect(got.length).toBe(4_097); // one was being handled
  expect(gaps).toEqual([8]);
});

test("what the server cannot do now is asked for again, and what a handler throws ends nothing", async () => {
  const broken: unknown[] = [];
  const { topics, sent } = alone(() => Promise.reject(new MemberError("a", "fails")), [], broken);
  topics.subscribe(["a", "b"], "");
  expect(sent).toEqual([{ subscribe: { topics: ["a", "b"] } }, { ping: {} }]);
  topics.take({ error: { code: "unavailable", message: "no bus", field: "topics", refused: ["a"] } });
  await eventually("it is asked again", () => sent.length === 4);
  expect(sent[2]).toEqual({ subscribe: { topics: ["a"] } });
  topics.take({ message: { topic: "b", data: 1, contentType: "" } });
  await eventually("it is told", () => broken.length === 1);
});
