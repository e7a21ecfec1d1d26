import type { Client } from "../client.js";
import type { Notification as Received } from "../live/frames.js";
import type { Listener, ListenOptions, NotificationHandler } from "../live/listener.js";
import { sendUnsent } from "./acks.js";
import { change, EndpointError, keyBytes, register, remove, serverKey } from "./endpoint.js";
import { LiveAndPush, type ShowOptions, type WorkerMessage } from "./live.js";
import { forget, type Kept, load, save } from "./store.js";

export interface PushOptions {
  /** The Godwit server's URL, for example "https://push.example.org". */
  server: string;
  app: string;
  /** The service worker's URL on the page's own origin; default "/godwit-sw.js". */
  serviceWorker?: string;
  /** The scope to register it with; default: the folder it lies in. */
  scope?: string;
  /** Tells whose browser this is: a client token, which names the recipient. Without one the subscriber is anonymous. */
  token?: () => string | undefined | Promise<string | undefined>;
  tags?: string[];
  attributes?: Record<string, unknown>;
  /** Unregister service workers of other push services that stand in the way; default false. */
  removeConflicts?: boolean;
  /** How long the server's word that it knows this browser is good for: milliseconds; default a day. */
  checkEvery?: number;
}

/**
 * "unsupported": this browser has no Web Push (on an iPhone: not until the site is on the home screen); "blocked": the
 * visitor said no; "subscribed"; "unsubscribed".
 */
export type PushStatus = "unsupported" | "blocked" | "subscribed" | "unsubscribed";

/** Subscribes this browser to the server's campaigns and keeps it subscribed. */
export class Push {
  private readonly server: string;
  private readonly live = new LiveAndPush(async () =>
    Push.supported ? ((await this.registration())?.active ?? undefined) : undefined,
  );

  constructor(readonly options: PushOptions) {
    this.server = options.server.replace(/\/+$/, "");
  }

  static get supported(): boolean {
    return "serviceWorker" in navigator && "PushManager" in globalThis && "Notification" in globalThis;
  }

  async status(): Promise<PushStatus> {
    if (!Push.supported) return "unsupported";
    if (Notification.permission === "denied") return "blocked";
    const subscription = await (await this.registration())?.pushManager.getSubscription();
    const kept = await load();
    return subscription && kept?.id && Notification.permission === "granted" ? "subscribed" : "unsubscribed";
  }

  /** Asks for permission, where it was not given yet, and subscribes. Call it from a click. */
  async subscribe(): Promise<PushStatus> {
    if (!Push.supported) return "unsupported";
    const permission = await Notification.requestPermission();
    if (permission !== "granted") return permission === "denied" ? "blocked" : "unsubscribed";
    await this.ensure(true);
    return "subscribed";
  }

  /** Ends the subscription, here and on the server. */
  async unsubscribe(): Promise<void> {
    const kept = await load();
    const registration = await this.registration();
    await (await registration?.pushManager.getSubscription())?.unsubscribe();
    await forget();
    if (kept) await remove(kept);
  }

  /**
   * Keeps a subscriber subscribed; call it on every page. It does nothing for those who are none: it subscribes anew
   * where the browser lost the subscription or the server's key changed, and registers again where the server forgot.
   */
  async keep(): Promise<PushStatus> {
    const kept = await load().catch(() => undefined);
    void sendUnsent().catch(() => {});
    if (!kept?.id || !Push.supported || Notification.permission !== "granted") return this.status();
    await this.ensure(false);
    return "subscribed";
  }

  /** Changes tags and attributes, on which audiences are chosen. */
  async update(fields: { tags?: string[]; attributes?: Record<string, unknown> }): Promise<void> {
    const kept = await load();
    if (!kept?.id) throw new EndpointError(0, "this browser is not subscribed");
    await change(kept, fields);
    await save({ ...kept, ...fields });
  }

  /** Tells a callback of messages and clicks that the service worker saw while this page was open. */
  onMessage(callback: (m: WorkerMessage) => void): void {
    this.live.onMessage(callback);
  }

