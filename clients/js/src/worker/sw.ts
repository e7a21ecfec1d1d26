// The service worker: shows messages, replaces and recalls them, opens what they lead to, acknowledges and reports what
// became of them, and subscribes again when the browser changes the subscription.

import { type AckEvent, acknowledge, sendUnsent } from "../push/acks.js";
import { keyBytes, register, serverKey } from "../push/endpoint.js";
import { noteSettled, noteShown, seenState } from "../push/seen.js";
import { load } from "../push/store.js";
import { options, type Payload, readPayload, target } from "./payload.js";

// A site may import this into a worker of its own. So it takes over no page, does not decide when a new version starts,
// and touches no notification that it has not shown.

declare const self: ServiceWorkerGlobalScope;

/** What a page asks of its worker. */
interface Request {
  type: "show" | "close";
  payload?: Payload;
  ids?: string[];
}

self.addEventListener("push", (event) => {
  const p = readPayload(event.data?.text() ?? "");
  event.waitUntil(inTurn(() => (p.recall ? recall(p) : take(p))));
});

self.addEventListener("notificationclick", (event) => {
  const p = ours(event.notification);
  if (!p) return;
  event.notification.close();
  // Addresses are relative to the folder that holds the worker's own one.
  const url = target(p, event.action, self.registration.scope.replace(/godwit\/$/, ""));
  event.waitUntil(
    Promise.all([url ? open(url) : undefined, settle(p, "clicked"), report(p, "clicked"), tell("clicked", p)]),
  );
});

self.addEventListener("notificationclose", (event) => {
  const p = ours(event.notification);
  if (!p) return;
  event.waitUntil(Promise.all([settle(p, "dismissed"), report(p, "dismissed"), tell("dismissed", p)]));
});

self.addEventListener("message", (event) => {
  const asked = (event.data as { godwit?: Request } | undefined)?.godwit;
  if (asked?.type === "show" && asked.payload) event.waitUntil(inTurn(() => show(asked.payload as Payload)));
  if (asked?.type === "close") event.waitUntil(inTurn(() => close((n) => asked.ids?.includes(idOf(n)) === true)));
});

self.addEventListener("pushsubscriptionchange", (event) => {
  (event as ExtendableEvent).waitUntil(subscribeAgain());
});

let before: Promise<unknown> = Promise.resolve();

/**
 * Handles one message after another: a browser forgets a notification that is being shown while another message asks
 * what is shown.
 */
function inTurn(handle: () => Promise<void>): Promise<void> {
  const done = before.then(handle);
  before = done.catch(() => {});
  return done;
}

/** Takes a message. What was acknowledged or recalled before it came is not shown. */
async function take(p: Payload): Promise<void> {
  const id = p.godwit_id;
  const state = id ? await seenState(id).catch(() => "new") : "new";
  if (state === "settled") {
    await showNothing();
    // Settled here without the server's knowledge: a page showed it, was closed, and the click had no token.
    await acknowledgeIt(p);
    return;
  }
  await self.registration.showNotification(p.title || self.location.hostname, options(p));
  // Of one tag, it has replaced what was shown, without a sound. A page that showed it knew no other tag than its id.
  if (state === "shown") await close((n) => idOf(n) === id && n.tag !== p.tag);
  if (id && p.godwit_ack) await noteShown(id).catch(() => {});
  const settles = p.godwit_settle === "shown";
  await Promise.all([
    settles ? acknowledgeIt(p, "shown") : sendUnsent().catch(() => {}),
    report(p, "shown"),
    tell("shown", p),
  ]);
}

/** Shows what a page got over its live connection, unless push has brought it: that can be acknowledged by its token. */
async function show(p: Payload): Promise<void> {
  const shown = await self.registration.getNotifications();
  if (shown.some((n) => idOf(n) === p.godwit_id)) return;
  if (!p.godwit_id || (await seenState(p.godwit_id).catch(() => "new")) === "settled") return;
  await self.registration.showNotification(p.title || self.location.hostname, options(p));
  await noteShown(p.godwit_id).catch(() => {});
}

