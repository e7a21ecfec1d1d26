import { expect, onTestFinished, test } from "vitest";
import { createInbox, type Inbox, type InboxOptions, type InboxState } from "../src/inbox/index.js";
import { wsSocket } from "../src/node.js";
import { InboxBackend, items } from "./support/inboxbackend.js";
import { eventually } from "./support/wait.js";

/** An inbox of so many items that somebody watches. */
async function opened(n: number, options: Partial<InboxOptions> = {}) {
  const backend = await InboxBackend.start();
  backend.items = items(n);
  const inbox = createInbox({ url: backend.url, app: "demo", recipient: "ada", webSocket: wsSocket, ...options });
  const states: InboxState[] = [];
  const leave = inbox.subscribe(() => states.push(inbox.state));
  onTestFinished(leave);
  await eventually("it is there and live", () => !inbox.state.loading && inbox.state.connection === "live");
  return { backend, inbox, states, leave };
}

const ids = (inbox: Inbox) => inbox.state.items.map(({ id }) => id);
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `n${from + i}`);

test("an inbox is fetched page by page to its end, each item once", async () => {
  const { backend, inbox } = await opened(70);
  expect(ids(inbox)).toEqual(range(0, 30));
  await Promise.all([inbox.more(), inbox.more()]);
  expect(ids(inbox)).toEqual(range(0, 60));
  await inbox.more();
  expect(ids(inbox)).toEqual(range(0, 70));
  expect(inbox.state.more).toBe(false);
  const before = backend.requests.length;
  await inbox.more();
  expect(backend.requests.length).toBe(before);
});

test("what is published comes to the top and what was fetched stays", async () => {
  const { backend, inbox } = await opened(70);
  await inbox.more();
  backend.publish({ id: "new", title: "News" });
  await eventually("it has come", () => inbox.state.unseen === 1 && ids(inbox)[0] === "new");
  expect(ids(inbox)).toEqual(["new", ...range(0, 60)]);
  await inbox.more();
  expect(ids(inbox)).toEqual(["new", ...range(0, 70)]);
});

test("a change of an item far below, and one that vanished, are taken over", async () => {
  const { backend, inbox } = await opened(90);
  await inbox.more();
  backend.items.splice(40, 1);
  for (const i of backend.items) if (i.id === "n55") i.title = "Changed";
  backend.items.unshift({ id: "new", created_at: new Date().toISOString() });
  backend.tell(["n40", "n55", "new"]);
  await eventually("it is changed", () => inbox.state.items.find(({ id }) => id === "n55")?.title === "Changed");
  expect(ids(inbox)).toEqual(["new", ...range(0, 40), ...range(41, 60)]);
  await inbox.more();
  expect(ids(inbox)).toEqual(["new", ...range(0, 40), ...range(41, 90)]);
});

test("a connection that comes back brings what was missed", async () => {
  const { backend, inbox } = await opened(3);
  backend.away = true;
  backend.cut();
  await eventually("it is offline", () => inbox.state.connection === "offline");
  backend.items.unshift({ id: "missed", created_at: new Date().toISOString() });
  backend.away = false;
  await eventually("it is live", () => inbox.state.connection === "live" && ids(inbox)[0] === "missed");
  expect(inbox.state.unseen).toBe(1);
});

test("a change shows at once, reaches the server, and acknowledges the notification", async () => {
  const { backend, inbox } = await opened(3);
  expect(inbox.state.unread).toBe(2);
  inbox.read("n0");
  expect(inbox.state.unread).toBe(1);
  expect(inbox.state.items[0]?.readAt).toBeInstanceOf(Date);
  await eventually("the server knows", () => backend.items[0]?.read_at !== null);
  await eventually("it is acknowledged", () => backend.frames.length === 1);
  expect(backend.frames).toEqual([{ ack: { ids: ["n0"] } }]);
  expect(backend.hellos.every((h) => h.observe)).toBe(true);
  expect(inbox.state.unread).toBe(1);
});

test("what was only marked elsewhere shows without being fetched, and what is not known is fetched", async () => {
  const { backend, inbox } = await opened(40);
  const mark = (id: string, marks: object) => {
    const item = backend.items.find((i) => i.id === id);
    Object.assign(item as object, marks);
    backend.tell([id], item ? [item] : []);
  };
  backend.broken = 503; // a fetch would bring nothing
  const now = new Date().toISOString();
  mark("n1", { read_at: now, pinned: true });
  await eventually("it is read and pinned", () => ids(inbox)[0] === "n1" && Boolean(inbox.state.items[0]?.readAt));
  mark("n0", { archived_at: now });
  await eventually("it is archived", () => !ids(inbox).includes("n0"));
  mark("n0", { archived_at: null });
  await eventually("it is back", () => ids(inbox)[1] === "n0");
  mark("n1", { pinned: false, read_at: null });
  await eventually("it is unread again", () => ids(inbox)[1] === "n1" && !inbox.state.items[1]?.readAt);
  expect(inbox.state.unread).toBe(backend.counts.unread);
  backend.broken = 0;
  mark("n35", { pinned: true });
  await eventually("one that was not fetched is on top", () => ids(inbox)[0] === "n35");
});