  /**
   * Receives a recipient's notifications over a live connection, those of them that push brings as well once: what was
   * clicked, dismissed or recalled here does not reach the handler, its signal aborts when that happens while it runs, and
   * what it has handled is taken from the screen. Up to 64 handlers run at once, so that each may wait for the person.
   */
  listen(
    client: Client,
    recipient: string | undefined,
    handler: NotificationHandler,
    options: ListenOptions = {},
  ): Listener {
    return this.live.listen(client, recipient, handler, options);
  }

  /**
   * Shows a notification of the live connection as the service worker would, unless push has brought it already, and
   * resolves when the person clicked or dismissed it. Given the signal of the handler, it closes it when that aborts.
   */
  show(n: Pick<Received, "id" | "title" | "body">, options: ShowOptions = {}): Promise<"clicked" | "dismissed"> {
    return this.live.show(n, options);
  }

  private get worker(): string {
    return this.options.serviceWorker ?? "/godwit-sw.js";
  }

  private async registration(): Promise<ServiceWorkerRegistration | undefined> {
    const url = new URL(this.worker, location.href).href;
    return (await navigator.serviceWorker.getRegistrations()).find((r) => scriptOf(r) === url);
  }

  /** Makes service worker, subscription and endpoint be there and agree. */
  private async ensure(force: boolean): Promise<void> {
    if (this.options.removeConflicts) await this.removeConflicts();
    const init = this.options.scope ? { scope: this.options.scope } : {};
    const registration = await navigator.serviceWorker.register(this.worker, init);
    await active(registration);
    const before = await load();
    const here = before?.server === this.server && before.app === this.options.app;
    const kept: Kept = here ? { ...before } : { server: this.server, app: this.options.app };
    if (this.options.tags) kept.tags ??= this.options.tags;
    if (this.options.attributes) kept.attributes ??= this.options.attributes;
    const fresh = Date.now() - (kept.checkedAt ?? 0) < (this.options.checkEvery ?? 86_400_000);
    let subscription = await registration.pushManager.getSubscription();
    if (!force && fresh && subscription && subscription.endpoint === kept.address) return;

    const key = await serverKey(this.server, this.options.app);
    if (subscription && !madeWith(subscription, key, kept.key)) {
      await subscription.unsubscribe();
      subscription = null;
    }
    subscription ??= await registration.pushManager.subscribe({
      userVisibleOnly: true,
      applicationServerKey: keyBytes(key),
    });
    const token = await this.options.token?.();
    await register({ ...kept, key }, subscription, token);
  }

  /** Unregisters service workers that would take this one's scope: those of other push services that were used before. */
  private async removeConflicts(): Promise<void> {
    const own = new URL(this.worker, location.href).href;
    const scope = new URL(this.options.scope ?? "./", own).href;
    for (const r of await navigator.serviceWorker.getRegistrations()) {
      if (r.scope !== scope && !(await r.pushManager?.getSubscription())) continue;
      if (scriptOf(r) !== own) await r.unregister();
    }
  }
}

const scriptOf = (r: ServiceWorkerRegistration) => (r.active ?? r.waiting ?? r.installing)?.scriptURL;

/** Whether a subscription was made with the server's key. Browsers that do not tell are believed what was kept. */
function madeWith(s: PushSubscription, key: string, kept: string | undefined): boolean {
  const has = s.options?.applicationServerKey;
  if (!has) return kept === undefined || kept === key;
  const want = keyBytes(key);
  const got = new Uint8Array(has);
  return got.length === want.length && got.every((b, i) => b === want[i]);
}

/** Waits until a registration's worker is active: before that there is nobody to subscribe. */
export function active(r: ServiceWorkerRegistration): Promise<void> {
  const worker = r.active ?? r.waiting ?? r.installing;
  if (!worker || worker.state === "activated") return Promise.resolve();
  return new Promise((resolve, reject) => {
    worker.addEventListener("statechange", () => {
      if (worker.state === "activated") resolve();
      if (worker.state === "redundant") reject(new Error("the service worker could not be installed"));
    });
  });
}
