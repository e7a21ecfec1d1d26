// /sdk/perfecty.js: the calls and options of Perfecty Push's browser SDK, on the routes of the same shape that Godwit
// serves under /compat/perfecty/{app}. A page keeps its PerfectyPushOptions and changes the script's URL and serverUrl.

import { server } from "./beside.js";
import { complain, obstacle, PushError } from "./push/failure.js";
import {
  folderIn,
  install,
  keyBytes,
  madeWith,
  placeOf,
  registrations,
  removePushServices,
  subscribe,
} from "./push/place.js";
import { Prompt, type PromptOptions } from "./push/prompt.js";
import type { Push, PushStatus } from "./push/subscriber.js";

interface Options {
  path?: string;
  dialogTitle?: string;
  dialogSubmit?: string;
  dialogCancel?: string;
  settingsTitle?: string;
  settingsOptIn?: string;
  settingsUpdateError?: string;
  serverUrl?: string;
  vapidPublicKey?: string;
  token?: string;
  tokenHeader?: string;
  enabled?: boolean;
  unregisterConflicts?: boolean;
  serviceWorkerScope?: string;
  askPermissionsDirectly?: boolean;
  hideBellAfterSubscribe?: boolean;
  visitsToDisplayPrompt?: number;
  promptIconUrl?: string;
}

const userKey = "perfecty_user_id";
/** The address the server has: a browser may change it by itself. */
const addressKey = "godwit_perfecty_address";
/** The server's URL, which names the app, that the two above are of. Other apps of the origin add their own to the names. */
const ownerKey = "godwit_perfecty_server";

/** Subscribes through the routes of Perfecty Push's server. */
class PerfectySubscriber implements Pick<Push, "status" | "subscribe" | "unsubscribe" | "keep"> {
  readonly options: { server: string; app: string };

  constructor(private readonly o: Options) {
    this.options = { server: o.serverUrl ?? "", app: "" };
  }

  async status(): Promise<PushStatus> {
    if (!("serviceWorker" in navigator && "PushManager" in window && "Notification" in window)) return "unsupported";
    if (Notification.permission === "denied") return "blocked";
    const subscribed = Notification.permission === "granted" && this.user && (await this.isOwn());
    return subscribed ? "subscribed" : "unsubscribed";
  }

  /** Whether the user is this app's: Perfecty's own script, and earlier versions, did not keep whose it is. */
  private async isOwn(): Promise<boolean> {
    if (localStorage.getItem(ownerKey)) return true;
    const key = keyBytes(this.o.vapidPublicKey ?? "");
    for (const r of await registrations()) {
      const s = await r.pushManager?.getSubscription();
      if (s && madeWith(s, key, true)) return true;
    }
    return false;
  }

  async subscribe(): Promise<PushStatus> {
    if ((await this.status()) === "unsupported") return "unsupported";
    const permission = await Notification.requestPermission();
    if (permission !== "granted") return permission === "denied" ? "blocked" : "unsubscribed";
    await this.register(this.user === null);
    return "subscribed";
  }

  async keep(): Promise<PushStatus> {
    const status = await this.status();
    if (status !== "subscribed") return status;
    const registration = await this.worker();
    const subscription = await registration.pushManager.getSubscription();
    const same = subscription !== null && subscription.endpoint === localStorage.getItem(addressKey + this.suffix);
    // A subscriber that the server forgot, or whose address changed, is registered again.
    if (!same || !(await this.known())) await this.register(false);
    else await this.endOthers(registration);
    return status;
  }

  async unsubscribe(): Promise<void> {
    const { user } = this;
    const registration = await this.worker();
    if (user) await this.call("POST", `/${encodeURIComponent(user)}/unregister`, {});
    await (await registration.pushManager.getSubscription())?.unsubscribe();
    const { suffix } = this;
    localStorage.removeItem(userKey + suffix);
    localStorage.removeItem(addressKey + suffix);
    if (!suffix) localStorage.removeItem(ownerKey);
  }

  /** Ends what an earlier version left at a wider scope. */
  private async endOthers(registration: ServiceWorkerRegistration): Promise<void> {
    const key = keyBytes(this.o.vapidPublicKey ?? "");
    for (const r of await registrations()) {
      const s = r.scope === registration.scope ? null : await r.pushManager?.getSubscription();
      if (s && madeWith(s, key, false)) await s.unsubscribe();
    }
  }

  private get user(): string | null {
    return localStorage.getItem(userKey + this.suffix);
  }

  /** What names have that another app of the origin was first to use. */
  private get suffix(): string {
    const { server } = this.options;
    return (localStorage.getItem(ownerKey) ?? server) === server ? "" : ` ${server}`;
  }

