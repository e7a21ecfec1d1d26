import { expect, test } from "vitest";
import { Client, GodwitError, UnreachableError } from "../src/index.js";

test("a server that cannot be reached is named, with the cause, and is one that may answer later", async () => {
  const client = new Client("http://127.0.0.1:1/push", { apiKey: "secret", attempts: 1 }); // nothing listens at port 1
  const error = await client.status("n 1", "ann").catch((e: unknown) => e);
  expect(error).toBeInstanceOf(GodwitError);
  expect(error).toMatchObject({ status: 0, temporary: true, url: "http://127.0.0.1:1/push/v1/notifications/n%201" });
  const { message } = error as UnreachableError;
  expect(message).toContain("GET http://127.0.0.1:1/push/v1/notifications/n%201: no answer: ");
  expect(message).not.toMatch(/secret|ann|fetch failed/);
});

test("a request is tried again where no answer came, and ends with the caller's signal as it is", async () => {
  let tries = 0;
  const away = async () => {
    tries++;
    throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
  };
  const client = new Client("https://push.example.org", { attempts: 2, fetch: away as typeof fetch });
  await expect(client.call("GET", "/v1/apps")).rejects.toThrow(/no answer: connect ECONNREFUSED/);
  expect(tries).toBe(2);
  await expect(client.publishMessage("news", 1)).rejects.toBeInstanceOf(UnreachableError);
  expect(tries).toBe(3); // not twice: it could have been handed on
  const signal = AbortSignal.abort(new Error("the page was left"));
  await expect(client.call("GET", "/v1/apps", { signal })).rejects.toThrow(/fetch failed/);
});

test("times that are null have not come", async () => {
  const answer = {
    id: "n",
    to: "ann",
    status: "pending",
    created_at: "2026-01-02T03:04:05Z",
    expires_at: "2026-01-03T03:04:05Z",
  };
  const times = { send_at: null, delivered_at: null, acked_at: null, settled_at: null, latency_ms: null, reply: null };
  const reply = async () => Response.json({ ...answer, ...times });
  const client = new Client("https://push.example.org", { fetch: reply as unknown as typeof fetch });
  const status = await client.status("n", "ann");
  expect(status).toMatchObject({ status: "pending", createdAt: new Date("2026-01-02T03:04:05Z"), latencyMs: 0 });
  for (const name of ["sendAt", "deliveredAt", "ackedAt", "settledAt"]) expect(status).not.toHaveProperty(name);
});

test("names with which a request would go to another path are refused before it is sent", async () => {
  const asked: string[] = [];
  const record = async (url: URL | string) => {
    asked.push(String(url));
    return Response.json({});
  };
  const client = new Client("https://example.org/push/", { fetch: record as unknown as typeof fetch });
  for (const name of ["", ".", ".."]) {
    for (const call of [
      () => client.recall(name),
      () => client.status(name, "ann"),
      () => client.deleteObject("rides", name),
      () => client.deleteObject(name, "7"),
      () => client.requestRecipient(name),
      () => client.campaign(name).cancel(),
      () => client.endpoints.delete(name),
      () => client.channels.delete(name),
      () => client.call("DELETE", `/v1/recipients/${name}`),
      () => client.call("GET", `/v1/recipients/${name.replace(".", "%2E")}/notifications`),
    ]) {
      await expect(call()).rejects.toThrow(RangeError);
    }
  }
  await client.recall("../a?b#c");
  await client.recall("...");
  const path = "https://example.org/push/v1/notifications";
  expect(asked).toEqual([`${path}/..%2Fa%3Fb%23c`, `${path}/...`]);
});

test("a server's address ends before its query and fragment", () => {
  for (const end of ["?", "#", "?a=b", "/#x"]) {
    expect(() => new Client(`https://example.org${end}`)).toThrow(/must end before \? and #/);
  }
});
