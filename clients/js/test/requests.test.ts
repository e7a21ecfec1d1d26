import { expect, test } from "vitest";
import { type ClientFrame, readFrame } from "../src/live/frames.js";
import { replyFrame } from "../src/live/reply.js";
import { matches } from "../src/live/workers.js";
import {
  Client,
  type ListenOptions,
  NoAnswerError,
  NobodyServesError,
  Reply,
  type ServedRequest,
} from "../src/node.js";
import { Server } from "./support/server.js";
import { eventually } from "./support/wait.js";

const asker = (server: Server) => new Client(server.url, { apiKey: "dev" });

const worker = (server: Server, options: ListenOptions = {}) =>
  new Client(server.url, { app: "demo" }).listen("worker-1", () => {}, options);

const mebibyte = 1 << 20;

test("requests are answered whole", async () => {
  const server = await Server.start();
  const api = asker(server);
  const asked: ServedRequest[] = [];
  const listener = worker(server, { onRequest: (r) => new Reply(`asked ${r.subject}`) });
  listener.serve(
    "orders.>",
    (r) => {
      asked.push(r);
      return new Reply(r.data, {
        status: 418,
        headers: { "Set-Cookie": ["a=1", "b=2"], Location: "/orders/7" },
        contentType: r.contentType,
      });
    },
    { queue: "orders" },
  );
  await listener.serving();
  const text = { contentType: "text/plain" };
  const cases: [unknown, { contentType: string } | undefined, Uint8Array][] = [
    [undefined, undefined, new Uint8Array()],
    [{ n: [1, "<&>"] }, undefined, new TextEncoder().encode('{"n":[1,"<&>"]}')],
    ["two\nlines \u2602", text, new TextEncoder().encode("two\nlines \u2602")],
    ["\u0001".repeat(mebibyte), text, new Uint8Array(mebibyte).fill(1)],
    [new Uint8Array(mebibyte).fill(255), undefined, new Uint8Array(mebibyte).fill(255)],
  ];
  for (const [data, options, bytes] of cases) {
    const answer = await api.request("orders.create", data, { ...options, timeout: "20s" });
    expect(answer.status).toBe(418);
    expect(answer.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect(answer.headers.get("Location")).toBe("/orders/7");
    expect(Buffer.compare(answer.data, bytes)).toBe(0);
  }
  expect(asked.map((r) => r.subject)).toEqual(cases.map(() => "orders.create"));
  expect((await api.requestRecipient("worker-1", undefined, { subject: "where" })).json()).toBe("asked where");
  await listener.close();
});

test("what fails is told apart", async () => {
  const server = await Server.start();
  const api = asker(server);
  await expect(api.request("orders.x")).rejects.toThrow(NobodyServesError);
  await expect(api.requestRecipient("worker-1")).rejects.toThrow(NobodyServesError);
  const told: unknown[] = [];
  let asked = 0;
  let aborted = false;
  const listener = worker(server, { onHandlerError: (e) => void told.push(e) });
  listener.serve("orders.*", async (r, { signal }) => {
    asked++;
    if (r.subject === "orders.never") {
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      aborted = true;
    } else if (r.subject === "orders.broken") throw new Error("secret");
    else if (r.subject === "orders.moved") return new Reply(undefined, { status: 302, headers: { Location: "/else" } });
    else if (r.subject === "orders.big") return new Reply(new Uint8Array(mebibyte + 1));
    else if (r.subject === "orders.header") return new Reply(undefined, { headers: { A: "b\r\nc" } });
    return undefined;
  });
  await listener.serving();
  await expect(api.request("orders.never", undefined, { timeout: 100 })).rejects.toThrow(NoAnswerError);
  await eventually("it is aborted", () => aborted);
  const statuses = { broken: 500, big: 500, header: 500, moved: 302, nothing: 200 };
  for (const [name, status] of Object.entries(statuses)) {
    const answer = await api.request(`orders.${name}`);
    expect([answer.status, answer.text()]).toEqual([status, ""]);
  }
  expect(asked).toBe(6); // each once
  expect(told.length).toBe(3);
  await expect(api.request("a..b")).rejects.toThrow(/topic/);
  await expect(api.request("a", new Uint8Array(mebibyte + 1))).rejects.toThrow(/at most/);
  await listener.close();
});

test("subjects are served again on a new connection", async () => {
  const server = await Server.start();
  const api = asker(server);
  const connected: unknown[] = [];
  const listener = worker(server, { onConnect: (w) => void connected.push(w) });
  listener.serve(["a", "b"], (r) => new Reply(r.subject));
  await listener.serving();
  await api.call("DELETE", "/v1/recipients/worker-1/sessions");
  await eventually("it is back", () => connected.length === 2);
  await listener.serving();
  expect((await api.request("a")).json()).toBe("a");
  listener.unserve("a");
  listener.serve("c", () => {}); // its pong comes after the unserve was taken
  await listener.serving();
  await expect(api.request("a")).rejects.toThrow(NobodyServesError);
  await listener.close();
});

test("closing answers what runs and serves no more", async () => {
  const server = await Server.start();
  const api = asker(server);
  let free = () => {};
  const freed = new Promise<void>((resolve) => {
    free = resolve;
  });
  let begun = false;
  const listener = worker(server);
  listener.serve("slow", async () => {
    begun = true;
    await freed;
    return new Reply("done");
  });
  await listener.serving();
  const answer = api.request("slow", undefined, { timeout: "20s" });
  await eventually("it is asked", () => begun);
  const closed = listener.close();
  for (;;) {
    const error = await api.request("slow", undefined, { timeout: 50 }).catch((e: unknown) => e);
    if (error instanceof NobodyServesError) break;
    expect(error).toBeInstanceOf(NoAnswerError);
  }
  free();
  expect((await answer).json()).toBe("done");
  await closed;
});

test("a subject that the token does not allow is told and dropped", async () => {
  const server = await Server.start();
  const refused: { subjects: string[]; code: string }[] = [];
  const client = new Client(server.url, {
    token: server.run("token", "--data", server.dir, "--recipient", "anna", "--serve", "orders.*").trim(),
  });
  const listener = client.listen("anna", () => {}, { onServeRefused: (e) => void refused.push(e) });
  listener.serve(["orders.get", "orders.>"], () => {});
  await eventually("it is told", () => refused.length === 1);
  expect(refused[0]).toMatchObject({ subjects: ["orders.>"], code: "forbidden" });
  await listener.serving();
  expect((await asker(server).requestRecipient("anna")).status).toBe(501); // it answers nothing by its name
  await listener.close();
});

test("a notification that asks for a reply is answered", async () => {
  const server = await Server.start();
  const api = asker(server);
  const listener = new Client(server.url, { app: "demo" }).listen("driver-1", (n) =>
    n.replyBy ? new Reply(n.data, { status: 202 }) : undefined,
  );
  await api.publish({ to: "driver-1", id: "asks", data: { accept: true }, replyBy: "1h" });
  await api.publish({ to: "driver-1", id: "tells", title: "Hi" });
  const settled = async (id: string) => {
    for (;;) {
      const s = await api.status(id, "driver-1");
      if (["acked", "replied"].includes(s.status)) return s;
    }
  };
  expect(await settled("asks")).toMatchObject({
    status: "replied",
    reply: { status: 202, contentType: "application/json", data: { accept: true } },
  });
  expect((await settled("tells")).status).toBe("acked");
  await listener.close();
});

test("a reply says what the server would not take", () => {
  for (const bad of [
    new Reply(undefined, { status: 99 }),
    new Reply(undefined, { status: 1000 }),
    new Reply("x", { contentType: "text/plain\n" }),
    new Reply(undefined, { headers: { "A b": "c" } }),
    new Reply(undefined, { headers: { A: "c".repeat(16 << 10) } }),
    new Reply(() => {}),
  ]) {
    expect(() => replyFrame({ request_id: "q" }, bad)).toThrow();
  }
  expect(() => replyFrame({ id: "n" }, new Reply(new Uint8Array((64 << 10) + 1)))).toThrow(/at most/);
});

test("text that would grow by escaping travels as bytes", () => {
  const frame = replyFrame({ request_id: "q" }, new Reply("\u0000".repeat(100), { contentType: "text/plain" }));
  const sent: ClientFrame = { reply: frame };
  expect(JSON.stringify(sent).length).toBeLessThan(250);
  const read = readFrame(JSON.stringify({ request: { ...frame, status: undefined } }));
  expect(read.request?.data).toEqual(new Uint8Array(100));
});

test.each([
  ["a", "a", true],
  ["a", "a.b", false],
  ["*", "a", true],
  ["*", "a.b", false],
  ["a.>", "a", false],
  ["a.>", "a.b.c", true],
  [">", "a", true],
  ["a.*.c", "a.b.c", true],
])("%s stands for %s: %s", (pattern, subject, is) => {
  expect(matches(pattern, subject)).toBe(is);
});
