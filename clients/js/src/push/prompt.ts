import type { Dialogs, Shared } from "./dialogs.js";
import { complain, obstacle } from "./failure.js";
import { parts } from "./parts.js";
import { style } from "./style.js";
import type { Push, PushStatus } from "./subscriber.js";

/** What the visitor reads. */
export interface PromptTexts {
  title: string;
  body: string;
  accept: string;
  later: string;
  close: string;
  settings: string;
  optIn: string;
  blocked: string;
  failed: string;
  /** The server or the browser's push service cannot be reached. */
  away: string;
  /** The site is to blame; the console says for what. */
  setup: string;
  insecure: string;
  /** For an iPhone or iPad, in a tab of the browser. */
  homeScreen: string;
  bell: string;
}

export interface PromptOptions {
  /**
   * How visitors are asked: with a "dialog" of the page, which alone leads to the browser's question (default); with
   * the browser's question "direct", which most browsers only show after a click; or not: the bell is there for those who want.
   */
  ask?: "dialog" | "direct" | "none";
  /** On which visit to ask first; default 1. A visit is a page opened half an hour after the last. */
  visits?: number;
  /** How many days after "not now" to ask again; default 30. */
  again?: number;
  /** Shows a bell with an opt-in box: "right" (default), "left" or none. */
  bell?: "right" | "left" | false;
  /** Takes the bell away from those who have subscribed; default false. */
  hideBell?: boolean;
  /** A picture beside the question, for example the site's icon. */
  icon?: string;
  /** Words in place of those of the page's language: English, German, French, Spanish, Portuguese or Hindi, else English. */
  texts?: Partial<PromptTexts>;
}

const day = 86_400_000;
const betweenVisits = 1_800_000;
const bellPath =
  "M12 2a2 2 0 0 0-2 2 7 7 0 0 0-5 7v4l-1 2v1h16v-1l-1-2v-4a7 7 0 0 0-5-7 2 2 0 0 0-2-2M9 20a3 3 0 0 0 6 0";

/** What the prompt remembers in localStorage. */
export interface Memory {
  visits: number;
  lastSeen: number;
  /** When the visitor said "not now". */
  later: number;
  /** The visitor opted out: never ask by ourselves again. */
  optedOut: boolean;
}

/** Asks visitors whether they want notifications, and lets them change their mind. */
export class Prompt {
  readonly #host = document.createElement("div");
  readonly #shared: Shared;
  #dialogs: Promise<Dialogs | undefined> | undefined;

  constructor(push: Push, options: PromptOptions = {}) {
    const root = this.#host.attachShadow({ mode: "open" });
    // A constructed sheet is no inline style: pages with a strict content security policy take it.
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    root.adoptedStyleSheets = [sheet];
    const frame = document.createElement("div");
    root.append(frame);
    frame.className = options.bell || "";
    this.#host.dataset.godwit = "";
    this.#shared = {
      push,
      options,
      root,
      frame,
      words: {},
      failure,
      remember: memoryOf(push.options),
      attach: () => this.#attach(),
    };
  }

  /** Draws what is to be drawn for this visitor and asks, if it is time. What goes wrong is told in the console. */
  async start(): Promise<void> {
    const { push, options } = this.#shared;
    await this.#speak();
    const status = await push.keep().catch((error: unknown): Promise<PushStatus> => {
      this.#shared.wrong = failure(error);
      return push.status();
    });
    const inTheWay = obstacle();
    if (status === "unsupported" && !inTheWay) return;
    if (inTheWay === "insecure") {
      complain(`${location.origin} is not https: browsers give Web Push to https pages and to localhost only`);
    }
    Object.assign(this.#shared, { status, inTheWay });
    this.#attach();
    if (options.bell !== false && !(options.hideBell && status === "subscribed")) this.#drawBell();
    const { visits, later, optedOut } = this.#visit();
    if (options.ask === "none" || optedOut || inTheWay === "insecure") return;
    if (status !== "unsubscribed" && inTheWay !== "homeScreen") return;
    if (visits < (options.visits ?? 1) || Date.now() - later < (options.again ?? 30) * day) return;
    await this.#with((d) => (inTheWay ? d.tell("homeScreen", true) : options.ask === "direct" ? d.attempt() : d.ask()));
  }

  /** Shows the dialog now. */
  ask(): void {
    void this.#speak().then(() => this.#with((d) => d.ask()));
  }

  /** Takes everything off the page. */
  remove(): void {
    this.#host.remove();
    void this.#dialogs?.then((d) => d?.remove());
  }

  /** Learns the page's language, or the browser's where the page does not say its own. */
  async #speak(): Promise<void> {
    const { frame, options } = this.#shared;
    const [language = ""] = (document.documentElement.lang || navigator.language).toLowerCase().split("-");
    let found: PromptTexts | undefined;
    if (/^(de|fr|es|pt|hi)$/.test(language)) {
      // Where it cannot be loaded: English is better than nothing.
      const module = await parts.texts().catch(complain);
      found = module?.texts[language];
    }
    this.#shared.words = { ...found, ...options.texts };
    if (found || !options.texts) frame.lang = found ? language : "en";
    frame.dir = getComputedStyle(document.documentElement).direction;
  }

  #attach(): void {
    if (!this.#host.isConnected) document.body.append(this.#host);
  }

  #visit(): Memory {
    const { remember } = this.#shared;
    const m = remember({});
    const now = Date.now();
    return remember({ visits: m.visits + (now - m.lastSeen < betweenVisits ? 0 : 1), lastSeen: now });
  }

  /** Does something with the dialogs, which are loaded when they are first needed. */
  async #with(work: (d: Dialogs) => unknown): Promise<void> {
    this.#dialogs ??= parts.dialogs().then(
      (m) => m.dialogs(this.#shared),
      (error: unknown) => {
        this.#dialogs = undefined; // they may be there the next time
        complain(error);
        return undefined;
      },
    );
    const d = await this.#dialogs;
    if (d) await work(d);
  }

  #drawBell(): void {
    const bell = document.createElement("button");
    bell.type = "button";
    bell.className = "bell";
    bell.setAttribute("aria-label", this.#shared.words.bell ?? "Notification preferences");
    bell.setAttribute("aria-expanded", "false");
    bell.onclick = () => void this.#with((d) => d.toggle());
    // Made node by node: pages that demand trusted types refuse markup.
    const draw = (name: string) => document.createElementNS("http://www.w3.org/2000/svg", name);
    const svg = draw("svg");
    const path = draw("path");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", bellPath);
    svg.append(path);
    bell.append(svg);
    this.#shared.frame.append(bell);
    this.#shared.bell = bell;
  }
}

/** Tells the site's owner what went wrong, and returns which text the visitor is told. */
function failure(error: unknown): "failed" | "away" | "setup" {
  complain(error);
  const { reason } = error as { reason?: string };
  return !reason ? "failed" : reason === "server" || reason === "service" ? "away" : "setup";
}

/** What is remembered of a visitor, for each app of each server. An earlier version kept one for the whole origin. */
const memoryOf =
  ({ server, app }: { server: string; app: string }) =>
  (change: Partial<Memory>): Memory => {
    const name = `godwit-prompt ${server} ${app}`;
    let m = { visits: 0, lastSeen: 0, later: 0, optedOut: false };
    try {
      Object.assign(m, JSON.parse(localStorage[name] ?? localStorage["godwit-prompt"]));
    } catch {
      // Storage is off, or holds nothing, or what is not ours.
    }
    m = { ...m, ...change };
    try {
      localStorage[name] = JSON.stringify(m);
    } catch {
      // Storage is off: every visit is the first.
    }
    return m;
  };
