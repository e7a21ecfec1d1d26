import { style } from "./style.js";
import type { Push, PushStatus } from "./subscriber.js";

/** What the visitor reads. */
export interface PromptTexts {
  title: string;
  body: string;
  accept: string;
  later: string;
  settings: string;
  optIn: string;
  blocked: string;
  failed: string;
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
  texts?: Partial<PromptTexts>;
}

const english: PromptTexts = {
  title: "Do you want to receive notifications?",
  body: "",
  accept: "Continue",
  later: "Not now",
  settings: "Notification preferences",
  optIn: "I want to receive notifications",
  blocked: "Notifications are blocked for this site. Allow them in your browser's site settings.",
  failed: "That did not work. Please try again.",
  bell: "Notification preferences",
};

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
  private readonly texts: PromptTexts;
  private bell: HTMLButtonElement | undefined;
  private panel: HTMLElement | undefined;
  private box: HTMLInputElement | undefined;
  private note: HTMLElement | undefined;
  private dialog: HTMLElement | undefined;
  private busy = false;

  constructor(
    private readonly push: Push,
    private readonly o: PromptOptions = {},
  ) {
    this.texts = { ...english, ...o.texts };
    // A constructed sheet is no inline style: pages with a strict content security policy take it.
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    this.root.adoptedStyleSheets = [sheet];
    this.root.append(this.frame);
    this.frame.classList.toggle("left", o.bell === "left");
    this.host.dataset.godwit = "";
  }

  /** Draws what is to be drawn for this visitor and asks, if it is time. */
  async start(): Promise<void> {
    const status = await this.push.keep().catch((): Promise<PushStatus> => this.push.status());
    if (status === "unsupported") return;
    document.body.append(this.host);
    const memory = this.visit();
    if (this.o.bell !== false && !(this.o.hideBell && status === "subscribed")) this.drawBell(status);
    if (status !== "unsubscribed" || this.o.ask === "none" || memory.optedOut) return;
    const waited = Date.now() - memory.later >= (this.o.again ?? 30) * day;
    if (memory.visits < (this.o.visits ?? 1) || !waited) return;
    if (this.o.ask === "direct") await this.subscribe().catch(() => {});
    else this.ask();
  }

  /** Shows the dialog now. */
  ask(): void {
    if (this.dialog) return;
    const { texts } = this;
    const accept = button(texts.accept, "yes", () => {
      this.closeDialog();
      void this.subscribe().catch(() => this.say(texts.failed));
    });
    const later = button(texts.later, "", () => {
      this.remember({ later: Date.now() });
      this.closeDialog();
    });
    const words = element("div", "text", heading("godwit-ask", texts.title));
    if (texts.body) words.append(paragraph(texts.body, "godwit-body"));
    this.dialog = element("div", "box ask", words, element("div", "row", later, accept));
    describe(this.dialog, "godwit-ask", texts.body ? "godwit-body" : undefined);
    if (this.o.icon) {
      const picture = document.createElement("img");
      picture.src = this.o.icon;
      picture.alt = "";
      this.dialog.classList.add("pic");
      this.dialog.prepend(picture);
    }
    onEscape(this.dialog, () => later.click());
    if (!this.host.isConnected) document.body.append(this.host);
    this.frame.prepend(this.dialog);
  }

  /** Takes everything off the page. */
  remove(): void {
    this.host.remove();
  }

  private async subscribe(): Promise<PushStatus> {
    const status = await this.push.subscribe();
    if (status === "unsubscribed") this.remember({ later: Date.now() });
    if (status === "subscribed") this.remember({ optedOut: false, later: 0 });
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
    onEscape(this.panel, () => {
      this.toggle(false);
      this.bell?.focus();
    });
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
    } catch {
      this.box.checked = !wanted;
      this.say(this.texts.failed);
    } finally {
      this.busy = false;
    }
  }

  private show(status: PushStatus): void {
    if (this.box) this.box.checked = status === "subscribed";
    this.say(status === "blocked" ? this.texts.blocked : "");
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

function onEscape(box: HTMLElement, act: () => void): void {
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") act();
  });
}
