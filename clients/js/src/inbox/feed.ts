import { h } from "./dom.js";
import type { Row } from "./row.js";
import type { InboxItem } from "./types.js";

/** What a row is taken to be high before it has been drawn. */
const guess = 88;
/** How far beyond its edges the list is drawn. */
const beyond = 400;
/** How many rows before the end more are fetched. */
const early = 8;

/**
 * A list that draws only the rows in sight, and the one with the focus. Rows have any height: each is measured when it is
 * drawn, and what is in sight stays where it is while others become known.
 */
export class Feed {
  readonly scroller = h("div", { part: "list", class: "list" });
  readonly feed = h("div", { class: "feed", role: "feed" });
  #items: readonly InboxItem[] = [];
  #tops: number[] = [0];
  readonly #heights = new Map<string, number>();
  readonly #rows = new Map<string, Row>();
  #currentID: string | undefined; // the row that Tab leads to
  readonly #sizes: ResizeObserver;

  constructor(
    private readonly o: {
      make: (item: InboxItem) => Row;
      more: () => void;
      /** Takes the focus where no row is left. */
      rest: () => HTMLElement;
    },
  ) {
    this.scroller.append(this.feed);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.feed.addEventListener("keydown", (e) => this.#key(e));
    this.feed.addEventListener("focusin", (e) => this.#focused(e.target as Element));
    this.#sizes = new ResizeObserver((entries) => this.#measured(entries));
    this.#sizes.observe(this.scroller);
  }

  /** Draws other items. Rows in sight stay where they are, unless the list is at its beginning. */
  set(items: readonly InboxItem[], whole: boolean): void {
    const before = this.#items;
    const focus = this.#focusedID();
    const was = before.findIndex(({ id }) => id === focus);
    const inSight = was >= 0 && this.#inSight(was);
    const anchor = this.#anchor();
    this.#items = items;
    const known = new Map(items.map((item, at) => [item.id, at]));
    const gone = focus !== undefined && !known.has(focus);
    // The row with the focus goes: its neighbour gets the focus, not the page.
    const to = gone ? neighbour(before, was, known) : focus;
    if (gone || (this.#currentID !== undefined && !known.has(this.#currentID))) this.#currentID = to;
    this.#place(anchor);
    const at = to === undefined ? undefined : known.get(to);
    // It also may have gone elsewhere, to the pinned ones or back: it stays in sight.
    if (at !== undefined && (gone || (inSight && !this.#inSight(at)))) this.#focus(at);
    else if (gone) this.o.rest().focus();
    for (const [id, row] of this.#rows) {
      const place = known.get(id) ?? -1;
      const item = items[place];
      if (item) row.update(item, place + 1, whole ? items.length : -1);
    }
  }

  /** Goes back to the beginning. */
  top(): void {
    this.scroller.scrollTop = 0;
    this.#currentID = undefined;
    this.draw();
  }

  /** Draws the rows anew, as in another language. */
  redraw(): void {
    for (const [id, row] of this.#rows) this.#drop(id, row);
    this.draw();
  }

  /** Draws what is in sight. */
  draw(): void {
    const { scrollTop, clientHeight } = this.scroller;
    if (clientHeight === 0) return; // it is not open
    const from = this.#at(scrollTop - beyond);
    const to = this.#at(scrollTop + clientHeight + beyond);
    const focus = this.#focusedID() ?? this.#currentID;
    const wanted = new Set<string>();
    this.#items.forEach((item, at) => {
      if ((at >= from && at <= to) || item.id === focus) wanted.add(item.id);
    });
    for (const [id, row] of this.#rows) if (!wanted.has(id)) this.#drop(id, row);
    this.#currentID ??= this.#items[0]?.id;
    const active = (this.feed.getRootNode() as ShadowRoot).activeElement as HTMLElement | null;
    let next: Element | null = this.feed.firstElementChild;
    this.#items.forEach((item, at) => {
      if (!wanted.has(item.id)) return;
      const row = this.#rows.get(item.id) ?? this.#make(item, at);
      row.element.style.translate = `0 ${this.#tops[at]}px`;
      row.current(item.id === this.#currentID);
      if (row.element === next) next = next.nextElementSibling;
      else this.feed.insertBefore(row.element, next);
    });
    // An element that is moved loses the focus.
    if (this.feed.contains(active)) active?.focus({ preventScroll: true });
    if (to >= this.#items.length - early) this.o.more();
  }

  #make(item: InboxItem, at: number): Row {
    const row = this.o.make(item);
    row.update(item, at + 1, -1);
    this.#rows.set(item.id, row);
    this.#sizes.observe(row.element);
    return row;
  }

  #drop(id: string, row: Row): void {
    this.#sizes.unobserve(row.element);
    row.remove();
    this.#rows.delete(id);
  }

  /** The row that is at a height. */
  #at(y: number): number {
    let [low, high] = [0, this.#items.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#tops[middle] ?? 0) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The first row in sight, and where it is. At the beginning there is none: what is new is to be seen. */
  #anchor(): { id: string; offset: number } | undefined {
    const { scrollTop } = this.scroller;
    const item = this.#items[this.#at(scrollTop)];
    if (scrollTop < 4 || !item) return undefined;
    return { id: item.id, offset: (this.#tops[this.#at(scrollTop)] ?? 0) - scrollTop };
  }

  /** Places all rows, and scrolls to where the anchor has gone. */
  #place(anchor: { id: string; offset: number } | undefined): void {
    let y = 0;
    this.#tops = this.#items.map(({ id }) => {
      const top = y;
      y += this.#heights.get(id) ?? guess;
      return top;
    });
    this.feed.style.height = `${y}px`;
    const at = anchor ? this.#items.findIndex(({ id }) => id === anchor.id) : -1;
    if (anchor && at >= 0) this.scroller.scrollTop = (this.#tops[at] ?? 0) - anchor.offset;
    this.draw();
  }

  #measured(entries: ResizeObserverEntry[]): void {
    let other = false;
    for (const { target, borderBoxSize } of entries) {
      const id = (target as HTMLElement).dataset.id;
      const height = Math.ceil(borderBoxSize[0]?.blockSize ?? 0); // rows begin at whole pixels, or lines between them vanish
      if (target === this.scroller) other = true;
      else if (id && height > 0 && this.#heights.get(id) !== height) {
        this.#heights.set(id, height);
        other = true;
      }
    }
    if (other) this.#place(this.#anchor());
  }

  #focusedID(): string | undefined {
    const active = (this.feed.getRootNode() as ShadowRoot).activeElement;
    return this.feed.contains(active) ? (active?.closest("[data-id]") as HTMLElement | null)?.dataset.id : undefined;
  }

  #focused(on: Element): void {
    const id = (on.closest("[data-id]") as HTMLElement | null)?.dataset.id;
    if (!id || id === this.#currentID) return;
    this.#currentID = id;
    for (const [each, row] of this.#rows) row.current(each === id);
  }

  #inSight(at: number): boolean {
    const { scrollTop, clientHeight } = this.scroller;
    const top = this.#tops[at] ?? 0;
    return clientHeight === 0 || (top < scrollTop + clientHeight && top + this.#height(at) > scrollTop);
  }

  #height(at: number): number {
    return this.#heights.get(this.#items[at]?.id ?? "") ?? guess;
  }

  /** Gives a row the focus, wherever it is. */
  #focus(at: number): void {
    const item = this.#items[at];
    if (!item) return;
    this.#currentID = item.id;
    const top = this.#tops[at] ?? 0;
    const { scrollTop, clientHeight } = this.scroller;
    const height = this.#height(at);
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) this.scroller.scrollTop = top + height - clientHeight;
    this.draw();
    this.#rows.get(item.id)?.element.focus({ preventScroll: true });
  }

  #key(e: KeyboardEvent): void {
    if (e.altKey || e.ctrlKey || e.metaKey || e.defaultPrevented) return;
    const at = this.#items.findIndex(({ id }) => id === this.#currentID);
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / guess));
    const moves: Record<string, number> = {
      ...{ ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page },
      ...{ Home: 0, End: this.#items.length - 1 },
    };
    const to = moves[e.key];
    if (to === undefined) return;
    e.preventDefault();
    this.#focus(Math.min(Math.max(to, 0), this.#items.length - 1));
  }
}

/** The nearest of the items around a place that is still there. */
function neighbour(items: readonly InboxItem[], at: number, known: ReadonlyMap<string, number>): string | undefined {
  return [...items.slice(at + 1), ...items.slice(0, at).reverse()].find(({ id }) => known.has(id))?.id;
}
