// The element <godwit-inbox>: a bell with a badge, and the list behind it.

import type { TokenSource } from "../token.js";
import { h, icon, label, say, set } from "./dom.js";
import { createInbox, type Inbox } from "./inbox.js";
import { Panel } from "./panel.js";
import { parts } from "./parts.js";
import { target, urlOf } from "./read.js";
import { slotted } from "./slots.js";
import { style } from "./style.js";
import type { InboxAction, InboxItem, InboxState } from "./types.js";
import { age } from "./when.js";
import { english, filled, type InboxTexts } from "./words.js";

/** A category on the page of preferences. */
export interface InboxCategory {
  id: string;
  label: string;
}

const attributes = ["app", "recipient", "token", "url", "category", "view"] as const;
/** Properties that a page may have set before the element was defined. */
const properties = ["token", "texts", "row", "categories", "channels"] as const;
/** How often the ages in the list are written anew. */
const minute = 60_000;
const mostOnBadge = 99;

/** On a server, which draws pages without a browser, the element can be imported and is none. */
const Base = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

let home = "";
/** Sets the server of elements that name none. */
export function setHome(url: string): void {
  home = url;
}

/**
 * <godwit-inbox app recipient token url>. Events: godwit-open and godwit-action before something is opened or answered, which
 * preventDefault leaves to the page; godwit-change with the counts; godwit-error.
 */
export class GodwitInbox extends Base {
  static readonly observedAttributes: readonly string[] = attributes;

