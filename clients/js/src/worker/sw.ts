// The service worker: shows messages, replaces and recalls them, opens what they lead to, acknowledges and reports what
// became of them, and subscribes again when the browser changes the subscription.

import { type AckEvent, acknowledge, post, sendUnsent } from "../push/acks.js";
import { noteSettled, noteShown, seenState } from "../push/seen.js";
import { type Kept, soon, update } from "../push/store.js";
import { options, type Payload, readPayload, target } from "./payload.js";

// A site may import this into a worker of its own. So it takes over no page, does not decide when a new version starts,
// and touches no notification that it has not shown.

declare const clients: Clients;
declare const registration: ServiceWorkerRegistration;

const { scope } = registration;

/** Listens, and keeps the worker alive until what is done then is done. */
const on = <E extends keyof ServiceWorkerGlobalScopeEventMap>(
  type: E,
  handle: (event: ServiceWorkerGlobalScopeEventMap[E]) => Promise<unknown>,
) => addEventListener(type, (event) => (event as ExtendableEvent).waitUntil(handle(event as never)));

let before: Promise<unknown> = Promise.resolve();

/**
 * Handles one message after another: a browser forgets a notification that is being shown while another message asks
 * what is shown. Each waits three seconds at most: a message that hangs must not hold up the next one.
 */
const inTurn = <T>(handle: () => T | Promise<T>): Promise<T> => {
  const done = before.then(handle);
  before = soon(done).catch(() => {});
  return done;
};

// Reports to servers and pages keep no other message waiting.
on("push", async ({ data }) => {
  const p = readPayload(data?.text());
  return (await inTurn(() => (p.recall ? recall(p) : take(p))))();
});

on("notificationclick", (event) => over("clicked", event));

on("notificationclose", (event) => over("dismissed", event));

// Requests of a page.
on("message", ({ data }) => {
  const { payload, ids } = data?.godwit ?? {};
  return inTurn(() => (payload ? show(payload) : ids && close((p) => ids.includes(p.godwit_id))));
});

on("pushsubscriptionchange", async () => {
  const kept = await mine();
  if (!kept) return;
  // Where there is a subscription by now, that is what it gives.
  const address = await registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: kept.key as string,
  });
  // The new address wakes the endpoint if the old address was found dead. The next page that is opened keeps the new address, and puts
  // things right where the server has forgotten the endpoint, or does not answer.
  return post(
    kept.server,
    `endpoints/${kept.id}?app=${encodeURIComponent(kept.app)}`,
    { address },
    { method: "PATCH", headers: { Authorization: `Bearer ${kept.manageToken}` } },
  );
});

/** What is kept about this worker's subscription. */
const mine = async (): Promise<Kept | undefined> =>
  [await update<Kept | Kept[]>("subscription")].flat().find((k) => k?.scope === scope);

const present = (p: Payload, again?: unknown) =>
  registration.showNotification(p.title || location.hostname, options(p, again));

/** Takes a message, and returns what is to be done after. What was acknowledged or recalled before it came is not shown. */
const take = async (p: Payload): Promise<() => unknown> => {
  const id = p.godwit_id;
  if ((await seenState(scope, id)) === "settled") {
    await showNothing();
    // Settled here without the server's knowledge: a page showed it, was closed, and the click had no token.
    return () => settle(p);
  }
  const before = await shown((of) => of.godwit_id === id);
  await present(p, before[0]);
  // Of one tag, it has replaced what was shown. A page that showed it knew no other tag than its id.
  for (const n of before) if (n.tag !== p.tag) n.close();
  if (p.godwit_ack) await noteShown(scope, id);
  return () => Promise.all([p.godwit_settle === "shown" ? settle(p, "shown") : sendUnsent(), tell("shown", p)]);
};

/** Shows what a page got over its live connection, unless push has brought it: that can be acknowledged by its token. */
const show = async (p: Payload): Promise<void> => {
  const id = p.godwit_id;
  if ((await seenState(scope, id)) === "settled" || (await shown((of) => of.godwit_id === id))[0]) return;
  await present(p);
  await noteShown(scope, id);
};

const recall = async (p: Payload): Promise<() => unknown> => {
  const id = p.godwit_id;
  await noteSettled(scope, id);
  await showNothing();
  // Of one tag there may be a newer message, which stays.
  await close((of, n) => (id && of.godwit_id ? of.godwit_id === id : p.tag && n.tag === p.tag));
  return () => Promise.all([sendUnsent(), tell("recalled", p)]);
};

/** The person has done with it: it is over, here and everywhere. */
const over = async (event: "clicked" | "dismissed", { notification: n, action }: NotificationEvent) => {
  const p: Payload | undefined = n.data;
  return (
    p?.godwit &&
    Promise.all([
      event === "clicked" && open(n, p, action),
      noteSettled(scope, p.godwit_id).then(() => settle(p, event)),
      tell(event, p),
    ])
  );
};

/** Goes to where a click leads: to a window that shows it already, or to a new one. */
const open = async (n: Notification, p: Payload, action: string): Promise<unknown> => {
  n.close();
  // Addresses are relative to the folder that holds the worker's own one.
  const url = target(p, action, scope.replace(/godwit\/[^/]*\/?$/, ""));
  const open = () => clients.openWindow(url as string);
  return (
    url &&
    ((await windows())
      .find((w) => w.url === url)
      ?.focus()
      .catch(open) ??
      open())
  );
};

/** What this service shows of which something is so. */
const shown = async (which: (p: Payload, n: Notification) => unknown): Promise<Notification[]> =>
  (await soon(registration.getNotifications()).catch(() => [])).filter((n) => n.data?.godwit && which(n.data, n));

/** Closes what is meant of what this service has shown. */
const close = async (which: Parameters<typeof shown>[0]): Promise<void> => {
  for (const n of await shown(which)) n.close();
};

/**
 * Answers a message that has nothing to show. Safari ends a subscription after three of them unless showNotification is
 * called each time, a visible page or not. Chromium and Firefox look at what is shown when the message has been handled,
 * so that to show and close gains nothing there: both let some pass, and all while a page of the site is visible.
 */
const showNothing = async (): Promise<void> => {
  const tag = " "; // no message has it
  if (/AppleWebKit\/(?!.*Chrom)/.test(navigator.userAgent)) {
    await present({ tag, silent: true }, true);
    await close((_, n) => n.tag === tag);
  }
};

const settle = async (p: Payload, event?: AckEvent): Promise<void> =>
  acknowledge(await serverOf(p), p.godwit_ack, event);

const serverOf = async (p: Payload): Promise<string> =>
  p.server || (await mine().catch(() => {}))?.server || location.origin;

const windows = () => clients.matchAll({ includeUncontrolled: true }) as Promise<readonly WindowClient[]>;

/** Tells the pages of the site what became of a message, and the server, where it wants to know. */
const tell = async (type: AckEvent | "recalled", payload: Payload): Promise<void> => {
  for (const w of await windows()) w.postMessage({ godwit: { type, payload } });
  // That the server cannot be reached loses a statistic, and disturbs nothing.
  // A recall brings no token.
  if (payload.track) await post(await serverOf(payload), "track", { token: payload.track, event: type });
};