  private async known(): Promise<boolean> {
    const response = await this.fetch("GET", `/${encodeURIComponent(this.user ?? "")}`);
    if (response.status === 404) return false;
    if (!response.ok) return true; // the server has trouble of its own
    return ((await response.json()) as { uuid?: string } | null)?.uuid !== undefined;
  }

  private async register(first: boolean): Promise<void> {
    const registration = await this.worker();
    const key = keyBytes(this.o.vapidPublicKey ?? "");
    const subscription = (await registration.pushManager.getSubscription()) ?? (await subscribe(registration, key));
    const body = { user: subscription.toJSON(), user_id: this.user, first_time: first };
    const { uuid } = await this.call<{ uuid?: string }>("POST", "", body);
    if (!uuid) throw new Error("the server did not register this browser");
    const { suffix } = this;
    if (!suffix) localStorage.setItem(ownerKey, this.options.server);
    localStorage.setItem(userKey + suffix, uuid);
    localStorage.setItem(addressKey + suffix, subscription.endpoint);
  }

  private async worker(): Promise<ServiceWorkerRegistration> {
    const file = new URL(`${(this.o.path ?? "").replace(/\/+$/, "")}/godwit-sw.js`, location.href);
    // A service worker is of the page's own origin; a path elsewhere is where the script was, not the worker.
    const url = file.origin === location.origin ? file : new URL("/godwit-sw.js", location.href);
    const place = { ...placeOf(url.href, this.o.serviceWorkerScope), replaces: /perfecty|service-worker-loader/i };
    // A browser has one subscription a scope.
    if (this.suffix) place.scope = folderIn(place.scope, this.options.server);
    if (this.o.unregisterConflicts) await removePushServices(place);
    return install(place, server);
  }

  private fetch(method: string, path: string, body?: unknown): Promise<Response> {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.o.token) headers[this.o.tokenHeader ?? "Bearer"] = this.o.token;
    const init: RequestInit = { method, headers };
    if (body !== undefined) init.body = JSON.stringify(body);
    const url = `${(this.o.serverUrl ?? "").replace(/\/+$/, "")}/v1/push/users${path}`;
    return fetch(url, init).catch((error: unknown) => {
      throw new PushError(
        "server",
        `no answer from ${url} (${String(error)}). Is the server up, its URL in connect-src, and ${location.origin} allowed (godwit app allow-anonymous)?`,
        error,
      );
    });
  }

  private async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await this.fetch(method, path, body);
    if (!response.ok) {
      throw new PushError(
        "app",
        `${this.o.serverUrl} answered ${response.status}: does serverUrl end with the app, and does that take pages of ${location.origin}?`,
      );
    }
    return (await response.json()) as T;
  }
}

const named: { [name: string]: string } = { amp: "&", quot: '"', lt: "<", gt: ">", apos: "'" };

/** The options as they are meant: WordPress's esc_url and esc_html leave entities like &#038; in a script, where no browser decodes them. */
function decoded(o: Options): Options {
  const entity = /&(?:#(\d{1,6})|#x([\da-f]{1,5})|(amp|quot|lt|gt|apos));/gi;
  const plain = (_: string, decimal?: string, hex?: string, name?: string) =>
    name ? (named[name.toLowerCase()] as string) : String.fromCodePoint(Number(decimal ?? `0x${hex}`));
  return Object.fromEntries(
    Object.entries(o).map(([key, value]) => [key, typeof value === "string" ? value.replace(entity, plain) : value]),
  );
}

const PerfectyPush = {
  /** Draws the controls and keeps a subscriber subscribed; false where that is not possible or not wanted. */
  async start(given: Options = {}): Promise<boolean> {
    const o = decoded(given);
    const push = new PerfectySubscriber(o);
    const unsupported = (await push.status()) === "unsupported";
    if (o.enabled === false || (unsupported && !obstacle())) return false;
    const texts = Object.fromEntries(
      Object.entries({
        title: o.dialogTitle,
        accept: o.dialogSubmit,
        later: o.dialogCancel,
        settings: o.settingsTitle,
        bell: o.settingsTitle,
        optIn: o.settingsOptIn,
        failed: o.settingsUpdateError,
      }).filter(([, text]) => text !== undefined),
    );
    const options: PromptOptions = {
      ask: o.askPermissionsDirectly ? "direct" : "dialog",
      hideBell: o.hideBellAfterSubscribe === true,
      visits: o.visitsToDisplayPrompt ?? 0,
      ...(o.promptIconUrl ? { icon: o.promptIconUrl } : {}),
      texts,
    };
    await new Prompt(push as unknown as Push, options).start();
    return !unsupported;
  },
};

declare global {
  interface Window {
    PerfectyPush: typeof PerfectyPush;
    PerfectyPushOptions?: Options;
  }
}

window.PerfectyPush = PerfectyPush;
window.addEventListener("load", () => {
  if (window.PerfectyPushOptions) PerfectyPush.start(window.PerfectyPushOptions).catch(complain);
});
