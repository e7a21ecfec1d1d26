import { button, h, icon, label, say, set } from "./dom.js";
import { Feed } from "./feed.js";
import type { Inbox } from "./inbox.js";
import { parts } from "./parts.js";
import { Row, type RowHost } from "./row.js";
import type { InboxState, InboxTab } from "./types.js";
import { filled, type InboxTexts } from "./words.js";

const tabs: readonly InboxTab[] = ["all", "unread", "archived"];

/** What the panel needs of its element. */
export interface PanelHost extends RowHost {
  readonly inbox: Inbox | undefined;
  /** Whether a site left an element for a place. */
  readonly categories: readonly { id: string; label: string }[];
  readonly channels: readonly string[];
  close(): void;
}

/** Everything behind the bell: the list with its tabs, and the preferences. */
export class Panel {
  readonly element = h("section", { part: "panel", class: "panel", tabindex: "-1", "aria-labelledby": "heading" });
  readonly feed: Feed;
  readonly #heading = h("h2", { id: "heading" });
  readonly #tabs: HTMLButtonElement[];
  readonly #back: HTMLButtonElement;
  readonly #readAll: HTMLButtonElement;
  readonly #settings: HTMLButtonElement;
  readonly #close: HTMLButtonElement;
  readonly #bar = h("div", { part: "tabs", class: "tabs", role: "tablist" });
  readonly #trouble = h("p", { role: "status" });
  readonly #retry: HTMLButtonElement;
  readonly #troubleBar: HTMLElement;
  readonly #rest = h("p");
  readonly #restBox = h("div", { part: "empty", class: "rest" }, h("slot", { name: "empty" }, this.#rest));
  readonly #done = h("p", { role: "status" });
  readonly #undo: HTMLButtonElement;
  readonly #doneBar: HTMLElement;
  #preferences: { element: HTMLElement } | undefined;

