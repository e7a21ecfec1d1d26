import type { Client } from "../client.js";
import type { Notification as Received } from "../live/frames.js";
import type { Listener, ListenOptions, NotificationHandler } from "../live/listener.js";
import { sendUnsent } from "./acks.js";
import { EndpointError, endpoint, register, serverKey } from "./endpoint.js";
import { explained, PushError } from "./failure.js";
import type { Page, ShowOptions, WorkerMessage } from "./once.js";
import { parts } from "./parts.js";
import {
  install,
  installed,
  keyBytes,
  madeWith,
  type Place,
  placeFor,
  placeOf,
  registrations,
  removePushServices,
  subscribe,
} from "./place.js";
import { all, type Kept, save, update } from "./store.js";

export interface PushOptions {
  /** The Godwit server's URL, for example "https://push.example.org". */
  server: string;
  app: string;
  /** The service worker's URL on the page's own origin; default "/godwit-sw.js". */
  serviceWorker?: string;
  /**
   * The scope to register it with; default: the folder "godwit/" beside it, where no page is, so that the site's own
   * service worker stays what it is. A scope that another worker has is refused.
   */
  scope?: string;
  /** Tells whose browser this is: a client token, which names the recipient. Without one the subscriber is anonymous. */
  token?: () => string | undefined | Promise<string | undefined>;
  tags?: string[];
  attributes?: Record<string, unknown>;
  /** Unregister service workers that have a subscription of another push service; default false. */
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
  readonly #server: string;
  readonly #page: Page = {
    worker: async () => (Push.supported ? ((await this.#installed())?.active ?? undefined) : undefined),
    scope: async () => (Push.supported && (await this.#installed())?.scope) || "",
    onMessage(callback) {
      const { serviceWorker } = navigator as { serviceWorker?: ServiceWorkerContainer };
      const listen = ({ data }: MessageEvent) => data?.godwit && callback(data.godwit);
      serviceWorker?.addEventListener("message", listen); // a browser without has none, as a page without https
      return () => serviceWorker?.removeEventListener("message", listen);
    },
  };

  constructor(readonly options: PushOptions) {
    this.#server = options.server.replace(/\/+$/, "");
  }

  static get supported(): boolean {
    return "serviceWorker" in navigator && "PushManager" in globalThis && "Notification" in globalThis;
  }

  async status(): Promise<PushStatus> {
    if (!Push.supported) return "unsupported";
    if (Notification.permission === "denied") return "blocked";
    const known = await this.#known().catch(() => undefined); // a browser that keeps nothing
    if (!known?.own.id || Notification.permission !== "granted") return "unsubscribed";
    return (await subscriptions(known))[0] ? "subscribed" : "unsubscribed";
  }

  /** Asks for permission, where it was not given yet, and subscribes. Call it from a click. */
  async subscribe(): Promise<PushStatus> {
    if (!Push.supported) return "unsupported";
    const permission = await Notification.requestPermission();
    if (permission !== "granted") return permission === "denied" ? "blocked" : "unsubscribed";
    await this.#ensure(true);
    return "subscribed";
  }

  /** Ends the subscription, here and on the server. One that somebody else made stays. */
  async unsubscribe(): Promise<void> {
    const known = await this.#known();
    const { own } = known;
    for (const s of await subscriptions(known)) await s.unsubscribe();
    await save(own);
    await update(`seen ${own.scope}`, () => []); // it came by the subscription
    if (own.id) await endpoint(own, "DELETE");
  }

  /**
   * Keeps a subscriber subscribed; call it on every page. It does nothing for those who are none: it subscribes anew
   * where the browser lost the subscription or the server's key changed, and registers again where the server forgot.
   */
  async keep(): Promise<PushStatus> {
    const known = await this.#known().catch(() => undefined);
    void sendUnsent();
    if (!known?.own.id || !Push.supported || Notification.permission !== "granted") return this.status();
    await this.#ensure(false);
    return "subscribed";
  }

  /** Changes tags and attributes, on which audiences are chosen. */
  async update(fields: { tags?: string[]; attributes?: Record<string, unknown> }): Promise<void> {
    const { own } = await this.#known();
    if (!own.id) throw new EndpointError(0, "this browser is not subscribed");
    if (!(await endpoint(own, "PATCH", fields)))
      throw new EndpointError(404, "the server has forgotten this browser: subscribe again");
    await save(own, { ...own, ...fields });
  }

  /** Tells a callback of messages and clicks that the service worker saw while this page was open. */
  onMessage(callback: (m: WorkerMessage) => void): void {
    this.#page.onMessage(callback);
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
    const page = this.#page;
    return client.listen(recipient, async (n, { signal }) => (await parts.once()).once(page, n, signal, handler), {
      concurrency: 64, // as many notifications as a session gets unacknowledged
      ...options,
      held: async () => [...(await (await parts.once()).held(await page.scope())), ...((await options.held?.()) ?? [])],
      onRecall: (ids) => {
        void parts.once().then(
          (m) => m.settle(page, ids),
          () => {},
        );
        options.onRecall?.(ids);
      },
    });
  }

  /**
   * Shows a notification of the live connection as the service worker would, unless push has brought it already, and
   * resolves when the person clicked or dismissed it. Given the signal of the handler, it closes it when that aborts.
   */
  async show(n: Pick<Received, "id" | "title" | "body">, options: ShowOptions = {}): Promise<"clicked" | "dismissed"> {
    return (await parts.once()).show(this.#page, n, options);
  }

  /** What is kept about this app, and about the others of the origin. Without a server it is that of any. */
  async #known(): Promise<Known> {
    const { app } = this.options;
    const server = this.#server;
    const list = await all();
    const own = list.find((k) => k.app === app && (!server || k.server === server)) ?? { server, app };
    return { own, others: list.filter((k) => k !== own) };
  }

  #place({ own, others }: Known): Place {
    return placeFor(placeOf(this.options.serviceWorker, this.options.scope), own, others);
  }

  async #installed(): Promise<ServiceWorkerRegistration | undefined> {
    const known = await this.#known().catch((): Known => ({ own: this.options, others: [] }));
    return installed(this.#place(known), known.others);
  }

  /** Makes service worker, subscription and endpoint be there and agree. */
  async #ensure(force: boolean): Promise<void> {
    const known = await this.#known();
    const place = this.#place(known);
    if (this.options.removeConflicts) await removePushServices(place);
    const registration = await install(place, this.#server);
    const kept = { ...known.own };
    if (this.options.tags) kept.tags ??= this.options.tags;
    if (this.options.attributes) kept.attributes ??= this.options.attributes;
    const fresh = Date.now() - (kept.checkedAt ?? 0) < (this.options.checkEvery ?? 86_400_000);
    const subscription = await registration.pushManager.getSubscription();
    const settled = subscription !== null && subscription.endpoint === kept.address;
    if (!force && fresh && settled) return;
    // Of its scope no page is opened, so the browser does not look for a newer worker by itself.
    void registration.update().catch(() => {});
    try {
      const mine = await subscriptions(known);
      await this.#agree(registration, kept, subscription, mine);
      // Subscriptions elsewhere were made by an earlier version. They ended a visit ago: messages that were on their
      // way then have arrived.
      if (settled) for (const s of mine) if (s.endpoint !== subscription.endpoint) await s.unsubscribe();
    } catch (error) {
      throw explained(error, this.#server, this.options.app);
    }
  }

  /** Makes a subscription with the server's key, unless there is one, and tells the server. */
  async #agree(
    registration: ServiceWorkerRegistration,
    kept: Kept,
    there: PushSubscription | null,
    mine: PushSubscription[],
  ): Promise<void> {
    const key = await serverKey(kept);
    const bytes = keyBytes(key);
    let subscription = there;
    if (there && !madeWith(there, bytes, !kept.key || kept.key === key)) {
      if (!mine.some((s) => s.endpoint === there.endpoint)) throw foreign(registration);
      await there.unsubscribe();
      subscription = null;
    }
    subscription ??= await subscribe(registration, bytes);
    await register({ ...kept, key, scope: registration.scope }, subscription, await this.options.token?.());
  }
}

/** What is kept about an app, and about the others of the origin. */
interface Known {
  own: Kept;
  others: Kept[];
}

/** An app's own subscriptions: what the server knows, and what an earlier version left at a wider scope. */
async function subscriptions({ own, others }: Known): Promise<PushSubscription[]> {
  const found: PushSubscription[] = [];
  for (const r of await registrations()) {
    const s = await r.pushManager?.getSubscription();
    if (!s || others.some((k) => k.address === s.endpoint)) continue;
    if (s.endpoint === own.address || (own.key && madeWith(s, keyBytes(own.key), false))) found.push(s);
  }
  return found;
}

const foreign = (r: ServiceWorkerRegistration) =>
  new PushError(
    "taken",
    `the service worker at ${r.scope} has a subscription of another push service, which is left alone. Leave data-scope out`,
  );
