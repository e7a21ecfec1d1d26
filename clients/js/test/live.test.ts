import { expect, test, vi } from "vitest";
import { Client, type Listener, type ListenOptions, type Notification, RedeliverAfter } from "../src/node.js";
import { Server } from "./support/server.js";
import { eventually } from "./support/wait.js";

/** A listener that notes what it gets. */
function recorder(server: Server, recipient: string, options: ListenOptions = {}) {
  const got: Notification[] = [];
  const listener = new Client(server.url, { app: "demo" }).listen(recipient, (n) => void got.push(n), options);
  return { got, listener };
}

const publisher = (server: Server) => new Client(server.url, { apiKey: "dev" });

const online = (l: Listener) => eventually("connected", () => l.connected);

test("what is published arrives in order and is acknowledged", async () => {
  const server = await Server.start();
  const api = publisher(server);
  const receipt = await api.publish({
    to: "driver-42",
    id: "ride-1",
    title: "Blåbær ☕",
    data: { fare: 120 },
    ttl: "10m",
    priority: "high",
  });
  expect(receipt).toMatchObject({ id: "ride-1", to: "driver-42", status: "stored", duplicate: false });
  expect(
    (await api.publish({ to: "driver-42", id: "ride-1", title: "Blåbær ☕", data: { fare: 120 } })).duplicate,
  ).toBe(true);
  const { got, listener } = recorder(server, "driver-42");
  for (let i = 2; i <= 20; i++) await api.publish({ to: "driver-42", id: `ride-${i}`, priority: "high", data: i });
  await eventually("all have come", () => got.length === 20);
  expect(got.map((n) => n.id)).toEqual(Array.from({ length: 20 }, (_, i) => `ride-${i + 1}`));
  expect(got[0]).toMatchObject({ title: "Blåbær ☕", data: { fare: 120 }, priority: "high", attempt: 1 });
  for (const { id } of got) {
    await eventually(`${id} is acknowledged`, async () => (await api.status(id, "driver-42")).status === "acked");
  }
  await listener.close();
});

test("a template says what a publish and a campaign do not", async () => {
  const server = await Server.start();
  const api = publisher(server);
  const content = { language: "en", title: "Plan {{plan}}", locales: { de: { title: "Tarif {{plan}}" } } };
  await api.call("PUT", "/v1/templates/plan", { json: { content } });
  await api.publish({ to: "driver-42", id: "t", template: "plan", variables: { plan: 7 }, locale: "de" });
  await expect(api.publish({ to: "driver-42", template: "plan" })).rejects.toThrow("variables.plan");
  const audience = { channels: ["live"], recipients: ["driver-42"] };
  await api.campaign({ template: "plan", variables: { plan: "pro" }, audience }).start();
  const { got, listener } = recorder(server, "driver-42");
  await eventually("both have come", () => got.length === 2);
  expect(got.map((n) => n.title)).toEqual(["Tarif 7", "Plan pro"]);
  await listener.close();
});

test("every kind of data arrives as it was published", async () => {
  const server = await Server.start();
  const api = publisher(server);
  const { got, listener } = recorder(server, "r");
  const bytes = new Uint8Array([0, 1, 254, 255]);
  await api.publish({ to: "r", id: "json", data: [1, { a: null }] });
  await api.publish({ to: "r", id: "text", data: "plain", contentType: "text/plain" });
  await api.publish({ to: "r", id: "bytes", data: bytes });
  await api.publish({ to: "r", id: "none", title: "Hi" });
  await eventually("all have come", () => got.length === 4);
  expect(got.map((n) => n.data)).toEqual([[1, { a: null }], "plain", bytes, undefined]);
  await listener.close();
});

test("a server that is killed and comes back loses nothing, and nothing is handled twice", async () => {
  const server = await Server.start();
  const api = new Client(server.url, { apiKey: "dev", attempts: 1000 }); // however long it takes to start
  const { got, listener } = recorder(server, "driver-42");
  await online(listener);
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 10; i++) await api.publish({ to: "driver-42", id: `n-${round}-${i}`, title: "Hi" });
    await server.kill();
    const lost = api.publish({ to: "driver-42", id: `n-${round}-late`, title: "Hi" }); // retried until the server is back
    await server.launch();
    expect((await lost).id).toBe(`n-${round}-late`);
  }
  await eventually("all have come", () => got.length >= 33);
  expect(new Set(got.map((n) => n.id)).size).toBe(33);
  expect(got.length).toBe(33);
  for (const { id } of got) {
    await eventually(`${id} is acknowledged`, async () => (await api.status(id, "driver-42")).status === "acked");
  }
  await listener.close();
}, 60_000);

test("a notification is redelivered after the time its handler asked for", async () => {
  const server = await Server.start();
  const attempts: number[] = [];
  const listener = new Client(server.url, { app: "demo" }).listen("r", (n) => {
    attempts.push(n.attempt);
    if (attempts.length === 1) throw new RedeliverAfter(50);
  });
  await publisher(server).publish({ to: "r", id: "again", title: "Hi" });
  await eventually("it came twice", () => attempts.length === 2);
  expect(attempts).toEqual([1, 2]);
  await listener.close();
});

