// What a page does so that a notification that comes over its live connection and by push is one.

import type { Client } from "../client.js";
import { RecalledError } from "../errors.js";
import type { Notification as Received } from "../live/frames.js";
import type { Listener, ListenOptions, NotificationHandler } from "../live/listener.js";
import type { Reply } from "../live/reply.js";
import { held, noteSettled, noteShown, seenState } from "./seen.js";

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

/** How many handlers run at once: as many notifications as a session gets unacknowledged. */
const atOnce = 64;

export class LiveAndPush {
  /** Ids that a caller of `show` waits for. */
  private readonly showing = new Set<string>();

  constructor(private readonly worker: () => Promise<ServiceWorker | undefined>) {}

  /** Calls back with each message of the worker, until the returned function is called. */
  onMessage(callback: (m: WorkerMessage) => void): () => void {
    const { serviceWorker } = navigator as { serviceWorker?: ServiceWorkerContainer };
    if (!serviceWorker) return () => {}; // a browser without, or a page without https
    const listen = (event: MessageEvent) => {
      const m = (event.data as { godwit?: WorkerMessage } | undefined)?.godwit;
      if (m) callback(m);
    };
    serviceWorker.addEventListener("message", listen);
    return () => serviceWorker.removeEventListener("message", listen);
  }

  listen(client: Client, recipient: string | undefined, handler: NotificationHandler, o: ListenOptions): Listener {
    return client.listen(recipient, (n, context) => this.once(n, context.signal, handler), {
      concurrency: atOnce,
      ...o,
      held: async () => [...(await held().catch(() => [])), ...((await o.held?.()) ?? [])],
      onRecall: (ids) => {
        void this.settle(ids);
        o.onRecall?.(ids);
      },
    });
  }

  private async once(n: Received, recalled: AbortSignal, handler: NotificationHandler): Promise<Reply | undefined> {
    const over = new AbortController();
    const end = () => over.abort(recalled.reason);
    if (recalled.aborted) end();
    recalled.addEventListener("abort", end, { once: true });
    let here = false;
    const stop = this.onMessage(({ type, payload }) => {
      if (payload.godwit_id !== n.id || type === "shown") return;
      if (type !== "recalled" && this.showing.has(n.id)) return; // the handler waits for just that
      here = true;
      over.abort(type === "recalled" ? new RecalledError(n.id) : new Error(`notification ${n.id} was ${type}`));
    });
    try {
      // The server may not know it yet: to return is to acknowledge.
      if ((await seenState(n.id).catch(() => "new")) === "settled") return undefined;
      await noteShown(n.id).catch(() => {});
      const reply = await handler(n, { signal: over.signal });
      await this.settle([n.id]);
      return reply || undefined;
    } catch (error) {
      if (!here) throw error;
      return undefined;
    } finally {
      stop();
      recalled.removeEventListener("abort", end);
    }
  }

  async show(n: Pick<Received, "id" | "title" | "body">, o: ShowOptions): Promise<"clicked" | "dismissed"> {
    const worker = await this.worker();
    if (!worker) throw new Error(`show notification ${n.id}: this page has no service worker; subscribe first`);
    const { signal, requireInteraction, ...more } = o;
    signal?.throwIfAborted();
    const payload = { ...more, godwit_id: n.id, tag: n.id, title: n.title, body: n.body };
    this.showing.add(n.id);
    let stop = () => {};
    let close = () => {};
    try {
      return await new Promise((resolve, reject) => {
        close = () => {
          worker.postMessage({ godwit: { type: "close", ids: [n.id] } });
          reject(signal?.reason);
        };
        stop = this.onMessage(({ type, payload: of }) => {
          if (of.godwit_id === n.id && (type === "clicked" || type === "dismissed")) resolve(type);
        });
        signal?.addEventListener("abort", close, { once: true });
        worker.postMessage({
          godwit: { type: "show", payload: requireInteraction ? { ...payload, require_interaction: true } : payload },
        });
      });
    } finally {
      this.showing.delete(n.id);
      stop();
      signal?.removeEventListener("abort", close);
    }
  }

  /** Keeps that notifications are over, and has the worker take them from the screen. */
  private async settle(ids: string[]): Promise<void> {
    for (const id of ids) await noteSettled(id).catch(() => {});
    (await this.worker().catch(() => undefined))?.postMessage({ godwit: { type: "close", ids } });
  }
}
