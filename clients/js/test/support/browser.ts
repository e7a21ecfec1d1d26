import { existsSync } from "node:fs";
import { type Browser, type BrowserContext, type CDPSession, chromium, type Page, type Worker } from "playwright-core";
import { onTestFinished } from "vitest";
import { eventually } from "./wait.js";

const executable = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
// Not the script in PATH, which starts it as a child that may outlive the script.
const windowless = ["/usr/lib/chromium/chromium-headless-shell"].find(existsSync) ?? executable;

/** Whether there is a browser to test with. In CI (GODWIT_TEST_STRICT) there has to be. */
export const haveBrowser = executable !== undefined || process.env.GODWIT_TEST_STRICT === "1";

/** Starts a browser: the whole of it for push and permissions, else the one without windows, where a page takes two thirds of the time. */
export async function launch(needs: { push: boolean } = { push: false }): Promise<Browser> {
  const executablePath = needs.push ? executable : windowless;
  if (!executablePath) throw new Error("no Chromium was found");
  return chromium.launch({
    executablePath,
    // Pages of tests are gone before V8's optimizing compilers have paid off.
    args: [
      "--js-flags=--no-opt --no-maglev",
      "--no-sandbox",
      "--disable-quic",
      "--host-resolver-rules=MAP site.test 127.0.0.1",
    ],
  });
}

/** A visitor: a browser profile of its own, with one page. */
export class Visitor {
  readonly errors: string[] = [];

  private constructor(
    readonly context: BrowserContext,
    readonly page: Page,
    private readonly cdp: CDPSession,
  ) {}

  static async come(
    browser: Browser,
    options: { colorScheme?: "light" | "dark" } = {},
    pushService = somePushService,
  ): Promise<Visitor> {
    const context = await browser.newContext({ reducedMotion: "reduce", ...options });
    onTestFinished(() => context.close());
    await context.addInitScript(fakePushService, pushService);
    await context.addInitScript(countHandled);
    const page = await context.newPage();
    const cdp = await context.newCDPSession(page);
    const v = new Visitor(context, page, cdp);
    context.on("serviceworker", (w) => void w.evaluate(showAndAskInTurn).catch(() => {})); // it may end at once
    page.on("pageerror", (e) => v.errors.push(String(e)));
    page.on("console", (m) => {
      if (m.type() === "error") v.errors.push(m.text());
    });
    return v;
  }

  /** The service worker of a site, once it is active. */
  async worker(script = "/godwit-sw.js"): Promise<Worker> {
    let found: Worker | undefined;
    await eventually("the service worker runs", () => {
      found = this.context.serviceWorkers().find((w) => new URL(w.url()).pathname === script);
      return found !== undefined;
    });
    return found as Worker;
  }

  /** Waits until the page has read that the server has its subscription: later than the server knows it. */
  async subscribed(app = "news"): Promise<void> {
    const status = () => this.page.evaluate((app) => new window.Godwit.Push({ server: "", app }).status(), app);
    await eventually("the page knows", async () => (await status()) === "subscribed");
  }

  /**
   * Delivers a message as the push service would, and waits until the service worker is done with it: Chromium forgets
   * a notification that is being shown while somebody asks what is shown.
   */
  async deliver(payload: object | string): Promise<void> {
    const handled = () => this.page.evaluate(() => (window as { handled?: number }).handled ?? 0);
    const before = await handled();
    await this.send(payload);
    await eventually("the service worker is done with the message", async () => (await handled()) > before);
  }