test("a mark from elsewhere that crosses an own one is fetched", async () => {
  const { backend, inbox } = await opened(3);
  inbox.read("n0");
  const item = backend.items[0] as { read_at?: string | null };
  await eventually("the server knows", () => Boolean(item.read_at));
  item.read_at = null;
  backend.tell(["n0"], [backend.items[0] as never]);
  await eventually("the last one counts", () => !inbox.state.items[0]?.readAt && inbox.state.unread === 2);
});

test("archiving is taken back by undo", async () => {
  const { backend, inbox } = await opened(3);
  inbox.archive("n1");
  expect(ids(inbox)).toEqual(["n0", "n2"]);
  expect(inbox.state.undo).toEqual({ what: "archived", count: 1 });
  await eventually("the server knows", () => Boolean(backend.items[1]?.archived_at));
  inbox.undo();
  await eventually("it is back", () => ids(inbox).length === 3 && !backend.items[1]?.archived_at);
  expect(inbox.state.undo).toBeUndefined();
  inbox.show("archived");
  await eventually("nothing is archived", () => !inbox.state.loading && ids(inbox).length === 0);
});

test("marking all as read is taken back where all was there", async () => {
  const { backend, inbox } = await opened(3);
  inbox.readAll();
  expect(inbox.state.unread).toBe(0);
  await eventually("the server knows", () => backend.counts.unread === 0);
  inbox.undo();
  await eventually("they are unread again", () => backend.counts.unread === 2 && inbox.state.unread === 2);
  const long = await opened(70);
  long.inbox.readAll();
  expect(long.inbox.state.undo).toBeUndefined();
  await eventually("all are read", () => long.backend.counts.unread === 0 && long.inbox.state.unread === 0);
});

test("pinned items come first, wherever they are in the list, and go back to their place", async () => {
  const { backend, inbox } = await opened(70);
  const far = backend.items.filter(({ id }) => id === "n60");
  for (const i of far) i.pinned = true;
  backend.tell(["n60"], far);
  await eventually("it is on top", () => ids(inbox)[0] === "n60");
  inbox.pin("n2");
  expect(ids(inbox).slice(0, 4)).toEqual(["n2", "n60", "n0", "n1"]);
  await inbox.more();
  await inbox.more();
  await eventually("all is there, each once", () => ids(inbox).length === 70 && new Set(ids(inbox)).size === 70);
  inbox.pin("n60", false);
  expect(ids(inbox).slice(0, 2)).toEqual(["n2", "n0"]);
  await eventually("the server knows", () => backend.items.filter((i) => i.pinned).length === 1);
  expect(ids(inbox).indexOf("n60")).toBe(60);
  expect(inbox.state.unread).toBe(backend.counts.unread);
});

test("the inbox of one category counts and marks nothing else", async () => {
  const { backend, inbox } = await opened(4, { category: "promo" });
  for (const id of ["p1", "p2"]) backend.publish({ id, category: "promo" });
  await eventually(
    "they are there",
    () => ids(inbox).length === 2 && inbox.state.unread === 2 && inbox.state.unseen === 2,
  );
  await inbox.seen();
  inbox.readAll();
  await eventually("they are read", () => inbox.state.unread === 0 && backend.counts.unseen === 0);
  await eventually("the others are not", () => backend.counts.unread === 3);
  expect(inbox.state.unseen).toBe(0);
});

test("an answer is a change of the item, which the server makes a reply", async () => {
  const { backend, inbox } = await opened(1);
  backend.publish({ id: "ask", title: "Friday?", actions: [{ id: "yes", title: "Yes" }] });
  await eventually("it is there", () => ids(inbox)[0] === "ask");
  expect(() => inbox.answer("ask", "perhaps")).toThrow(RangeError);
  inbox.answer("ask", "yes");
  expect(inbox.state.items[0]?.answered).toBe("yes");
  expect(inbox.state.items[0]?.readAt).toBeDefined();
  await eventually("it is answered", () => backend.items[0]?.answered === "yes");
  expect(backend.requests.filter((r) => r.startsWith("POST")).map((r) => r.split(" ")[2])).toEqual([
    '{"answered":"yes"}',
  ]);
});

