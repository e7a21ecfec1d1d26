import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Digest } from "../src/live/digest.js";
import type { ClientFrame, ObjectUpdate } from "../src/live/frames.js";
import { Registrations } from "../src/live/registrations.js";
import { MemoryState, type StateStore } from "../src/live/state.js";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

function keeper(state: StateStore = new MemoryState()) {
  const sent: ClientFrame[] = [];
  const line = { up: false, send: (f: ClientFrame) => void sent.push(f), live: () => line.up };
  const refused: [string, string][] = [];
  const broken: unknown[] = [];
  const r = new Registrations(
    line,
    "oslo",
    state,
    (reg, code) => refused.push([reg.object, code]),
    (e) => broken.push(e),
  );
  const welcome = (digest: string) => {
    line.up = true;
    r.welcomed(digest);
  };
  /** What was sent since the last look. */
  const out = () => sent.splice(0);
  return { r, line, out, welcome, refused, broken };
}

const digestOf = (...objects: string[]) => {
  const d = new Digest();
  for (const o of objects) d.add("oslo", o);
  return d.toString();
};

const object = (name: string, version: string, more: Partial<ObjectUpdate> = {}) => ({
  object: { group: "oslo", object: name, version, unknown: false, payload: undefined, contentType: "", ...more },
});

const settle = () => vi.advanceTimersByTimeAsync(0);

const empty = digestOf();

test("registrations wait for what the server knows, then the whole set is sent where it differs", () => {
  const { r, out, welcome } = keeper();
  r.register("a", () => {});
  r.register("b", () => {}, "bergen");
  expect(out()).toEqual([]);
  welcome(empty);
  expect(out()).toEqual([
    { register: { objects: ["a"], group: "oslo", reset: true, more: true } },
    { register: { objects: ["b"], group: "bergen", reset: false, more: false } },
  ]);
});

test("a server that has the same set gets nothing but the question for versions not known here", () => {
  const { r, out, welcome } = keeper();
  r.register("a", () => {});
  welcome(digestOf("a"));
  expect(out()).toEqual([{ register: { objects: ["a"], group: "oslo" } }]);
  expect(r.list()).toEqual([{ group: "oslo", object: "a", status: "registered", version: "" }]);
});

test("with kept state a restart whose digest agrees sends nothing", async () => {
  const state = new MemoryState();
  const first = keeper(state);
  first.r.register("a", () => {});
  first.welcome(empty);
  first.r.take(object("a", "7"));
  await settle();
  const second = keeper(state);
  second.r.register("a", () => {});
  second.welcome(digestOf("a"));
  expect(second.out()).toEqual([]);
  expect(second.r.list()[0]).toMatchObject({ version: "7", status: "registered" });
});

test("an object is acknowledged after its handler, versions only grow, and a repetition is acknowledged again", async () => {
  const seen: string[] = [];
  const { r, out, welcome } = keeper();
  let finish = () => {};
  r.register("a", (u) => {
    seen.push(u.version);
    return new Promise<void>((resolve) => (finish = resolve));
  });
  welcome(empty);
  out();
  r.take(object("a", "7"));
  await settle();
  expect(out()).toEqual([]);
  // While the handler runs, only the newest of those that come is kept.
  for (const v of ["8", "9223372036854775807", "9"]) r.take(object("a", v));
  finish();
  await settle();
  expect(out()).toEqual([{ object_ack: { object: "a", group: "oslo", version: "7" } }]);
  finish();
  await settle();
  expect(seen).toEqual(["7", "9223372036854775807"]);
  expect(out()).toEqual([{ object_ack: { object: "a", group: "oslo", version: "9223372036854775807" } }]);
  r.take(object("a", "8"));
  await settle();
  expect(seen.length).toBe(2);
  expect(out()).toEqual([{ object_ack: { object: "a", group: "oslo", version: "8" } }]);
});

test("versions are compared as whole numbers of 63 bits", async () => {
  const seen: string[] = [];
  const { r, welcome } = keeper();
  r.register("a", (u) => void seen.push(u.version));
  welcome(empty);
  for (const v of ["9", "10", "9007199254740992", "9007199254740993"]) {
    r.take(object("a", v));
    await settle();
  }
  expect(seen).toEqual(["9", "10", "9007199254740992", "9007199254740993"]);
});

