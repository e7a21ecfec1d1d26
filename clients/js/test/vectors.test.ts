import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseDuration } from "../src/durations.js";
import { Digest } from "../src/live/digest.js";
import { base64FromBytes } from "../src/live/encoding.js";
import { readFrame } from "../src/live/frames.js";
import { Reply, replyFrame } from "../src/live/reply.js";
import { isName } from "../src/names.js";
import { wirePublication } from "../src/publish.js";

function load<T>(name: string): T[] {
  const file = new URL(`../../../api/vectors/${name}.json`, import.meta.url);
  const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: T[] };
  expect(cases.length).toBeGreaterThan(0);
  return cases;
}

test.each(load<{ name: string; valid: boolean }>("names"))("name $name", ({ name, valid }) => {
  expect(isName(name)).toBe(valid);
});

test.each(load<{ text: string; ms?: number }>("durations"))("duration $text", ({ text, ms }) => {
  expect(parseDuration(text)).toBe(ms);
});

test.each(load<{ objects: { group: string; object: string }[]; digest: string }>("digests"))(
  "digest $digest",
  ({ objects, digest }) => {
    const d = new Digest();
    for (const o of objects) d.add(o.group, o.object);
    expect(d.toString()).toBe(digest);
    for (const o of objects) d.remove(o.group, o.object);
    expect(d.toString()).toBe("0000000000000000");
  },
);

interface NotificationCase {
  name: string;
  content: { title?: string; body?: string; category?: string; content_type?: string; data_base64?: string };
  seq: number;
  attempt: number;
  priority: string;
  json: object;
}

describe("notifications", () => {
  test.each(load<NotificationCase>("notifications"))("$name", ({ content, seq, attempt, priority, json }) => {
    const n = readFrame(JSON.stringify(json)).notification;
    expect(n).toMatchObject({
      id: "ride-9f3",
      seq,
      attempt,
      priority,
      title: content.title ?? "",
      body: content.body ?? "",
      category: content.category ?? "",
      contentType: content.content_type ?? "",
      createdAt: new Date("2026-11-21T00:00:00.123Z"),
      expiresAt: new Date("2026-11-21T00:00:30.123Z"),
    });
    const published = content.data_base64 && Buffer.from(content.data_base64, "base64");
    if (!published) expect(n?.data).toBeUndefined();
    else if (n?.data instanceof Uint8Array) expect(base64FromBytes(n.data)).toBe(content.data_base64);
    else if (typeof n?.data === "string" && !content.content_type?.includes("json")) {
      expect(n.data).toBe(published.toString("utf8"));
    } else expect(n?.data).toEqual(JSON.parse(published.toString("utf8")));

    // Received data can be published unchanged.
    if (!n?.contentType) return;
    const wire = wirePublication({ data: n.data, contentType: n.contentType }, "r");
    if (published && n.data instanceof Uint8Array) expect(wire.data_base64).toBe(content.data_base64);
    else expect(wire.data).toEqual(n.data);
  });
});

const message = (data: unknown, contentType: string) => ({ message: { topic: "rides.oslo", data, contentType } });

const request = (fields: object) => ({
  request: {
    id: "q0Xm1Vn7Rk2ZbYt8aWcD4g",
    subject: "orders.post.7",
    method: "",
    path: "",
    query: "",
    headers: {},
    data: undefined,
    contentType: "",
    deadline: new Date("2026-11-21T00:00:05.123Z"),
    ...fields,
  },
});