async function recall(p: Payload): Promise<void> {
  if (p.godwit_id) await noteSettled(p.godwit_id).catch(() => {});
  await showNothing();
  // Of one tag there may be a newer message, which stays.
  await close(
    (n) =>
      ours(n) !== undefined &&
      (p.godwit_id && idOf(n) ? idOf(n) === p.godwit_id : p.tag !== undefined && n.tag === p.tag),
  );
  await Promise.all([sendUnsent().catch(() => {}), tell("recalled", p)]);
}

/** What was shown, if it is this service's: with a mark, or from a version that made none. */
function ours(n: Notification): Payload | undefined {
  const p = n.data as Payload | null;
  return p?.godwit || p?.godwit_id ? p : undefined;
}

const idOf = (n: Notification): string => (n.data as Payload | null)?.godwit_id ?? "";

async function close(which: (n: Notification) => boolean): Promise<void> {
  for (const n of await self.registration.getNotifications()) if (which(n)) n.close();
}

const quiet = "godwit-nothing";

/**
 * Answers a message that has nothing to show. Safari ends a subscription after three of them unless showNotification is
 * called each time, a visible page or not. Chromium and Firefox look at what is shown when the message has been handled,
 * so that to show and close gains nothing there: both let some pass, and all while a page of the site is visible.
 */
async function showNothing(): Promise<void> {
  const { userAgent } = navigator;
  if (!userAgent.includes("AppleWebKit/") || /Chrom(e|ium)\//.test(userAgent)) return;
  await self.registration.showNotification(self.location.hostname, { tag: quiet, silent: true });
  await close((n) => n.tag === quiet);
}

/** Goes to a page: to a window that shows it already, or to a new one. */
async function open(url: string): Promise<void> {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const there = windows.find((w) => w.url === url);
  if (there) await there.focus();
  else await self.clients.openWindow(url);
}

/** The person has done with it: it is over, here and everywhere. */
async function settle(p: Payload, event: AckEvent): Promise<void> {
  if (p.godwit_id) await noteSettled(p.godwit_id).catch(() => {});
  await acknowledgeIt(p, event);
}

/** Acknowledges by the message's token, if it has one, and sends what could not be sent before. */
async function acknowledgeIt(p: Payload, event?: AckEvent): Promise<void> {
  const done = p.godwit_ack ? acknowledge(await serverOf(p), p.godwit_ack, event) : sendUnsent();
  await done.catch(() => {}); // a browser that keeps nothing: it stays unacknowledged
}

async function serverOf(p: Payload): Promise<string> {
  return p.server || (await load().catch(() => undefined))?.server || self.location.origin;
}

/** Tells the server what became of a message. That it cannot be reached must not disturb anything. */
async function report(p: Payload, event: AckEvent): Promise<void> {
  if (!p.track) return;
  try {
    // As plain text no preflight is needed, and the answer does not matter.
    await fetch(`${await serverOf(p)}/v1/track`, {
      method: "POST",
      mode: "no-cors",
      credentials: "omit",
      keepalive: true,
      headers: { "Content-Type": "text/plain" },
      body: JSON.stringify({ token: p.track, event }),
    });
  } catch {
    // Offline, or the server is away: a statistic is lost.
  }
}

async function tell(type: AckEvent | "recalled", payload: Payload): Promise<void> {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  for (const w of windows) w.postMessage({ godwit: { type, payload } });
}

async function subscribeAgain(): Promise<void> {
  const kept = await load();
  if (!kept?.id || (kept.scope && kept.scope !== self.registration.scope)) return;
  const key = await serverKey(kept.server, kept.app);
  const subscription =
    (await self.registration.pushManager.getSubscription()) ??
    (await self.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: keyBytes(key) }));
  if (subscription.endpoint === kept.address) return;
  await register({ ...kept, key }, subscription);
}
