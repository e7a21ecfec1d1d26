import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Client, FileState, type Listener, type ListenOptions, type ObjectUpdate } from "../src/node.js";
import { Server } from "./support/server.js";
import { eventually } from "./support/wait.js";

const publisher = (server: Server) => new Client(server.url, { apiKey: "dev" });

/** A client that follows objects of region-1 and notes what it learns. */
function follower(server: Server, objects: string[], options: ListenOptions = {}) {
  const learned: ObjectUpdate[] = [];
  const client = new Client(server.url, { app: "demo" });
  const listener = client.listen("unit-7", () => {}, { group: "region-1", ...options });
  for (const o of objects) listener.register(o, (u) => void learned.push(u));
  return { learned, listener };
}

const registered = (l: Listener) =>
  eventually("everything is registered", () => l.objects.every((r) => r.status === "registered"));

const knows = (learned: ObjectUpdate[], object: string, version: string) =>
  eventually(`${object} is known at ${version}`, () =>
    learned.some((u) => u.object === object && u.version === version && !u.unknown),
  );

test("a client learns the present version at once and every later one, with its payload", async () => {
  const server = await Server.start();
  const api = publisher(server);
  expect(await api.putObject("region-1", "camera", { version: "7", payload: { fps: 5 } })).toMatchObject({
    version: "7",
    changed: true,
  });
  const { learned, listener } = follower(server, ["camera", "firmware"]);
  await knows(learned, "camera", "7");
  expect(learned.find((u) => u.object === "camera")).toMatchObject({
    group: "region-1",
    payload: { fps: 5 },
    contentType: "application/json",
  });
  await registered(listener);
  await api.putObject("region-1", "firmware", { version: 9007199254740993n });
  await knows(learned, "firmware", "9007199254740993");
  expect(await api.putObject("region-1", "camera", { version: 6 })).toMatchObject({ version: "7", changed: false });
  expect((await api.putObject("region-1", "camera")).version).toBe("8");
  await knows(learned, "camera", "8");
  expect(learned.filter((u) => u.object === "camera").map((u) => u.version)).toEqual(["7", "8"]);
  await api.deleteObject("region-1", "camera");
  await eventually("it is unknown", () => learned.some((u) => u.object === "camera" && u.unknown));
  expect(await api.object("region-1", "camera")).toMatchObject({ version: "8", unknown: true });
  await listener.close();
});

test("what was missed while away is one call, and what was acknowledged does not come again", async () => {
  const server = await Server.start();
  const api = publisher(server);
  const file = join(server.dir, "registrations.json");
  const options = () => ({ device: "unit-7", state: new FileState(file) });
  const first = follower(server, ["camera", "firmware"], options());
  await registered(first.listener);
  await api.putObject("region-1", "camera", { version: 1 });
  await api.putObject("region-1", "firmware", { version: 1 });
  await knows(first.learned, "camera", "1");
  await knows(first.learned, "firmware", "1");
  await first.listener.close();
  for (let v = 2; v <= 9; v++) await api.putObject("region-1", "camera", { version: v });
  const second = follower(server, ["camera", "firmware"], options());
  await knows(second.learned, "camera", "9");
  await registered(second.listener);
  expect(second.learned.map((u) => `${u.object} ${u.version}`)).toEqual(["camera 9"]);
  await second.listener.close();
});

test("registrations come to agree whoever lost them: the client, or the server", async () => {
  const server = await Server.start();
  const api = publisher(server);
  const file = join(server.dir, "registrations.json");
  const first = follower(server, ["camera", "firmware"], { device: "unit-7", state: new FileState(file) });
  await registered(first.listener);
  await first.listener.close();
  expect(existsSync(file)).toBe(true);

  rmSync(file); // the client's state is lost, and it wants something else now
  const second = follower(server, ["camera", "lens"], { device: "unit-7", state: new FileState(file) });
  await registered(second.listener);
  const seen = async (object: string) =>
    (await api.call<{ items?: unknown[] } | unknown[]>(
      "GET",
      `/v1/objects/region-1/${object}/registrations`,
    )) as unknown;
  await eventually("the server has the new set", async () => JSON.stringify(await seen("lens")).includes("unit-7"));
  expect(JSON.stringify(await seen("firmware").catch(() => ""))).not.toContain("unit-7");

  // The server comes back without what it had.
  await server.kill();
  server.lose("objects.db");
  await server.launch();
  await eventually("it is registered again", async () => JSON.stringify(await seen("camera")).includes("unit-7"));
  await api.putObject("region-1", "lens", { version: 3 });
  await knows(second.learned, "lens", "3");
  await second.listener.close();
}, 40_000);

test("an object that is no longer wanted is not told of, one that is new is", async () => {
  const server = await Server.start();
  const { learned, listener } = follower(server, ["camera"]);
  await registered(listener);
  listener.unregister("camera");
  await eventually("it is forgotten", () => listener.objects.length === 0);
  await publisher(server).putObject("region-1", "camera", { version: 1 });
  listener.register("lens", (u) => void learned.push(u));
  await publisher(server).putObject("region-1", "lens", { version: 1 });
  await knows(learned, "lens", "1");
  expect(learned.filter((u) => !u.unknown).map((u) => u.object)).toEqual(["lens"]);
  await listener.close();
});