const serverFrames: Record<string, unknown> = {
  welcome: {
    welcome: {
      session: "q0Xm1Vn7Rk2ZbYt8aWcD4g",
      app: "demo",
      recipient: "driver-42",
      heartbeat: 30_000,
      digest: "0000000000000000",
      registrations: 0,
      serverTime: new Date("2026-11-21T00:00:00.123Z"),
    },
  },
  "welcome with counts of the inbox": {
    welcome: {
      session: "q0Xm1Vn7Rk2ZbYt8aWcD4g",
      app: "demo",
      recipient: "driver-42",
      heartbeat: 30_000,
      digest: "0000000000000000",
      registrations: 0,
      serverTime: new Date("2026-11-21T00:00:00.123Z"),
      inbox: { unseen: 2, unread: 5 },
    },
  },
  inbox: { inbox: { unseen: 2, unread: 5, changed: ["ride-1", "ride-2"], more: false, marked: [] } },
  "inbox with marks": {
    inbox: {
      unseen: 0,
      unread: 0,
      changed: ["ride-1", "ride-2"],
      more: true,
      marked: [
        { id: "ride-1", seen: true, read: true, archived: true, pinned: true, answered: "yes" },
        { id: "ride-2", seen: false, read: false, archived: false, pinned: false, answered: "" },
      ],
    },
  },
  recall: { recall: ["ride-1", "ride-2"] },
  pong: { pong: { digest: "" } },
  "pong with a digest": { pong: { digest: "00000000000000ff" } },
  goodbye: { goodbye: { reason: "shutdown", retryAfter: 1_500 } },
  error: { error: { code: "bad_field", message: "ack: ids is required", field: "ids", refused: [] } },
  "error without a field": { error: { code: "bad_frame", message: "not JSON", field: "", refused: [] } },
  "error that names what was refused": {
    error: {
      code: "forbidden",
      message: "subscribe: your credential does not allow rides.>",
      field: "topics",
      refused: ["rides.>"],
    },
  },
  "message with JSON": message({ fare: 120 }, "application/json"),
  "message with text": message("two\nlines \u2602", "text/plain"),
  "message with bytes": message(new Uint8Array([0, 255, 128, 10]), "application/octet-stream"),
  "message that is no JSON after all": message(new TextEncoder().encode('{"fare":'), "application/json"),
  "message without data": message(undefined, ""),
  gap: { gap: 3 },
  request: request({}),
  "request of HTTP": request({
    method: "POST",
    path: "/7/a%2Fb",
    query: "q=1&q=2",
    headers: { Accept: ["*/*"], Link: ["</a>", "</b>"] },
    data: { n: 7 },
    contentType: "application/json",
  }),
  "request with text": request({ data: "two\nlines \u2602", contentType: "text/plain; charset=utf-8" }),
  "request with bytes": request({ data: new Uint8Array([0, 255, 128, 10]), contentType: "image/png" }),
  "request with JSON that is none": request({
    data: new TextEncoder().encode('{"n":'),
    contentType: "application/json",
  }),
};

test.each(
  load<{ name: string; json?: { reply?: Record<string, unknown> }; error?: unknown }>("client_frames").filter(
    (c) => c.json?.reply && !c.error,
  ),
)("client frame: $name", ({ json }) => {
  const { request_id, id, status, headers, data, data_base64, content_type } = (json?.reply ?? {}) as Record<
    string,
    string
  >;
  const content = data_base64 ? new Uint8Array(Buffer.from(data_base64, "base64")) : data;
  const reply = new Reply(content, {
    status: Number(status),
    ...(headers ? { headers: headers as never } : {}),
    ...(content_type ? { contentType: content_type } : {}),
  });
  const written = replyFrame(id ? { id } : { request_id: String(request_id) }, reply);
  expect(written).toEqual({ content_type: "application/json", ...json?.reply });
});

/** Kinds of frames that this client reads and the table above need not spell out. */
const objectFrames = new Set(["registered", "registration_failed", "object"]);

test.each(load<{ name: string; json: Record<string, Record<string, unknown>> }>("server_frames"))(
  "server frame: $name",
  ({ name, json }) => {
    const [kind, inner] = Object.entries(json)[0] as [string, Record<string, unknown>];
    const read = readFrame(JSON.stringify(json));
    if (!objectFrames.has(kind)) {
      expect(read).toEqual(serverFrames[name]);
      return;
    }
    const value = Object.values(read)[0] as unknown as Record<string, unknown>;
    for (const [field, want] of Object.entries(inner)) {
      const got = field === "payload_base64" ? base64FromBytes(value.payload as Uint8Array) : value[camel(field)];
      expect(got).toEqual(want);
    }
  },
);

const camel = (field: string) => field.replace(/_(.)/g, (_, c: string) => c.toUpperCase());

test("frames of a later server are passed over, and what is no frame is refused", () => {
  expect(readFrame('{"fanfare":{"loud":true}}')).toEqual({});
  expect(readFrame('{"toString":{}}')).toEqual({});
  expect(readFrame("[]").unread?.error.message).toMatch(/^cannot read a frame of the server: frame: /);
  expect(readFrame('{"welcome":').unread?.error.message).toMatch(/^cannot read a frame of the server: frame: /);
});
