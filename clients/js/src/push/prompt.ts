import { EndpointError } from "./endpoint.js";
import { complain, obstacle, PushError } from "./failure.js";
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

const english: PromptTexts = {
  title: "Do you want to receive notifications?",
  body: "",
  accept: "Continue",
  later: "Not now",
  close: "Close",
  settings: "Notification preferences",
  optIn: "I want to receive notifications",
  blocked: "Notifications are blocked for this site. Allow them in your browser's site settings.",
  failed: "That did not work. Please try again.",
  away: "The notification service cannot be reached just now. Please try again later.",
  setup: "This site cannot send notifications at the moment. It is nothing you did.",
  insecure: "Notifications need a secure connection. Open this page with https.",
  homeScreen: "On iPhone and iPad: tap Share, then Add to Home Screen, and open this site from there.",
  bell: "Notification preferences",
};

/** The module of the other languages, which is loaded when one of them is wanted. */
export interface Translations {
  texts: { [language: string]: PromptTexts };
}

const day = 86_400_000;
const betweenVisits = 1_800_000;
const bellPath =
  "M12 2a1.5 1.5 0 0 0-1.5 1.5v.7A6.5 6.5 0 0 0 5.5 10.5v4L4 17v1h16v-1l-1.5-2.5v-4a6.5 6.5 0 0 0-5-6.3v-.7A1.5 1.5 0 0 0 12 2Zm-2.3 17.5a2.4 2.4 0 0 0 4.6 0Z";

/** What the prompt remembers in localStorage. */
interface Memory {
  visits: number;
  lastSeen: number;
  /** When the visitor said "not now". */
  later: number;
  /** The visitor opted out: never ask by ourselves again. */
  optedOut: boolean;
}

/** Asks visitors whether they want notifications, and lets them change their mind. */
export class Prompt {
  private readonly host = document.createElement("div");
  private readonly root = this.host.attachShadow({ mode: "open" });
  private readonly frame = document.createElement("div");
  private texts: PromptTexts = english;
  private bell: HTMLButtonElement | undefined;
  private panel: HTMLElement | undefined;
  private box: HTMLInputElement | undefined;
  private note: HTMLElement | undefined;
  private dialog: HTMLElement | undefined;
  /** What Escape does to the dialog. */
  private leave = () => {};
  private busy = false;

  constructor(
    private readonly push: Push,
    private readonly o: PromptOptions = {},
    /** Where the words of other languages than English come from, when they are needed. */
    private readonly translations: () => Promise<Translations> = () => import("./texts.js"),
  ) {
    // A constructed sheet is no inline style: pages with a strict content security policy take it.
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    this.root.adoptedStyleSheets = [sheet];
    this.root.append(this.frame);
    this.frame.classList.toggle("left", o.bell === "left");
    this.host.dataset.godwit = "";
  }

  /** Draws what is to be drawn for this visitor and asks, if it is time. What goes wrong is told in the console. */
  async start(): Promise<void> {
    await this.speak();
    let wrong = "";
    const status = await this.push.keep().catch((error: unknown): Promise<PushStatus> => {
      wrong = this.failure(error);
      return this.push.status();
    });
    const inTheWay = obstacle();
    if (status === "unsupported" && !inTheWay) return;
    if (inTheWay === "insecure") {
      complain(`${location.origin} is not https: browsers give Web Push to https pages and to localhost only`);
    }
    this.attach();
    const memory = this.visit();
    if (this.o.bell !== false && !(this.o.hideBell && status === "subscribed")) this.drawBell(status);
    if (wrong) this.say(wrong);
    if (this.o.ask === "none" || memory.optedOut || inTheWay === "insecure") return;
    if (status !== "unsubscribed" && inTheWay !== "homeScreen") return;
    const waited = Date.now() - memory.later >= (this.o.again ?? 30) * day;
    if (memory.visits < (this.o.visits ?? 1) || !waited) return;
    if (inTheWay) this.tell(this.texts.homeScreen, () => this.remember({ later: Date.now() }));
    else if (this.o.ask === "direct") await this.attempt();
    else this.ask();
  }

