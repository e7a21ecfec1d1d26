// /sdk/perfecty.js: the calls and options of Perfecty Push's browser SDK, on the routes of the same shape that Godwit
// serves under /compat/perfecty/{app}. A page keeps its PerfectyPushOptions and changes the script's URL and serverUrl.

import { keyBytes } from "./push/endpoint.js";
import { Prompt } from "./push/prompt.js";
import { active, type Push, type PushStatus } from "./push/subscriber.js";

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

/** Subscribes through the routes of Perfecty Push's server. */
class PerfectySubscriber implements Pick<Push, "status" | "subscribe" | "unsubscribe" | "keep"> {
  constructor(private readonly o: Options) {}

  async status(): Promise<PushStatus> {
    if (!("serviceWorker" in navigator && "PushManager" in window && "Notification" in window)) return "unsupported";
    if (Notification.permission === "denied") return "blocked";
    return Notification.permission === "granted" && this.user ? "subscribed" : "unsubscribed";
  }

  async subscribe(): Promise<PushStatus> {
    const permission = await Notification.requestPermission();
    if (permission !== "granted") return permission === "denied" ? "blocked" : "unsubscribed";
    await this.register(this.user === null);
    return "subscribed";
  }

  async keep(): Promise<PushStatus> {
    const status = await this.status();
    if (status !== "subscribed") return status;
    const subscription = await (await this.worker()).pushManager.getSubscription();
    const same = subscription !== null && subscription.endpoint === localStorage.getItem(addressKey);
    // A subscriber that the server forgot, or whose address changed, is registered again.
    if (!same || !(await this.known())) await this.register(false);
    return status;
  }

  async unsubscribe(): Promise<void> {
    const { user } = this;
    const registration = await this.worker();
    if (user) await this.call("POST", `/${encodeURIComponent(user)}/unregister`, {});
    await (await registration.pushManager.getSubscription())?.unsubscribe();
    localStorage.removeItem(userKey);
    localStorage.removeItem(addressKey);
  }

  private get user(): string | null {
    return localStorage.getItem(userKey);
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
    const { pushManager } = registration;
    const subscription =
      (await pushManager.getSubscription()) ??
      (await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key }));
    const body = { user: subscription.toJSON(), user_id: this.user, first_time: first };
    const { uuid } = await this.call<{ uuid?: string }>("POST", "", body);
    if (!uuid) throw new Error("the server did not register this browser");
    localStorage.setItem(userKey, uuid);
    localStorage.setItem(addressKey, subscription.endpoint);
  }

  private async worker(): Promise<ServiceWorkerRegistration> {
    const file = new URL(`${(this.o.path ?? "").replace(/\/+$/, "")}/godwit-sw.js`, location.href);
    // A service worker is of the page's own origin; a path elsewhere is where the script was, not the worker.
    const url = file.origin === location.origin ? file : new URL("/godwit-sw.js", location.href);
    if (this.o.unregisterConflicts) {
      for (const r of await navigator.serviceWorker.getRegistrations()) {
        if ((r.active ?? r.waiting ?? r.installing)?.scriptURL !== url.href) await r.unregister();
      }
    }
    const scope = this.o.serviceWorkerScope ? { scope: this.o.serviceWorkerScope } : {};
    const registration = await navigator.serviceWorker.register(url, scope);
    await active(registration);
    return registration;
  }

  private fetch(method: string, path: string, body?: unknown): Promise<Response> {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.o.token) headers[this.o.tokenHeader ?? "Bearer"] = this.o.token;
    const init: RequestInit = { method, headers };
    if (body !== undefined) init.body = JSON.stringify(body);
    return fetch(`${(this.o.serverUrl ?? "").replace(/\/+$/, "")}/v1/push/users${path}`, init);
  }

  private async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await this.fetch(method, path, body);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return (await response.json()) as T;
  }
}

const PerfectyPush = {
  /** Draws the controls and keeps a subscriber subscribed; false where that is not possible or not wanted. */
  async start(o: Options = {}): Promise<boolean> {
    const push = new PerfectySubscriber(o);
    if (o.enabled === false || (await push.status()) === "unsupported") return false;
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
    const prompt = new Prompt(push as unknown as Push, {
      ask: o.askPermissionsDirectly ? "direct" : "dialog",
      hideBell: o.hideBellAfterSubscribe === true,
      visits: o.visitsToDisplayPrompt ?? 0,
      ...(o.promptIconUrl ? { icon: o.promptIconUrl } : {}),
      texts,
    });
    await prompt.start();
    return true;
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
  if (window.PerfectyPushOptions) void PerfectyPush.start(window.PerfectyPushOptions);
});
