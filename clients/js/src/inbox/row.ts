import { button, h, icon, label, say, set } from "./dom.js";
import { swipes } from "./swipe.js";
import type { InboxAction, InboxItem } from "./types.js";
import type { InboxTexts } from "./words.js";

/** What a row can do, and how it speaks. */
export interface RowHost {
  readonly texts: InboxTexts;
  when(at: Date): { text: string; full: string };
  /** Where a click on an item leads. */
  href(item: InboxItem): string | undefined;
  open(item: InboxItem, event: Event): void;
  act(item: InboxItem, action: InboxAction): void;
  read(item: InboxItem, read: boolean): void;
  archive(item: InboxItem, archived: boolean): void;
  pin(item: InboxItem, pinned: boolean): void;
  /** The site's own picture of an item, in its slot. */
  own(item: InboxItem): { update(item: InboxItem): void; remove(): void } | undefined;
}

/** One item in the list. */
export class Row {
  readonly element: HTMLElement;
  #item: InboxItem;
  #drawn: InboxItem | undefined;
  readonly #moving = h("div", { class: "moving" });
  readonly #title = h("h3", { part: "row-title", id: "" });
  readonly #body = h("p", { part: "row-body", dir: "auto" });
  readonly #time = h("time", { part: "row-time", dir: "auto" });
  readonly #pinned = h("span", { class: "pinned" });
  readonly #actions = h("div", { class: "actions" });
  readonly #tools = h("div", { class: "tools" });
  readonly #pinTool: HTMLElement;
  readonly #readTool: HTMLElement;
  readonly #archiveTool: HTMLElement;
  readonly #own: ReturnType<RowHost["own"]>;
  #link: HTMLElement | undefined;

  constructor(
    item: InboxItem,
    private readonly host: RowHost,
  ) {
    this.#item = item;
    const { texts } = host;
    const id = (what: string) => `${what}-${item.id}`;
    this.#title.id = id("title");
    this.#body.id = id("body");
    this.#pinTool = button("tool", texts.pin, () => host.pin(this.#item, !this.#item.pinned), icon("pin"));
    this.#readTool = button("tool", texts.read, () => host.read(this.#item, !this.#item.readAt), icon("read"));
    this.#archiveTool = button(
      "tool",
      texts.archive,
      () => host.archive(this.#item, !this.#item.archivedAt),
      icon("archive"),
    );
    this.#tools.append(this.#pinTool, this.#readTool, this.#archiveTool);
    this.#pinned.append(icon("pin"));
    label(this.#pinned, texts.pinned);
    set(this.#pinned, "role", "img");
    const aside = h("div", { class: "aside" }, this.#pinned, this.#time);
    const slot = h("slot", { name: id("row") }, this.#title, aside, this.#body);
    this.#moving.append(slot, this.#actions, this.#tools);
    this.element = h("article", { class: "row", "data-id": item.id, "aria-labelledby": this.#title.id }, this.#moving);
    set(this.element, "aria-describedby", this.#body.id);
    this.element.addEventListener("click", (e) => this.#click(e));
    this.element.addEventListener("keydown", (e) => this.#key(e));
    swipes(this.element, this.#moving, {
      away: () => host.archive(this.#item, !this.#item.archivedAt),
      back: () => host.read(this.#item, !this.#item.readAt),
    });
    this.#own = host.own(item);
  }

  /** Draws the item as it is now, at its place of so many; -1: of a number that is not known. */
  update(item: InboxItem, place: number, of: number): void {
    set(this.element, "aria-posinset", String(place));
    set(this.element, "aria-setsize", String(of));
    const { text, full } = this.host.when(item.createdAt);
    say(this.#time, text);
    set(this.#time, "title", full);
    if (item === this.#drawn) return;
    const before = this.#drawn;
    this.#item = this.#drawn = item;
    const { texts } = this.host;
    const read = item.readAt !== undefined;
    const archived = item.archivedAt !== undefined;
    this.element.className = `row${read || archived ? "" : " unread"}`;
    set(this.element, "part", read || archived ? "row" : "row row-unread");
    set(this.#time, "datetime", item.createdAt.toISOString());
    say(this.#body, item.body);
    this.#body.hidden = !item.body;
    this.#pinned.hidden = !item.pinned;
    this.#name(item);
    label(this.#pinTool, item.pinned ? texts.unpin : texts.pin);
    set(this.#pinTool, "aria-pressed", String(item.pinned));
    this.#draw(this.#readTool, read ? "unread" : "read", read ? texts.keepUnread : texts.read);
    this.#readTool.hidden = archived;
    this.#draw(this.#archiveTool, archived ? "restore" : "archive", archived ? texts.restore : texts.archive);
    if (before?.answered !== item.answered || !before) this.#drawActions(item);
    this.#own?.update(item);
  }

  /** Whether Tab leads into this row. */
  current(is: boolean): void {
    const index = is ? "0" : "-1";
    if (this.element.getAttribute("tabindex") === index) return;
    set(this.element, "tabindex", index);
    for (const inner of this.#moving.querySelectorAll("a, button")) set(inner, "tabindex", index);
  }

  remove(): void {
    this.#own?.remove();
    this.element.remove();
  }

  /** The title: a link, where the item leads somewhere. */
  #name(item: InboxItem): void {
    const href = this.host.href(item);
    if (!this.#link || (this.#link.localName === "a") !== (href !== undefined)) {
      this.#link = href ? h("a", { dir: "auto" }) : h("button", { type: "button", dir: "auto" });
      this.#title.replaceChildren(this.#link);
    }
    if (href) set(this.#link, "href", href);
    say(this.#link, item.title || item.body || item.category || this.host.texts.open);
  }

  #drawActions(item: InboxItem): void {
    const focus = this.#actions.contains((this.#actions.getRootNode() as ShadowRoot).activeElement);
    const { texts } = this.host;
    const done = item.actions.find(({ id }) => id === item.answered);
    if (item.answered) {
      this.#actions.replaceChildren(
        h("p", { class: "answer" }, icon("read"), h("span", {}, `${texts.answered}: ${done?.title ?? item.answered}`)),
      );
      if (focus) this.element.focus();
    } else {
      this.#actions.replaceChildren(
        ...item.actions.map((action) => button("action", action.title, () => this.host.act(this.#item, action))),
      );
    }
    this.#actions.hidden = item.actions.length === 0;
  }

  #draw(tool: HTMLElement, shape: Parameters<typeof icon>[0], text: string): void {
    if (tool.dataset.shape !== shape) tool.replaceChildren(icon(shape));
    tool.dataset.shape = shape;
    label(tool, text);
  }

  /** A click anywhere opens the item, unless it is on something that does what it does. */
  #click(e: MouseEvent): void {
    const path = e.composedPath();
    const inner = path.slice(0, path.indexOf(this.element)) as Element[];
    const control = inner.find((n) => n instanceof Element && n.matches("a, button, input, select, textarea, label"));
    if (control && control !== this.#link) return;
    if (!control && getSelection()?.type === "Range") return; // text was marked
    this.host.open(this.#item, e);
  }

  #key(e: KeyboardEvent): void {
    if (e.altKey || e.ctrlKey || e.metaKey || e.shiftKey || e.target !== this.element) return;
    const does: Record<string, () => void> = {
      Enter: () => this.host.open(this.#item, e),
      e: () => this.#archiveTool.click(),
      Delete: () => this.#archiveTool.click(),
      u: () => this.#readTool.click(),
      p: () => this.#pinTool.click(),
    };
    const act = does[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }
}
