// Where the service worker lies on a site: beside the site's own workers, never instead of one.

import { PushError } from "./failure.js";
import type { Kept } from "./store.js";

/** A service worker's file, and the scope that it is registered for. */
export interface Place {
  url: string;
  scope: string;
  /** Files of a worker that this one takes the place of, where the site says so. */
  replaces?: RegExp;
}

/** The folder beside the worker that is its scope unless a site says otherwise. No page has to lie there. */
const ownFolder = "godwit/";

/** Like the browser, it reads a scope that is given relative to the page. */
export function placeOf(script = "/godwit-sw.js", scope?: string): Place {
  const { href } = new URL(script, location.href);
  return { url: href, scope: new URL(scope ?? ownFolder, scope === undefined ? href : location.href).href };
}

/** A folder in a scope. Browsers refuse a scope with a slash in an escape. */
export const folderIn = (scope: string, name: string): string =>
  `${scope}${encodeURIComponent(name).replaceAll("%2F", "")}/`;

/**
 * The place of an app's worker. A browser has one subscription a scope, so where another app has the place already, this
 * one gets a folder of its own in it, and keeps that.
 */
export function placeFor(p: Place, own: Kept, others: readonly Kept[]): Place {
  const folder = folderIn(p.scope, `${own.app}@${own.server}`);
  return own.scope === folder || others.some((k) => k.scope === p.scope) ? { ...p, scope: folder } : p;
}

const scriptOf = (r: ServiceWorkerRegistration) => (r.active ?? r.waiting ?? r.installing)?.scriptURL ?? "";

/** Whether a registration's worker is this service's: of the file that the site names, or of the names that the guide gives. */
const isOurs = (r: ServiceWorkerRegistration, p: Place) =>
  scriptOf(r) === p.url ||
  /\/(godwit-sw|sdk\/sw)\.js($|\?)/.test(scriptOf(r)) ||
  p.replaces?.test(scriptOf(r)) === true;

/** All registrations of the site. */
export const registrations = (): Promise<readonly ServiceWorkerRegistration[]> =>
  navigator.serviceWorker.getRegistrations();

/** The worker's registration: at its place, or where an earlier version put it, which is no other app's. */
export async function installed(p: Place, others: readonly Kept[]): Promise<ServiceWorkerRegistration | undefined> {
  const all = await registrations();
  return (
    all.find((r) => r.scope === p.scope && isOurs(r, p)) ??
    all.find((r) => scriptOf(r) === p.url && !others.some((k) => k.scope === r.scope))
  );
}

/** Registers the worker and waits until it is active. A worker of somebody else's stays. */
export async function install(p: Place, server: string): Promise<ServiceWorkerRegistration> {
  const there = (await registrations()).find((r) => r.scope === p.scope);
  const line = `importScripts("${server}/sdk/sw.js");`;
  if (there && !isOurs(there, p)) {
    throw new PushError(
      "taken",
      `scope ${p.scope} is that of the service worker ${scriptOf(there)}, which is left alone. Leave data-scope out, or name that file in data-service-worker and put into it: ${line}`,
    );
  }
  try {
    // An existing registration stays as it is: the site may have made it itself.
    const same = there && scriptOf(there) === p.url;
    const r = same ? there : await navigator.serviceWorker.register(p.url, { scope: p.scope });
    await active(r);
    return r;
  } catch (cause) {
    throw new PushError(
      "worker",
      `cannot install the service worker ${p.url}: ${String(cause)}. The file has to be there, as JavaScript, with the line ${line}`,
      cause,
    );
  }
}

/** Unregisters the workers of other push services. A worker without a subscription is in nobody's way. */
export async function removePushServices(p: Place): Promise<void> {
  for (const r of await registrations()) {
    if (!isOurs(r, p) && (await r.pushManager?.getSubscription())) await r.unregister();
  }
}

/** Waits until a registration's worker is active: before that there is nobody to subscribe. */
function active(r: ServiceWorkerRegistration): Promise<void> {
  const worker = r.active ?? r.waiting ?? r.installing;
  if (!worker || worker.state === "activated") return Promise.resolve();
  return new Promise((resolve, reject) => {
    worker.addEventListener("statechange", () => {
      if (worker.state === "activated") resolve();
      if (worker.state === "redundant") reject(new Error("it could not be installed"));
    });
  });
}

/** Whether a subscription was made with a server's key. Browsers that do not tell are believed what was kept. */
export function madeWith(s: PushSubscription, key: Uint8Array, same: boolean): boolean {
  const has = s.options?.applicationServerKey;
  if (!has) return same;
  const got = new Uint8Array(has);
  return got.length === key.length && got.every((b, i) => b === key[i]);
}

/** Subscribes at the browser's push service. */
export async function subscribe(r: ServiceWorkerRegistration, key: Uint8Array<ArrayBuffer>): Promise<PushSubscription> {
  try {
    return await r.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  } catch (cause) {
    throw new PushError(
      "service",
      `the browser's push service gives no subscription: ${String(cause)}. The network or a setting of the browser may keep it away`,
      cause,
    );
  }
}

/** The bytes of base64url text, as pushManager.subscribe takes them. */
export function keyBytes(text: string): Uint8Array<ArrayBuffer> {
  const standard = text.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(standard), (c) => c.charCodeAt(0));
}
