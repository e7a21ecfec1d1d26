// The question, and the box that the bell opens: what only some visitors get to see, loaded when they do.

import { dialogStyle } from "./dialogstyle.js";
import { complain, type Obstacle } from "./failure.js";
import type { Memory, PromptOptions, PromptTexts } from "./prompt.js";
import type { Push, PushStatus } from "./subscriber.js";

/** What the prompt shares with its dialogs. After an update, the two may be of different versions for an hour: only add. */
export interface Shared {
  readonly push: Push;
  readonly options: PromptOptions;
  readonly root: ShadowRoot;
  readonly frame: HTMLElement;
  /** In place of the English ones. */
  words: Partial<PromptTexts>;
  bell?: HTMLButtonElement;
  status?: PushStatus;
  inTheWay?: Obstacle | undefined;
  /** What the visitor is told of what went wrong. */
  wrong?: keyof PromptTexts | undefined;
  /** Tells the site's owner what went wrong. */
  failure(error: unknown): keyof PromptTexts;
  remember(change: Partial<Memory>): Memory;
  attach(): void;
}

export interface Dialogs {
  ask(): void;
  /** Says something that is only to be read. later: when that is done, it counts as "not now". */
  tell(text: keyof PromptTexts, later?: boolean): void;
  /** Subscribes without a question of our own. */
  attempt(): Promise<void>;
  /** Opens or closes the box at the bell. */
  toggle(): void;
  remove(): void;
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

export function dialogs(shared: Shared): Dialogs {
  const { push, options, root, frame, remember, failure } = shared;
  const texts: PromptTexts = { ...english, ...shared.words };
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(dialogStyle);
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];

  let dialog: HTMLElement | undefined;
  /** What Escape does to the dialog. */
  let leave = () => {};
  let panel: HTMLElement | undefined;
  let box: HTMLInputElement | undefined;
  let note: HTMLElement | undefined;
  let busy = false;

  const focused = () => root.activeElement !== null;

  /** Escape closes wherever the focus is: the dialog does not take it from the page. */
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    if (panel && !panel.hidden) {
      const inside = focused();
      toggle();
      if (inside) shared.bell?.focus();
    } else if (dialog) leave();
  };

  const notNow = () => remember({ later: Date.now() });

  function closeDialog(): void {
    dialog?.remove();
    dialog = undefined;
  }

  function open(title: string, body: string, ...buttons: HTMLElement[]): HTMLElement {
    closeDialog();
    const words = element("div", "text", heading("godwit-ask", title));
    if (body) words.append(paragraph(body, "godwit-body"));
    dialog = element("div", "box ask", words, element("div", "row", ...buttons));
    describe(dialog, "godwit-ask", body ? "godwit-body" : undefined);
    shared.attach();
    document.addEventListener("keydown", onKey);
    frame.prepend(dialog);
    return dialog;
  }

  function ask(): void {
    if (dialog) return;
    const accept = button(texts.accept, "yes", () => void attempt());
    const later = button(texts.later, "", () => {
      notNow();
      closeDialog();
    });
    const asks = open(texts.title, texts.body, later, accept);
    leave = () => later.click();
    if (!options.icon) return;
    const picture = document.createElement("img");
    picture.src = options.icon;
    picture.alt = "";
    asks.classList.add("pic");
    asks.prepend(picture);
  }

  function tell(text: keyof PromptTexts, later?: boolean): void {
    const close = button(texts.close, "yes", () => {
      if (later) notNow();
      closeDialog();
    });
    open(texts.settings, texts[text], close);
    leave = () => close.click();
  }

  /** The visitor said yes. Where that comes to nothing, the dialog says why. */
  async function attempt(): Promise<void> {
    const wasFocused = focused();
    closeDialog();
    const wrong = await subscribe().catch((error: unknown) => say(failure(error)));
    if (!wrong) return;
    tell(wrong);
    if (wasFocused) dialog?.querySelector("button")?.focus();
  }

  /** Subscribes, and returns what the visitor is to be told. */
  async function subscribe(): Promise<"blocked" | undefined> {
    const status = await push.subscribe();
    if (status === "unsubscribed") notNow();
    if (status === "subscribed") remember({ optedOut: false, later: 0 });
    show(status);
    if (status !== "blocked") return undefined;
    complain(
      `notifications are blocked for ${location.origin}: the visitor allows them in the browser's site settings`,
    );
    return status;
  }

  function draw(): HTMLElement {
    box = document.createElement("input");
    box.type = "checkbox";
    box.addEventListener("change", () => void opt());
    const label = document.createElement("label");
    label.append(box, texts.optIn);
    note = paragraph("", "godwit-note");
    note.className = "note";
    note.setAttribute("role", "status");
    const drawn = element("div", "box panel", heading("godwit-settings", texts.settings), label, note);
    describe(drawn, "godwit-settings");
    drawn.hidden = true;
    shared.bell?.before(drawn);
    show(shared.status ?? "unsubscribed", shared.wrong);
    return drawn;
  }

  function toggle(): void {
    panel ??= draw();
    document.addEventListener("keydown", onKey);
    panel.hidden = !panel.hidden;
    shared.bell?.setAttribute("aria-expanded", String(!panel.hidden));
    if (!panel.hidden) box?.focus();
  }

  /** The visitor changed the opt-in box. */
  async function opt(): Promise<void> {
    if (!box) return;
    const wanted = box.checked;
    if (busy) {
      box.checked = !wanted;
      return;
    }
    busy = true; // not by disabling the box: it would lose the focus
    say();
    try {
      if (wanted) {
        await subscribe();
      } else {
        remember({ optedOut: true }); // first: the visitor may leave the page meanwhile
        await push.unsubscribe();
        show("unsubscribed");
      }
    } catch (error) {
      box.checked = !wanted;
      say(failure(error));
    } finally {
      busy = false;
    }
  }

  function show(status: PushStatus, wrong?: keyof PromptTexts): void {
    shared.status = status;
    if (box) box.checked = status === "subscribed";
    say(wrong ?? (status === "blocked" ? status : shared.inTheWay));
    if (options.hideBell && status === "subscribed") {
      shared.bell?.remove();
      panel?.remove();
    }
  }

  /** Says something in the box at the bell. */
  function say<T extends keyof PromptTexts>(text?: T): T | undefined {
    shared.wrong = text;
    if (note) note.textContent = text ? texts[text] : "";
    return text;
  }

  return { ask, tell, attempt, toggle, remove: () => document.removeEventListener("keydown", onKey) };
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