test("the first device settles a notification, and the other is told", async () => {
  const server = await Server.start();
  const api = publisher(server);
  const recalled: string[] = [];
  let release = () => {};
  const slow = new Client(server.url, { app: "demo" }).listen(
    "r",
    (_, { signal }) =>
      new Promise<void>((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    { device: "slow", onRecall: (ids) => recalled.push(...ids) },
  );
  const fast = new Client(server.url, { app: "demo" }).listen(
    "r",
    () => new Promise<void>((resolve) => (release = resolve)),
    { device: "fast" },
  );
  await Promise.all([online(slow), online(fast)]);
  await api.publish({ to: "r", id: "one", title: "Hi" });
  await eventually("the other device is told", () => {
    release();
    return recalled.includes("one");
  });
  await Promise.all([slow.close(), fast.close()]);
});

test("the status of what gathers names its digest", async () => {
  const server = await Server.start();
  const api = publisher(server);
  await api.call("PUT", "/v1/categories/comment", { json: { digest: { window: "1h", max: 2 } } });
  const publish = (id: string) => api.publish({ to: "r", id, category: "comment", title: id });
  await publish("one");
  const waits = await api.status("one", "r");
  expect(waits).toMatchObject({ status: "gathered", digest: { id: expect.any(String), dueAt: expect.any(Date) } });
  const opened = Number(waits.digest?.dueAt) - 3_600_000;
  expect(opened).toBeGreaterThanOrEqual(Number(waits.createdAt));
  expect(opened).toBeLessThanOrEqual(Date.now());
  await publish("two");
  await eventually("it has left", async () => (await api.status("one", "r")).status === "digested");
  const digest = await api.status(waits.digest?.id ?? "", "r");
  expect(digest.status).toBe("stored");
  expect(digest).not.toHaveProperty("digest");
});

test("recall withdraws what is not settled", async () => {
  const server = await Server.start();
  const api = publisher(server);
  await api.publish({ to: "r", id: "gone", title: "Hi" });
  await api.recall("gone", "r");
  expect((await api.status("gone", "r")).status).toBe("recalled");
  const { got, listener } = recorder(server, "r", { held: () => ["gone"] });
  await api.publish({ to: "r", id: "stays", title: "Hi" });
  await eventually("it has come", () => got.length === 1);
  expect(got[0]?.id).toBe("stays");
  await listener.close();
});

test("a second session of a device ends the first", async () => {
  const server = await Server.start();
  const first = recorder(server, "r", { device: "phone" });
  await online(first.listener);
  const second = recorder(server, "r", { device: "phone" });
  await expect(first.listener.done).rejects.toMatchObject({ reason: "replaced" });
  expect(second.listener.connected).toBe(true);
  await second.listener.close();
});

test("a token lets its recipient in and nobody else, and a stranger is refused for good", async () => {
  const server = await Server.start();
  server.run("app", "create", "rides", "--data", server.dir);
  const token = server
    .run("token", "--app", "rides", "--recipient", "driver-42", "--ttl", "1h", "--data", server.dir)
    .trim();
  const client = new Client(server.url, { app: "rides", token });
  await eventually("the new app's client is let in", async () => {
    let listener: Listener | undefined;
    const letIn = await new Promise<boolean>((resolve) => {
      listener = client.listen(undefined, () => {}, { onConnect: () => resolve(true) });
      listener.done.catch(() => resolve(false)); // the server has not noticed the app yet
    });
    await listener?.close();
    return letIn;
  });
  await expect(client.listen("driver-43", () => {}).done).rejects.toMatchObject({ name: "RefusedError" });
  const stranger = new Client(server.url, { app: "rides", token: "no.such.token" });
  await expect(stranger.listen("driver-42", () => {}).done).rejects.toMatchObject({ reason: "unauthenticated" });
});

test("publishing to many and in batches answers for each, and a bad one stops nothing", async () => {
  const server = await Server.start();
  const api = publisher(server);
  const many = await api.publishTo(["a", "b", "not a name"], { id: "m", title: "Hi" });
  expect(many.map((r) => r.status)).toEqual(["stored", "stored", ""]);
  expect(many[2]?.error).toMatchObject({ status: 400, temporary: false });
  const batch = await api.publishBatch([
    { to: "a", id: "x", title: "Hi" },
    { to: "bad name", id: "y" },
    { to: "b", title: "no id" },
  ]);
  expect(batch.map((r) => r.status)).toEqual(["stored", "", "stored"]);
  expect(batch[1]?.error?.detail).toBeTruthy();
  expect(batch[2]?.id).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/);
});

test("an error of the server names the field, and is not tried again", async () => {
  const server = await Server.start();
  const calls = vi.fn(fetch);
  const api = new Client(server.url, { apiKey: "dev", fetch: calls });
  await expect(api.publish({ to: "r", title: "Hi", ttl: "400d" })).rejects.toMatchObject({
    name: "GodwitError",
    field: "ttl",
  });
  await expect(api.publish({ to: "r" })).rejects.toMatchObject({ status: 400, field: "title" });
  await expect(new Client(server.url, { apiKey: "wrong" }).publish({ to: "r", title: "Hi" })).rejects.toMatchObject({
    status: 401,
  });
  expect(calls).toHaveBeenCalledTimes(2);
});

test("a publish whose answer is lost is sent again and is still one notification", async () => {
  const server = await Server.start();
  let lost = 0;
  const flaky: typeof fetch = async (...args) => {
    const answer = await fetch(...args);
    if (lost++ === 0) throw new TypeError("connection reset");
    return answer;
  };
  const receipt = await new Client(server.url, { apiKey: "dev", fetch: flaky }).publish({ to: "r", title: "once" });
  expect(receipt).toMatchObject({ duplicate: true });
  const { got, listener } = recorder(server, "r");
  await publisher(server).publish({ to: "r", id: "last", title: "Hi" });
  await eventually("the last has come", () => got.some((n) => n.id === "last"));
  expect(got.map((n) => n.id)).toEqual([receipt.id, "last"]);
  await listener.close();
});