  constructor(private readonly host: PanelHost) {
    const inbox = () => this.host.inbox;
    this.#back = button("headtool", "", () => this.list(), icon("back"));
    this.#readAll = button("headtool", "", () => inbox()?.readAll(), icon("readAll"));
    this.#settings = button("headtool", "", () => void this.#prefer(), icon("settings"));
    this.#close = button("headtool close", "", () => host.close(), icon("close"));
    this.#tabs = tabs.map((tab) => this.#tab(tab));
    this.#bar.append(...this.#tabs);
    this.#retry = button("retry", "", () => inbox()?.retry());
    this.#troubleBar = h("div", { part: "trouble", class: "note" }, this.#trouble, this.#retry);
    this.#undo = button("undo", "", () => this.#takeBack());
    this.#doneBar = h("div", { part: "undo-bar", class: "note" }, this.#done, this.#undo);
    this.feed = new Feed({
      make: (item) => new Row(item, host),
      more: () => void inbox()?.more(),
      rest: () => this.element,
    });
    set(this.feed.scroller, "role", "tabpanel");
    set(this.feed.scroller, "id", "list");
    this.feed.scroller.append(this.#restBox);
    const head = h("div", { part: "head", class: "head" }, this.#back, this.#heading, h("slot", { name: "head" }));
    head.append(this.#readAll, this.#settings, this.#close);
    this.element.append(
      head,
      this.#bar,
      this.#troubleBar,
      this.feed.scroller,
      this.#doneBar,
      h("slot", { name: "foot" }),
    );
    this.#bar.addEventListener("keydown", (e) => this.#tabKey(e));
  }

  /** Speaks another language. */
  speak(texts: InboxTexts): void {
    for (const [i, tab] of tabs.entries()) (this.#tabs[i] as HTMLElement).textContent = texts[tab];
    label(this.#back, texts.back);
    label(this.#readAll, texts.readAll);
    label(this.#settings, texts.settings);
    label(this.#close, texts.close);
    say(this.#retry, texts.retry);
    say(this.#undo, texts.undo);
    set(this.#bar, "aria-label", texts.title);
    set(this.feed.feed, "aria-label", texts.title);
    this.feed.redraw();
    if (this.#preferences) this.list();
  }

  /** Draws the inbox as it is. */
  update(s: InboxState): void {
    const { texts } = this.host;
    const at = this.#preferences !== undefined;
    say(this.#heading, at ? texts.settings : texts.title);
    this.#back.hidden = !at;
    this.#readAll.hidden = at || s.unread === 0;
    this.#settings.hidden = at || s.connection === "refused";
    for (const part of [this.#bar, this.feed.scroller]) part.hidden = at;
    for (const [i, tab] of tabs.entries()) {
      const selected = s.tab === tab;
      set(this.#tabs[i] as HTMLElement, "aria-selected", String(selected));
      set(this.#tabs[i] as HTMLElement, "tabindex", selected ? "0" : "-1");
      if (selected) set(this.feed.scroller, "aria-labelledby", (this.#tabs[i] as HTMLElement).id);
    }
    this.#tabs[1]?.setAttribute("data-count", String(s.unread));
    this.#complain(s);
    this.feed.set(s.items, !s.more && !s.loading);
    this.feed.feed.hidden = s.items.length === 0;
    set(this.feed.feed, "aria-busy", String(s.loading));
    this.#restBox.hidden = s.items.length > 0 || (s.error !== undefined && !s.loading);
    const empty = { all: texts.emptyAll, unread: texts.emptyUnread, archived: texts.emptyArchived }[s.tab];
    say(this.#rest, s.loading ? texts.loading : empty);
    this.#doneBar.hidden = !s.undo || at;
    const { undo } = s;
    const did = undo && { archived: texts.didArchive, restored: texts.didRestore, read: texts.didRead }[undo.what];
    say(this.#done, did ? filled(did, { n: undo.count }) : "");
  }

  /** Shows the list, and not the preferences. */
  list(): void {
    if (!this.#preferences) return;
    const focus = this.#preferences.element.contains((this.element.getRootNode() as ShadowRoot).activeElement);
    this.#preferences.element.remove();
    this.#preferences = undefined;
    if (this.host.inbox) this.update(this.host.inbox.state);
    this.feed.draw();
    if (focus || this.#back.hidden) this.#settings.focus();
  }

  #tab(tab: InboxTab): HTMLButtonElement {
    const t = button("tab", "", () => {
      this.host.inbox?.show(tab);
      this.feed.top();
    });
    set(t, "role", "tab");
    set(t, "id", `tab-${tab}`);
    set(t, "aria-controls", "list");
    return t;
  }

  #tabKey(e: KeyboardEvent): void {
    const at = this.#tabs.indexOf(e.target as HTMLButtonElement);
    const forward = getComputedStyle(this.#bar).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const to = e.key === "Home" ? 0 : e.key === "End" ? tabs.length - 1 : e.key === forward ? at + 1 : at - 1;
    if (!/^(Home|End|ArrowLeft|ArrowRight)$/.test(e.key) || at < 0) return;
    e.preventDefault();
    const tab = this.#tabs[(to + tabs.length) % tabs.length];
    tab?.click();
    tab?.focus();
  }

  /** Says what is wrong, if anything. */
  #complain({ connection, error }: InboxState): void {
    const { texts } = this.host;
    const text =
      connection === "refused" ? texts.refused : connection === "offline" ? texts.offline : error ? texts.failed : "";
    this.#troubleBar.hidden = !text;
    say(this.#trouble, text);
    this.#retry.hidden = connection === "refused";
  }

  #takeBack(): void {
    this.host.inbox?.undo();
    this.element.focus(); // the button has gone
  }

  async #prefer(): Promise<void> {
    const { inbox } = this.host;
    if (!inbox || this.#preferences) return;
    const { preferencesPage } = await parts.preferences();
    const page = preferencesPage(inbox, this.host, this.element.getRootNode() as ShadowRoot);
    this.#preferences = page;
    this.update(inbox.state);
    this.feed.scroller.after(page.element);
    this.#back.focus();
  }
}
