// Shows a notification once although it comes over the live connection and by push. Only pages that listen load this.

import { RecalledError } from "../errors.js";
import type { Notification as Received } from "../live/frames.js";
import type { NotificationHandler } from "../live/listener.js";
import type { Reply } from "../live/reply.js";
import { noteSettled, noteShown, seenState } from "./seen.js";

export { held } from "./seen.js";

/** What the service worker tells the pages of its site. */
export interface WorkerMessage {
  type: "shown" | "clicked" | "dismissed" | "recalled";
  payload: Record<string, unknown>;
}

/** How a notification of the live connection is shown; `url` is what a click opens. */
export interface ShowOptions {
  url?: string;
  icon?: string;
  image?: string;
  requireInteraction?: boolean;
  actions?: { action: string; title: string; icon?: string; url?: string }[];
  signal?: AbortSignal;
}

/** Ids that a caller of `show` waits for. */
const showing = new Set<string>();

/** What a page has of the service worker. */
export interface Page {
  worker(): Promise<ServiceWorker | undefined>;
  /** The worker's scope. */
  scope(): Promise<string>;
  /** Calls back with each message of the worker, until the returned function is called. */
  onMessage(callback: (m: WorkerMessage) => void): () => void;
}

/** Has a notification handled, unless that is done with, until something else settles it. */
export async function once(
  page: Page,
  n: Received,
  recalled: AbortSignal,
  handler: NotificationHandler,
): Promise<Reply | undefined> {
  const over = new AbortController();
  const end = () => over.abort(recalled.reason);
  if (recalled.aborted) end();
  recalled.addEventListener("abort", end, { once: true });
  let here = false;
  const stop = page.onMessage(({ type, payload }) => {
    if (payload.godwit_id !== n.id || type === "shown") return;
    if (type !== "recalled" && showing.has(n.id)) return; // the handler waits for just that
    here = true;
    over.abort(type === "recalled" ? new RecalledError(n.id) : new Error(`notification ${n.id} was ${type}`));
  });
  try {
    // The server may not know it yet: to return is to acknowledge.
    const scope = await page.scope();
    if ((await seenState(scope, n.id)) === "settled") return undefined;
    await noteShown(scope, n.id);
    const reply = await handler(n, { signal: over.signal });
    await settle(page, [n.id]);
    return reply || undefined;
  } catch (error) {
    if (!here) throw error;
    return undefined;
  } finally {
    stop();
    recalled.removeEventListener("abort", end);
  }
}

/** Shows a notification as the service worker would, and waits for the person. */
export async function show(
  page: Page,
  n: Pick<Received, "id" | "title" | "body">,
  o: ShowOptions,
): Promise<"clicked" | "dismissed"> {
  const worker = await page.worker();
  if (!worker) throw new Error(`show notification ${n.id}: this page has no service worker; subscribe first`);
  const { signal, requireInteraction, ...more } = o;
  signal?.throwIfAborted();
  const payload = { ...more, godwit_id: n.id, tag: n.id, title: n.title, body: n.body };
  showing.add(n.id);
  let stop = () => {};
  let close = () => {};
  try {
    return await new Promise((resolve, reject) => {
      close = () => {
        worker.postMessage({ godwit: { type: "close", ids: [n.id] } });
        reject(signal?.reason);
      };
      stop = page.onMessage(({ type, payload: of }) => {
        if (of.godwit_id === n.id && (type === "clicked" || type === "dismissed")) resolve(type);
      });
      signal?.addEventListener("abort", close, { once: true });
      worker.postMessage({
        godwit: { type: "show", payload: requireInteraction ? { ...payload, require_interaction: true } : payload },
      });
    });
  } finally {
    showing.delete(n.id);
    stop();
    signal?.removeEventListener("abort", close);
  }
}

/** Keeps that notifications are over, and has the worker take them from the screen. */
export async function settle(page: Page, ids: string[]): Promise<void> {
  const scope = await page.scope();
  for (const id of ids) await noteSettled(scope, id);
  (await page.worker().catch(() => undefined))?.postMessage({ godwit: { type: "close", ids } });
}