  /** Delivers a message of which nothing is told, since nothing is shown; the next one is handled after it. */
  async send(payload: object | string): Promise<void> {
    // A site may have a worker of its own beside the one that push is for.
    const scope = await this.page.evaluate(async () => {
      const all = (await navigator.serviceWorker.getRegistrations()).map((r) => r.scope);
      return all.find((s) => s.endsWith("/godwit/")) ?? all[0];
    });
    const registration = new Promise<string>((resolve) => {
      this.cdp.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
        const r = registrations.find((x) => !x.isDeleted && x.scopeURL === scope);
        if (r) resolve(r.registrationId);
      });
    });
    await this.cdp.send("ServiceWorker.enable");
    await this.cdp.send("ServiceWorker.deliverPushMessage", {
      origin: new URL(this.page.url()).origin,
      registrationId: await registration,
      data: typeof payload === "string" ? payload : JSON.stringify(payload),
    });
    await this.cdp.send("ServiceWorker.disable");
  }

  /** Does to the first notification what a person would, and returns the page that this opened. */
  async react(event: "notificationclick" | "notificationclose", action = "", script?: string): Promise<string> {
    return (await this.worker(script)).evaluate(
      async ([type, chosen]) => {
        const sw = globalThis as unknown as ServiceWorkerTestScope;
        const [notification] = await sw.registration.getNotifications();
        const reaction = new sw.NotificationEvent(type, { notification, action: chosen });
        // Only a person's click may open a window. Where none is opened, the worker is done without.
        const opened = new Promise<string>((resolve, reject) => {
          sw.clients.openWindow = async (url) => resolve(url);
          Object.assign(reaction, { waitUntil: (done: Promise<unknown>) => done.then(() => resolve(""), reject) });
        });
        sw.dispatchEvent(reaction);
        return opened;
      },
      [event, action] as const,
    );
  }

  /** What is shown now. The service workers are asked, one of each scope: they do not ask while they show something. */
  async shown(): Promise<Shown[]> {
    const asked = this.context.serviceWorkers().map((w) =>
      w.evaluate(async () => {
        const { registration } = globalThis as unknown as ServiceWorkerTestScope;
        const list = (await registration.getNotifications()) as (Notification & {
          actions?: { action: string }[];
          renotify: boolean;
        })[];
        const shown = list.map(({ title, body, tag, renotify, requireInteraction, actions = [] }) => {
          return { title, body, tag, renotify, requireInteraction, actions: actions.map((a) => a.action) };
        });
        return [registration.scope, shown] as const;
      }),
    );
    return [...new Map(await Promise.all(asked)).values()].flat();
  }
}

/** A notification as the person sees it. */
export interface Shown {
  title: string;
  body: string;
  tag: string;
  renotify: boolean;
  actions: string[];
  requireInteraction: boolean;
}

/** What of a service worker the tests touch. */
export interface ServiceWorkerTestScope extends EventTarget {
  clients: { openWindow: (url: string) => Promise<void> };
  registration: ServiceWorkerRegistration;
  NotificationEvent: new (type: string, init: object) => Event;
}

/** Runs in the service worker. Chromium forgets what is being shown while somebody asks what is shown. */
function showAndAskInTurn(): void {
  const { registration } = globalThis as unknown as ServiceWorkerTestScope;
  const [show, get] = [
    registration.showNotification.bind(registration),
    registration.getNotifications.bind(registration),
  ];
  let before: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = before.then(work);
    before = done.catch(() => {});
    return done;
  };
  registration.showNotification = (title, options) => inTurn(() => show(title, options));
  registration.getNotifications = (filter) => inTurn(() => get(filter));
}

/** Runs in the page. Counts the messages that the service worker says it is done with. */
function countHandled(): void {
  const w = window as { handled?: number };
  w.handled = 0;
  navigator.serviceWorker?.addEventListener("message", (e) => {
    if (e.data?.godwit?.payload) w.handled = (w.handled ?? 0) + 1;
  });
}

/** What a subscription says: where messages go, and the keys they are encrypted for. */
export interface Subscriptions {
  url: string;
  p256dh: string;
  auth: string;
}

/** The keys are those of RFC 8291, appendix A. */
const somePushService: Subscriptions = {
  url: "https://push.example.com/send/",
  p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
  auth: "BTBZMqHH6r4Tts7J_aSIgg",
};

/**
 * Runs in the page. Headless Chromium has no push service: this one gives subscriptions whose address and keys the
 * test can see, and remembers them as a browser does: one for each registration of a service worker.
 */
function fakePushService(o: Subscriptions): void {
  const of = ({ scope }: ServiceWorkerRegistration) => {
    const stored = `test-subscription ${new URL(scope).pathname}`;
    const make = (s: { endpoint: string; key: number[] }) => ({
      endpoint: s.endpoint,
      options: { userVisibleOnly: true, applicationServerKey: new Uint8Array(s.key).buffer },
      toJSON: () => ({
        endpoint: s.endpoint,
        expirationTime: null,
        keys: { p256dh: o.p256dh, auth: o.auth },
      }),
      unsubscribe: async () => {
        localStorage.removeItem(stored);
        return true;
      },
    });
    const getSubscription = async () => {
      const text = localStorage.getItem(stored);
      return text ? make(JSON.parse(text)) : null;
    };
    const subscribe = async ({ applicationServerKey }: { applicationServerKey: Uint8Array }) => {
      if (localStorage.getItem("test-push-service-away")) {
        throw new DOMException("Registration failed - push service not available", "AbortError");
      }
      const endpoint = o.url + Math.random().toString(36).slice(2);
      localStorage.setItem(stored, JSON.stringify({ endpoint, key: [...applicationServerKey] }));
      return getSubscription();
    };
    return { getSubscription, subscribe };
  };
  Object.defineProperty(globalThis.ServiceWorkerRegistration?.prototype ?? {}, "pushManager", {
    get(this: ServiceWorkerRegistration) {
      return of(this);
    },
  });
}