  /** Shows the dialog now. */
  ask(): void {
    void this.speak().then(() => this.question());
  }

  /** Takes everything off the page. */
  remove(): void {
    this.host.remove();
    document.removeEventListener("keydown", this.onKey);
  }

  /** Learns the page's language, or the browser's where the page does not say its own. */
  private async speak(): Promise<void> {
    const [language = ""] = (document.documentElement.lang || navigator.language).toLowerCase().split("-");
    const found = ["de", "fr", "es", "pt", "hi"].includes(language)
      ? await this.translations().then(
          ({ texts }) => texts[language],
          () => undefined, // it cannot be loaded: English is better than nothing
        )
      : undefined;
    this.texts = { ...english, ...found, ...this.o.texts };
    if (!found && !this.o.texts) this.frame.lang = "en";
    else if (found) this.frame.lang = language;
    this.frame.dir = getComputedStyle(document.documentElement).direction;
  }

  private question(): void {
    if (this.dialog) return;
    const { texts } = this;
    const accept = button(texts.accept, "yes", () => void this.attempt());
    const later = button(texts.later, "", () => {
      this.remember({ later: Date.now() });
      this.closeDialog();
    });
    const dialog = this.open(texts.title, texts.body, later, accept);
    this.leave = () => later.click();
    if (!this.o.icon) return;
    const picture = document.createElement("img");
    picture.src = this.o.icon;
    picture.alt = "";
    dialog.classList.add("pic");
    dialog.prepend(picture);
  }

  /** Says something that is only to be read, in place of the question. */
  private tell(text: string, read: () => void = () => {}): void {
    const close = button(this.texts.close, "yes", () => {
      read();
      this.closeDialog();
    });
    this.open(this.texts.settings, text, close);
    this.leave = () => close.click();
  }

  private open(title: string, body: string, ...buttons: HTMLElement[]): HTMLElement {
    this.closeDialog();
    const words = element("div", "text", heading("godwit-ask", title));
    if (body) words.append(paragraph(body, "godwit-body"));
    this.dialog = element("div", "box ask", words, element("div", "row", ...buttons));
    describe(this.dialog, "godwit-ask", body ? "godwit-body" : undefined);
    this.attach();
    this.frame.prepend(this.dialog);
    return this.dialog;
  }

  private attach(): void {
    if (this.host.isConnected) return;
    document.body.append(this.host);
    document.addEventListener("keydown", this.onKey);
  }

