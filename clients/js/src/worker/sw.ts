// The service worker: shows messages, replaces and recalls them, opens what they lead to, acknowledges and reports what
// became of them, and subscribes again when the browser changes the subscription.

import { type AckEvent, acknowledge, post, sendUnsent } from "../push/acks.js";
import { noteSettled, noteShown, seenState } from "../push/seen.js";
import { load, save } from "../push/store.js";
import { options, type Payload, readPayload, target } from "./payload.js";

// A site may import this into a worker of its own. So it takes over no page, does not decide when a new version starts,
// and touches no notification that it has not shown.

declare const self: ServiceWorkerGlobalScope;

const { registration, clients, location } = self;

/** Listens, and keeps the worker alive until what is done then is done. */
const on = <E extends keyof ServiceWorkerGlobalScopeEventMap>(
  type: E,
  handle: (event: ServiceWorkerGlobalScopeEventMap[E]) => Promise<unknown>,
) => addEventListener(type, (event) => (event as ExtendableEvent).waitUntil(handle(event as never)));

let before: Promise<unknown> = Promise.resolve();

/**
 * Handles one message after another: a browser forgets a notification that is being shown while another message asks
 * what is shown.
 */
const inTurn = (handle: () => unknown): Promise<unknown> => {
  const done = before.then(handle);
  before = done.catch(() => {});
  return done;
};

on("push", ({ data }) => {
  const p = readPayload(data?.text());
  return inTurn(() => (p.recall ? recall(p) : take(p)));
});

on("notificationclick", ({ notification, action }) => over("clicked", notification, action));

on("notificationclose", ({ notification }) => over("dismissed", notification));

// What a page asks for.
on("message", ({ data }) => {
  const { type, payload, ids } = data?.godwit ?? {};
  return inTurn(() => (type === "show" ? show(payload) : type === "close" && close((p) => ids.includes(p.godwit_id))));
});

on("pushsubscriptionchange", async () => {
  const kept = await load();
  if (!kept?.id || (kept.scope && kept.scope !== registration.scope)) return;
  const { pushManager } = registration;
  const address =
    (await pushManager.getSubscription()) ??
    (await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: kept.key as string }));
  // That wakes the endpoint if the old address was found dead. Where the server has forgotten it, or does not answer, the
  // next page that is opened puts it right.
  const { status } = await post(
    kept.server,
    `endpoints/${kept.id}?app=${encodeURIComponent(kept.app)}`,
    { address },
    { method: "PATCH", headers: { Authorization: `Bearer ${kept.manageToken}` } },
  );
  if (status === 200) await save({ ...kept, address: address.endpoint });
});

const present = (p: Payload) => registration.showNotification(p.title || location.hostname, options(p));

/** Takes a message. What was acknowledged or recalled before it came is not shown. */
const take = async (p: Payload): Promise<unknown> => {
  const id = p.godwit_id;
  const state = await seenState(id);
  if (state === "settled") {
    await showNothing();
    // Settled here without the server's knowledge: a page showed it, was closed, and the click had no token.
    return settle(p);
  }
  await present(p);
  // Of one tag, it has replaced what was shown, without a sound. A page that showed it knew no other tag than its id.
  if (state === "shown") await close((of, n) => of.godwit_id === id && n.tag !== p.tag);
  if (p.godwit_ack) await noteShown(id);
  return Promise.all([p.godwit_settle === "shown" ? settle(p, "shown") : sendUnsent(), tell("shown", p)]);
};

/** Shows what a page got over its live connection, unless push has brought it: that can be acknowledged by its token. */
const show = async (p: Payload): Promise<void> => {
  const id = p.godwit_id;
  const shown = await registration.getNotifications();
  if (shown.some((n) => ours(n)?.godwit_id === id) || (await seenState(id)) === "settled") return;
  await present(p);
  await noteShown(id);
};

const recall = async (p: Payload): Promise<unknown> => {
  const id = p.godwit_id;
  await noteSettled(id);
  await showNothing();
  // Of one tag there may be a newer message, which stays.
  await close((of, n) => (id && of.godwit_id ? of.godwit_id === id : p.tag && n.tag === p.tag));
  return Promise.all([sendUnsent(), tell("recalled", p)]);
};

/** The person has done with it: it is over, here and everywhere. */
const over = async (event: "clicked" | "dismissed", n: Notification, action?: string): Promise<unknown> => {
  const p = ours(n);
  if (!p) return;
  const done = noteSettled(p.godwit_id).then(() => settle(p, event));
  return Promise.all([action !== undefined && open(n, p, action), done, tell(event, p)]);
};

/** Goes to where a click leads: to a window that shows it already, or to a new one. */
const open = async (n: Notification, p: Payload, action: string): Promise<unknown> => {
  n.close();
  // Addresses are relative to the folder that holds the worker's own one.
  const url = target(p, action, registration.scope.replace(/godwit\/$/, ""));
  return url && ((await windows()).find((w) => w.url === url)?.focus() ?? clients.openWindow(url));
};

/** What was shown, if it is this service's: with a mark, or from a version that made none. */
const ours = ({ data }: Notification): Payload | undefined => (data?.godwit || data?.godwit_id) && data;

/** Closes what is meant of what this service has shown. */
const close = async (which: (p: Payload, n: Notification) => unknown): Promise<void> => {
  for (const n of await registration.getNotifications()) {
    const p = ours(n);
    if (p && which(p, n)) n.close();
  }
};

/**
 * Answers a message that has nothing to show. Safari ends a subscription after three of them unless showNotification is
 * called each time, a visible page or not. Chromium and Firefox look at what is shown when the message has been handled,
 * so that to show and close gains nothing there: both let some pass, and all while a page of the site is visible.
 */
const showNothing = async (): Promise<void> => {
  if (!/AppleWebKit\/(?!.*Chrom)/.test(navigator.userAgent)) return;
  const tag = "godwit-nothing";
  await present({ tag, silent: true });
  await close((_, n) => n.tag === tag);
};

const settle = async (p: Payload, event?: AckEvent): Promise<void> =>
  acknowledge(await serverOf(p), p.godwit_ack, event);

const serverOf = async (p: Payload): Promise<string> =>
  p.server || (await load().catch(() => {}))?.server || location.origin;

const windows = () => clients.matchAll({ includeUncontrolled: true }) as Promise<readonly WindowClient[]>;

/** Tells the pages of the site what became of a message, and the server, where it wants to know. */
const tell = async (type: AckEvent | "recalled", payload: Payload): Promise<void> => {
  for (const w of await windows()) w.postMessage({ godwit: { type, payload } });
  // That the server cannot be reached loses a statistic, and disturbs nothing.
  if (payload.track && type !== "recalled") {
    await post(await serverOf(payload), "track", { token: payload.track, event: type });
  }
};
