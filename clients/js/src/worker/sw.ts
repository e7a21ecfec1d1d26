// The service worker: shows messages, replaces and recalls them, opens what they lead to, reports what became of them
// and subscribes again when the browser changes the subscription.

import { keyBytes, register, serverKey } from "../push/endpoint.js";
import { load } from "../push/store.js";
import { options, type Payload, readPayload, target } from "./payload.js";

declare const self: ServiceWorkerGlobalScope;

type Report = "shown" | "clicked" | "dismissed";

self.addEventListener("install", () => void self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const p = readPayload(event.data?.text() ?? "");
  event.waitUntil(inTurn(() => (p.recall ? recall(p) : show(p))));
});

self.addEventListener("notificationclick", (event) => {
  const p = (event.notification.data ?? {}) as Payload;
  event.notification.close();
  const url = target(p, event.action, self.registration.scope);
  event.waitUntil(Promise.all([url ? open(url) : undefined, report(p, "clicked"), tell("clicked", p)]));
});

self.addEventListener("notificationclose", (event) => {
  event.waitUntil(report((event.notification.data ?? {}) as Payload, "dismissed"));
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

async function show(p: Payload): Promise<void> {
  await self.registration.showNotification(p.title || self.location.hostname, options(p));
  await Promise.all([report(p, "shown"), tell("shown", p)]);
}

async function recall(p: Payload): Promise<void> {
  const shown = p.tag ? await self.registration.getNotifications({ tag: p.tag }) : [];
  if (shown.length === 0 && p.tag) {
    // A browser that sees a message show nothing shows a notice of its own, or ends the subscription.
    await self.registration.showNotification(self.location.hostname, { tag: p.tag, silent: true });
  }
  for (const n of p.tag ? await self.registration.getNotifications({ tag: p.tag }) : []) n.close();
  await tell("recalled", p);
}

/** Goes to a page: to a window that shows it already, or to a new one. */
async function open(url: string): Promise<void> {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const there = windows.find((w) => w.url === url);
  if (there) await there.focus();
  else await self.clients.openWindow(url);
}

/** Tells the server what became of a message. That it cannot be reached must not disturb anything. */
async function report(p: Payload, event: Report): Promise<void> {
  if (!p.track) return;
  const server = p.server || (await load().catch(() => undefined))?.server || self.location.origin;
  try {
    // As plain text no preflight is needed, and the answer does not matter.
    await fetch(`${server}/v1/track`, {
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

async function tell(type: "shown" | "clicked" | "recalled", payload: Payload): Promise<void> {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  for (const w of windows) w.postMessage({ godwit: { type, payload } });
}

async function subscribeAgain(): Promise<void> {
  const kept = await load();
  if (!kept?.id) return;
  const key = await serverKey(kept.server, kept.app);
  const subscription =
    (await self.registration.pushManager.getSubscription()) ??
    (await self.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: keyBytes(key) }));
  if (subscription.endpoint === kept.address) return;
  await register({ ...kept, key }, subscription);
}