test("an answer that was given elsewhere stands", async () => {
  const { backend, inbox } = await opened(1);
  backend.publish({ id: "ask", title: "Friday?", actions: ["yes", "no"].map((id) => ({ id, title: id })) });
  await eventually("it is there", () => ids(inbox)[0] === "ask");
  Object.assign(backend.items[0] as object, { answered: "no", read_at: new Date().toISOString() });
  inbox.answer("ask", "yes"); // the page does not know yet
  await eventually("it knows", () => inbox.state.items[0]?.answered === "no");
  backend.publish({ id: "later", title: "Monday?", actions: [{ id: "ok", title: "OK" }] });
  await eventually("it is there", () => ids(inbox)[0] === "later");
  Object.assign(backend.items[0] as object, { answered: "ok" });
  backend.tell(["later"]);
  await eventually("it shows the answer", () => inbox.state.items[0]?.answered === "ok");
});

test("what is done offline is kept, in order, and done once the server is back", async () => {
  const { backend, inbox } = await opened(4);
  backend.away = true;
  backend.cut();
  inbox.read("n0");
  inbox.read("n0", false);
  inbox.archive("n1");
  await eventually("it is offline", () => inbox.state.connection === "offline");
  expect(ids(inbox)).toEqual(["n0", "n2", "n3"]);
  backend.away = false;
  await eventually("the server knows", () => Boolean(backend.items[1]?.archived_at));
  expect(backend.items[0]?.read_at).toBeNull();
  await eventually(
    "nothing is wrong any more",
    () => inbox.state.error === undefined && inbox.state.connection === "live",
  );
});

test("a change that the server refuses is taken back and says so", async () => {
  const { backend, inbox } = await opened(3);
  const states: (Error | undefined)[] = [];
  onTestFinished(inbox.subscribe(() => states.push(inbox.state.error)));
  backend.refuses = 404;
  inbox.archive("n1");
  expect(ids(inbox)).toEqual(["n0", "n2"]);
  await eventually("it is back", () => ids(inbox).length === 3);
  expect(states.some((e) => e?.message.includes("404"))).toBe(true);
});

test("a list that cannot be fetched says so, and is there after a retry", async () => {
  const backend = await InboxBackend.start();
  backend.items = items(2);
  backend.broken = 500;
  const inbox = createInbox({ url: backend.url, recipient: "ada", webSocket: wsSocket });
  onTestFinished(inbox.subscribe(() => {}));
  await eventually("it failed", () => inbox.state.error !== undefined && !inbox.state.loading);
  backend.broken = 0;
  inbox.retry();
  await eventually("it is there", () => ids(inbox).length === 2 && inbox.state.error === undefined);
});

test("a token that ended is asked for once more; a client that is not let in stays out", async () => {
  const backend = await InboxBackend.start();
  backend.items = items(2);
  backend.token = "new";
  const given = ["old", "new"];
  let asked = 0;
  const token = () => given[Math.min(asked++, 1)] as string;
  const inbox = createInbox({ url: backend.url, recipient: "ada", token, webSocket: wsSocket });
  onTestFinished(inbox.subscribe(() => {}));
  await eventually("it is there", () => ids(inbox).length === 2 && inbox.state.connection === "live");
  const stranger = createInbox({ url: backend.url, recipient: "ada", token: "old", webSocket: wsSocket });
  onTestFinished(stranger.subscribe(() => {}));
  await eventually("it is refused", () => stranger.state.connection === "refused");
  expect(stranger.state.items).toEqual([]);
});

test("the connection ends with the last subscriber, and whoever comes back at once keeps it", async () => {
  const { backend, inbox, leave } = await opened(1);
  leave();
  const again = inbox.subscribe(() => {});
  await new Promise((resolve) => setTimeout(resolve));
  await new Promise((resolve) => setTimeout(resolve));
  expect(backend.connections).toBe(1);
  again();
  await eventually("nobody is connected", () => backend.connections === 0);
  expect(backend.hellos.length).toBe(1);
  onTestFinished(inbox.subscribe(() => {}));
  await eventually("it is live again", () => inbox.state.connection === "live");
});

test("an item that is not sound takes no other along", async () => {
  const { backend, inbox } = await opened(1);
  backend.items.push(
    { id: "bad", title: 7 as never, actions: "none", created_at: "never", data: null },
    { id: "", title: "without an id" },
  );
  inbox.retry();
  await eventually("they are there", () => ids(inbox).length === 2);
  expect(inbox.state.items[1]).toMatchObject({ id: "bad", title: "", actions: [], createdAt: new Date(0) });
});