test("who registers again after having left is told the present version again", async () => {
  const seen: string[] = [];
  const { r, welcome } = keeper();
  r.register("a", (u) => void seen.push(u.version));
  welcome(empty);
  r.take(object("a", "7"));
  await settle();
  r.unregister("a");
  r.register("a", (u) => void seen.push(`again ${u.version}`));
  r.take(object("a", "7"));
  await settle();
  expect(seen).toEqual(["7", "again 7"]);
});

test("an unknown version is told each time, and does not count as known", async () => {
  const seen: [string, boolean][] = [];
  const { r, welcome } = keeper();
  r.register("a", (u) => void seen.push([u.version, u.unknown]));
  welcome(empty);
  r.take(object("a", "7"));
  r.take(object("a", "7", { unknown: true }));
  r.take(object("a", "", { unknown: true }));
  await settle();
  r.take(object("a", "8"));
  await settle();
  expect(seen[0]).toEqual(["7", false]);
  expect(seen.at(-1)).toEqual(["8", false]);
  expect(seen.some(([, unknown]) => unknown)).toBe(true);
  expect(r.list()[0]?.version).toBe("8");
});

test("a handler that fails leaves the version unacknowledged", async () => {
  const { r, out, welcome, broken } = keeper();
  r.register("a", () => {
    throw new Error("no");
  });
  welcome(empty);
  out();
  r.take(object("a", "7"));
  await settle();
  expect(out()).toEqual([]);
  expect(broken).toEqual([new Error("no")]);
  expect(r.list()[0]?.version).toBe("");
});

test("unregistering is told, forgotten once the digests agree, and a late update of it is not handled", async () => {
  const seen: string[] = [];
  const { r, out, welcome } = keeper();
  r.register("a", (u) => void seen.push(u.version));
  r.register("b", () => {});
  welcome(digestOf("a", "b"));
  out();
  r.unregister("a");
  expect(out()).toEqual([{ unregister: { objects: ["a"], group: "oslo" } }]);
  expect(r.list()[0]?.status).toBe("pending unregistration");
  r.take(object("a", "7"));
  await settle();
  r.take({ registered: { objects: [], group: "", digest: digestOf("b") } });
  expect(seen).toEqual([]);
  expect(r.list().map((x) => x.object)).toEqual(["b"]);
});

test("digests that differ at a pong make the whole set be sent, but not while a change is under way", async () => {
  const { r, out, welcome } = keeper();
  r.register("a", () => {});
  welcome(empty);
  out();
  r.take({ pong: { digest: empty } }); // the server has not stored it yet
  expect(out()).toEqual([]);
  await vi.advanceTimersByTimeAsync(2_000);
  r.take({ pong: { digest: digestOf("a") } });
  expect(out()).toEqual([]);
  expect(r.list()[0]?.status).toBe("registered");
  r.take({ pong: { digest: empty } }); // it has lost its state
  expect(out()).toEqual([{ register: { objects: ["a"], group: "oslo", reset: true, more: false } }]);
});

test("a refusal for good leaves the set, a refusal for now is tried again", async () => {
  const { r, out, welcome, refused } = keeper();
  r.register("a", () => {});
  r.register("b", () => {});
  welcome(empty);
  out();
  r.take({ registrationFailed: { objects: ["a"], group: "oslo", code: "forbidden", transient: false } });
  expect(r.wantedDigest).toBe(digestOf("b"));
  r.take({ registrationFailed: { objects: ["b"], group: "oslo", code: "unavailable", transient: true } });
  expect(refused).toEqual([
    ["a", "forbidden"],
    ["b", "unavailable"],
  ]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(out()).toEqual([{ register: { objects: ["b"], group: "oslo", reset: true, more: false } }]);
});

test("a large set comes in several frames that are swapped in together", () => {
  const { r, out, welcome } = keeper();
  for (let i = 0; i < 1_201; i++) r.register(`o${i}`, () => {});
  welcome(empty);
  const frames = out().map((f) => f.register);
  expect(frames.map((f) => [f?.objects.length, f?.reset, f?.more])).toEqual([
    [500, true, true],
    [500, false, true],
    [201, false, false],
  ]);
});

test("state that cannot be read is lost state, not an error", () => {
  const { r } = keeper({ load: () => "{broken", save: () => {} });
  expect(r.list()).toEqual([]);
  expect(() => r.register("not a name", () => {})).toThrow(RangeError);
});