  /** Escape closes wherever the focus is: the dialog does not take it from the page. */
  private readonly onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    if (this.panel && !this.panel.hidden) {
      const inside = this.root.activeElement !== null;
      this.toggle(false);
      if (inside) this.bell?.focus();
    } else if (this.dialog) this.leave();
  };

  /** The visitor said yes. Where that comes to nothing, the dialog says why. */
  private async attempt(): Promise<void> {
    const focused = this.root.activeElement !== null;
    this.closeDialog();
    let text = "";
    try {
      if ((await this.subscribe()) === "blocked") text = this.texts.blocked;
    } catch (error) {
      text = this.failure(error);
      this.say(text);
    }
    if (!text) return;
    this.tell(text);
    if (focused) this.dialog?.querySelector("button")?.focus();
  }

  /** Tells the site's owner what went wrong, and returns what the visitor is told. */
  private failure(error: unknown): string {
    complain(error);
    const reason = error instanceof PushError || error instanceof EndpointError ? error.reason : undefined;
    if (!reason) return this.texts.failed;
    return reason === "server" || reason === "service" ? this.texts.away : this.texts.setup;
  }

  private async subscribe(): Promise<PushStatus> {
    const status = await this.push.subscribe();
    if (status === "unsubscribed") this.remember({ later: Date.now() });
    if (status === "subscribed") this.remember({ optedOut: false, later: 0 });
    if (status === "blocked") {
      complain(
        `notifications are blocked for ${location.origin}: the visitor allows them in the browser's site settings`,
      );
    }
    this.show(status);
    return status;
  }

  private drawBell(status: PushStatus): void {
    this.bell = button("", "bell", () => this.toggle(this.panel?.hidden !== false));
    this.bell.append(bellPicture());
    this.bell.setAttribute("aria-label", this.texts.bell);
    this.bell.setAttribute("aria-expanded", "false");
    this.box = document.createElement("input");
    this.box.type = "checkbox";
    this.box.addEventListener("change", () => void this.opt());
    const label = document.createElement("label");
    label.append(this.box, this.texts.optIn);
    this.note = paragraph("", "godwit-note");
    this.note.className = "note";
    this.note.setAttribute("role", "status");
    this.panel = element("div", "box panel", heading("godwit-settings", this.texts.settings), label, this.note);
    describe(this.panel, "godwit-settings");
    this.panel.hidden = true;
    this.frame.append(this.panel, this.bell);
    this.show(status);
  }

  private toggle(open: boolean): void {
    if (!this.panel || !this.bell) return;
    this.panel.hidden = !open;
    this.bell.setAttribute("aria-expanded", String(open));
    if (open) this.box?.focus();
  }

  /** The visitor changed the opt-in box. */
  private async opt(): Promise<void> {
    if (!this.box) return;
    const wanted = this.box.checked;
    if (this.busy) {
      this.box.checked = !wanted;
      return;
    }
    this.busy = true; // not by disabling the box: it would lose the focus
    this.say("");
    try {
      if (wanted) {
        await this.subscribe();
      } else {
        this.remember({ optedOut: true }); // first: the visitor may leave the page meanwhile
        await this.push.unsubscribe();
        this.show("unsubscribed");
      }
    } catch (error) {
      this.box.checked = !wanted;
      this.say(this.failure(error));
    } finally {
      this.busy = false;
    }
  }

  private show(status: PushStatus): void {
    if (this.box) this.box.checked = status === "subscribed";
    const inTheWay = obstacle();
    this.say(status === "blocked" ? this.texts.blocked : inTheWay ? this.texts[inTheWay] : "");
    if (this.o.hideBell && status === "subscribed") {
      this.bell?.remove();
      this.panel?.remove();
    }
  }

  private say(text: string): void {
    if (this.note) this.note.textContent = text;
  }

  private closeDialog(): void {
    this.dialog?.remove();
    this.dialog = undefined;
  }

  private visit(): Memory {
    const m = this.memory();
    if (Date.now() - m.lastSeen >= betweenVisits) m.visits++;
    m.lastSeen = Date.now();
    return this.remember(m);
  }

  private memory(): Memory {
    const nothing = { visits: 0, lastSeen: 0, later: 0, optedOut: false };
    try {
      return { ...nothing, ...(JSON.parse(localStorage.getItem("godwit-prompt") ?? "{}") as Partial<Memory>) };
    } catch {
      return nothing; // storage is off, or holds what is not ours
    }
  }

  private remember(change: Partial<Memory>): Memory {
    const m = { ...this.memory(), ...change };
    try {
      localStorage.setItem("godwit-prompt", JSON.stringify(m));
    } catch {
      // Storage is off: every visit is the first.
    }
    return m;
  }
}

/** Made node by node: pages that demand trusted types refuse markup. */
function bellPicture(): SVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", bellPath);
  svg.append(path);
  return svg;
}

function element(name: string, className: string, ...children: (Node | string)[]): HTMLElement {
  const e = document.createElement(name);
  e.className = className;
  e.append(...children);
  return e;
}

function button(text: string, className: string, click: () => void): HTMLButtonElement {
  const b = element("button", className, text) as HTMLButtonElement;
  b.type = "button";
  b.addEventListener("click", click);
  return b;
}

function heading(id: string, text: string): HTMLElement {
  const h = element("h2", "", text);
  h.id = id;
  return h;
}

function paragraph(text: string, id: string): HTMLElement {
  const p = element("p", "", text);
  p.id = id;
  return p;
}

function describe(box: HTMLElement, label: string, body?: string): void {
  box.setAttribute("role", "dialog");
  box.setAttribute("aria-labelledby", label);
  if (body) box.setAttribute("aria-describedby", body);
}
