import type { Page } from "./read.js";
import type { InboxItem } from "./types.js";

type Fetch = (cursor: string, limit: number) => Promise<Page>;

/** The server gives no more at once. */
const mostAtOnce = 100;

/** The part of a list that was fetched: from its beginning as far as somebody scrolled. */
export class List {
  items: readonly InboxItem[] = [];
  /** Where the rest begins; "": this is all; undefined: nothing was fetched yet. */
  cursor: string | undefined;

  constructor(
    private readonly fetch: Fetch,
    private readonly pageSize: number,
  ) {}

  /** Fetches what comes after the last item. */
  async more(): Promise<Page> {
    const page = await this.fetch(this.cursor ?? "", this.pageSize);
    const known = new Set(this.items.map(({ id }) => id));
    this.items = [...this.items, ...page.items.filter(({ id }) => !known.has(id))];
    this.cursor = page.cursor;
    return page;
  }

  /**
   * Fetches the beginning anew, as far as the last of the items that changed, and one page at least; changed undefined: any
   * may have. Later items stay. Once it is not wanted any more, nothing is taken.
   */
  async refresh(changed: ReadonlySet<string> | undefined, wanted: () => boolean): Promise<Page> {
    const old = new Map(this.items.map(({ id }, at) => [id, at]));
    const last = changed ? this.items.findLastIndex(({ id }) => changed.has(id)) + 1 : this.items.length;
    const fetched = new Map<string, InboxItem>();
    let goal = Math.max(last, this.pageSize);
    let page: Page;
    let cursor = "";
    do {
      page = await this.fetch(cursor, Math.min(mostAtOnce, goal - fetched.size));
      for (const item of page.items) {
        if (!old.has(item.id) && !fetched.has(item.id) && last > 0) goal++; // it has pushed the others down
        fetched.set(item.id, item);
      }
      cursor = page.cursor;
    } while (cursor && fetched.size < goal && wanted());
    if (!wanted()) return page;
    const until = Math.max(-1, ...[...fetched.keys()].map((id) => old.get(id) ?? -1));
    const rest = cursor && changed && until >= 0 ? this.items.slice(until + 1) : [];
    const kept = rest.filter(({ id }) => !fetched.has(id) && !changed?.has(id));
    this.items = [...fetched.values(), ...kept];
    if (kept.length === 0) this.cursor = cursor;
    return page;
  }
}