  readonly #root = this.attachShadow({ mode: "open", delegatesFocus: false });
  readonly #bell = h("button", { type: "button", part: "bell", class: "bell", "aria-haspopup": "dialog" });
  readonly #badge = h("span", { part: "badge", class: "badge", "aria-hidden": "true" });
  readonly #live = h("p", { class: "sr", role: "status" });
  readonly #panel: Panel;
  #inbox: Inbox | undefined;
  #leave: (() => void) | undefined;
  #state: InboxState | undefined;
  #token: TokenSource | undefined;
  #own: Partial<InboxTexts> = {};
  #found: Partial<InboxTexts> = {};
  #language = "en";
  #row: ((item: InboxItem) => Node | undefined) | undefined;
  #categories: readonly InboxCategory[] = [];
  #channels: readonly string[] = ["webpush"];
  #restarting = false;
  #clock: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super();
    // A constructed sheet is no inline style: pages with a strict content security policy take it.
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    this.#root.adoptedStyleSheets = [sheet];
    this.#panel = new Panel(this.#host());
    this.#bell.append(h("slot", { name: "bell" }, icon("bell")), this.#badge);
    this.#root.append(this.#live, this.#bell, this.#panel.element);
    const { element } = this.#panel;
    element.addEventListener("toggle", (e) => this.#toggled((e as ToggleEvent).newState === "open"));
    // The focus goes back to the bell if it was in the list.
    element.addEventListener("beforetoggle", (e) => {
      if ((e as ToggleEvent).newState === "closed" && element.contains(this.#root.activeElement)) this.#bell.focus();
    });
    // Nobody walks about behind the list: where the focus leaves it, it closes.
    this.addEventListener("focusout", ({ relatedTarget: to }) => {
      if (to && to !== this && !this.contains(to as Node)) this.close();
    });
  }

  /** The inbox without its picture; undefined while the element is in no page. */
  get inbox(): Inbox | undefined {
    return this.#inbox;
  }

  /** A token, or a function that gets one; without one, the attribute's. */
  get token(): TokenSource | undefined {
    return this.#token ?? this.getAttribute("token") ?? undefined;
  }

  set token(source: TokenSource | undefined) {
    if (source === this.#token) return;
    this.#token = source;
    this.#restart();
  }

  /** Words in place of those of the page's language. */
  get texts(): Partial<InboxTexts> {
    return this.#own;
  }

  set texts(texts: Partial<InboxTexts> | undefined) {
    this.#own = texts ?? {};
    this.#speak();
  }

  /** Draws an item for a site that has a picture of its own: a node, or undefined for the usual one. */
  get row(): ((item: InboxItem) => Node | undefined) | undefined {
    return this.#row;
  }

  set row(row: ((item: InboxItem) => Node | undefined) | undefined) {
    this.#row = row;
    this.#panel.feed.redraw();
  }

  /** What the page of preferences offers; attribute categories is "promo: Offers, alarm: Alarms". */
  get categories(): readonly InboxCategory[] {
    const named = (this.getAttribute("categories") ?? "").split(",").filter((each) => each.trim());
    return [
      ...this.#categories,
      ...named.map((each) => {
        const [id = "", ...rest] = each.split(":");
        return { id: id.trim(), label: rest.join(":").trim() || id.trim() };
      }),
    ];
  }

  set categories(categories: readonly InboxCategory[] | undefined) {
    this.#categories = categories ?? [];
  }

  /** The channels on the page of preferences; attribute channels is "webpush fcm apns". */
  get channels(): readonly string[] {
    return this.getAttribute("channels")?.split(/[\s,]+/) ?? this.#channels;
  }

  set channels(channels: readonly string[] | undefined) {
    this.#channels = channels ?? ["webpush"];
  }

  /** Opens the list. */
  open(): void {
    if (this.isConnected && !this.#page && !this.#shown) this.#panel.element.showPopover();
  }

  close(): void {
    if (!this.#page && this.#shown) this.#panel.element.hidePopover();
  }

  connectedCallback(): void {
    for (const name of properties) {
      if (!Object.hasOwn(this, name)) continue;
      const value = this[name];
      delete (this as Record<string, unknown>)[name];
      Object.assign(this, { [name]: value });
    }
    document.addEventListener("visibilitychange", this.#look);
    window.addEventListener("resize", this.#put);
    window.addEventListener("scroll", this.#put, { capture: true, passive: true });
    this.#clock = setInterval(() => this.#state && this.#draw(this.#state), minute);
    this.#speak();
    this.#restart();
  }

  disconnectedCallback(): void {
    document.removeEventListener("visibilitychange", this.#look);
    window.removeEventListener("resize", this.#put);
    window.removeEventListener("scroll", this.#put, { capture: true });
    clearInterval(this.#clock);
    this.#leave?.();
    this.#leave = this.#inbox = this.#state = undefined;
  }

  attributeChangedCallback(name: string, before: string | null, now: string | null): void {
    if (before !== now && !(name === "token" && this.#token)) this.#restart();
  }

  get #page(): boolean {
    return this.getAttribute("view") === "page";
  }

  get #shown(): boolean {
    return this.#panel.element.matches(":popover-open");
  }

  get #texts(): InboxTexts {
    return { ...english, ...this.#found, ...this.#own };
  }

  /** Begins anew once all attributes and properties are set. */
  #restart(): void {
    if (this.#restarting || !this.isConnected) return;
    this.#restarting = true;
    queueMicrotask(() => {
      this.#restarting = false;
      if (this.isConnected) this.#start();
    });
  }

  #start(): void {
    this.#leave?.();
    const page = this.#page;
    const { element } = this.#panel;
    this.#bell.hidden = page;
    set(element, "popover", page ? undefined : "auto");
    // A list that opens gets the focus at once; the event that tells of it comes later, and would take the focus back.
    set(element, "autofocus", page ? undefined : "");
    set(element, "role", page ? "region" : "dialog");
    this.#bell.popoverTargetElement = page ? null : element;
    const attribute = (name: string) => this.getAttribute(name) || undefined;
    const url = attribute("url") ?? (home || location.origin);
    const [app, recipient, category] = [attribute("app"), attribute("recipient"), attribute("category")];
    const inbox = createInbox({
      url: new URL(url, location.href),
      app,
      recipient,
      category,
      token: this.token || undefined,
    });
    this.#inbox = inbox;
    this.#state = undefined;
    this.#leave = inbox.subscribe(() => this.#draw(inbox.state));
    this.#draw(inbox.state);
  }

  #draw(s: InboxState): void {
    const before = this.#state;
    this.#state = s;
    const texts = this.#texts;
    this.#badge.hidden = s.unseen === 0;
    say(this.#badge, s.unseen > mostOnBadge ? `${mostOnBadge}+` : String(s.unseen));
    label(this.#bell, s.unseen > 0 ? filled(texts.news, { n: s.unseen }) : texts.title);
    const came = s.unseen - (before?.unseen ?? s.unseen);
    if (came > 0) say(this.#live, filled(texts.came, { n: s.unseen }));
    this.#panel.update(s);
    this.#look();
    if (!before || before.unseen !== s.unseen || before.unread !== s.unread) {
      this.#tell("godwit-change", { unseen: s.unseen, unread: s.unread });
    }
    if (s.error && s.error !== before?.error) this.#tell("godwit-error", { error: s.error });
  }

  /** What is in sight is seen. */
  readonly #look = (): void => {
    const open = this.#page || this.#shown;
    const s = this.#state;
    if (open && s && s.unseen > 0 && !s.loading && document.visibilityState === "visible") void this.#inbox?.seen();
  };

  #toggled(open: boolean): void {
    set(this.#bell, "aria-expanded", String(open));
    if (open) {
      this.#put();
      if (this.#state) this.#panel.update(this.#state);
      this.#look();
    } else {
      this.#inbox?.forgetUndo();
      this.#panel.list();
    }
  }

  /** Puts the list below the bell, or above it, where there is more room, within the window. */
  readonly #put = (): void => {
    if (this.#page || !this.#shown) return;
    const bell = this.#bell.getBoundingClientRect();
    const { style, offsetWidth } = this.#panel.element;
    const edge = 8;
    const below = innerHeight - bell.bottom - 2 * edge;
    const above = bell.top - 2 * edge;
    const up = below < 320 && above > below;
    const rtl = getComputedStyle(this).direction === "rtl";
    // It ends where the bell ends, and begins there where that does not fit.
    const wanted = rtl ? bell.left : bell.right - offsetWidth;
    const x = Math.max(edge, Math.min(wanted, innerWidth - offsetWidth - edge));
    style.setProperty("--room", `${up ? above : below}px`);
    style.setProperty("--x", `${x}px`);
    style.setProperty(
      "--y",
      `${up ? Math.max(edge, bell.top - edge - this.#panel.element.offsetHeight) : bell.bottom + edge}px`,
    );
  };

  /** Learns the page's language, or the browser's where the page does not say its own. */
  #speak(): void {
    const said = (this.closest("[lang]") as HTMLElement | null)?.lang || navigator.language;
    const [language = ""] = said.toLowerCase().split("-");
    const use = (found: Partial<InboxTexts>, as: string) => {
      this.#found = found;
      this.#language = Object.keys(this.#own).length > 0 ? said : as; // dates go with the words
      set(this.#panel.element, "lang", as === said ? undefined : as);
      this.#panel.speak(this.#texts);
      set(this.#live, "lang", as);
      set(this.#bell, "lang", as);
      if (this.#state) this.#draw(this.#state);
    };
    use({}, "en");
    if (!/^(de|fr|es|pt|hi)$/.test(language)) return;
    // Where they cannot be loaded: English is better than nothing.
    parts.texts().then(
      ({ texts }) => use(texts[language] ?? {}, language),
      (error: unknown) => this.#tell("godwit-error", { error }),
    );
  }

  #tell(name: string, detail: unknown): boolean {
    return this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true, cancelable: true }));
  }

  /** Leads to an address, unless the page did so itself. */
  #go(href: string | undefined): void {
    if (href) location.assign(href);
  }

  #host(): ConstructorParameters<typeof Panel>[0] {
    const self = this;
    const href = (url: unknown) => target(url, document.baseURI);
    return {
      get inbox() {
        return self.#inbox;
      },
      get texts() {
        return self.#texts;
      },
      get categories() {
        return self.categories;
      },
      get channels() {
        return self.channels;
      },
      close: () => this.close(),
      when: (at) => age(at, this.#language),
      href: (item) => href(urlOf(item)),
      open: (item, event) => {
        const own = event.type === "click" && (event.composedPath()[0] as Element).closest?.("a");
        if (!this.#tell("godwit-open", { item })) {
          event.preventDefault();
          this.#inbox?.read(item.id);
          return;
        }
        if (!item.readAt) this.#inbox?.read(item.id);
        if (!own) this.#go(href(urlOf(item)));
      },
      act: (item, action: InboxAction) => {
        if (!this.#tell("godwit-action", { item, action })) return;
        this.#inbox?.answer(item.id, action.id);
        this.#go(href(action.url));
      },
      read: (item, read) => this.#inbox?.read(item.id, read),
      archive: (item, archived) => this.#inbox?.archive(item.id, archived),
      pin: (item, pinned) => this.#inbox?.pin(item.id, pinned),
      own: (item) => slotted(this, item, this.#row),
    };
  }
}

/** Makes <godwit-inbox> known to the page. A second copy of the script leaves the first in place. */
export function define(): void {
  if (!customElements.get("godwit-inbox")) customElements.define("godwit-inbox", GodwitInbox);
}

declare global {
  interface HTMLElementTagNameMap {
    "godwit-inbox": GodwitInbox;
  }
}
