import type { InboxAction, InboxItem } from "./types.js";

export interface Counts {
  unseen: number;
  unread: number;
}

export interface Page extends Counts {
  items: InboxItem[];
  /** "": it is the last one. */
  cursor: string;
}

/** An item after a change, and the counts then, as far as the server told them. */
export interface Changed {
  item: InboxItem | undefined;
  counts: Counts | undefined;
}

type Wire = Record<string, unknown>;

const isObject = (v: unknown): v is Wire => typeof v === "object" && v !== null && !Array.isArray(v);
const text = (v: unknown): string => (typeof v === "string" ? v : "");
const time = (v: unknown): Date | undefined => {
  const at = typeof v === "string" ? new Date(v) : undefined;
  return at && !Number.isNaN(at.getTime()) ? at : undefined;
};
const count = (v: unknown): number => (Number.isSafeInteger(v) && (v as number) > 0 ? (v as number) : 0);

/** The counts in an answer, or those of a category in it; undefined: it has none. */
export function readCounts(w: unknown, category = ""): Counts | undefined {
  if (!isObject(w) || !("unread" in w)) return undefined;
  const categories = isObject(w.categories) ? w.categories : {};
  const of = category ? (Object.hasOwn(categories, category) ? categories[category] : undefined) : w;
  return isObject(of) ? { unseen: count(of.unseen), unread: count(of.unread) } : { unseen: 0, unread: 0 };
}

/**
 * Reads a page. An item that is not sound loses what is wrong, and without an id it is left out: it must not take the
 * others along.
 */
export function readPage(w: unknown, category = ""): Page {
  if (!isObject(w) || !Array.isArray(w.items)) throw new Error("the server's answer is no page of an inbox");
  const items = w.items.filter((each) => isObject(each) && text(each.id)).map((each) => readItem(each as Wire));
  return { items, cursor: text(w.next_cursor), ...(readCounts(w, category) ?? { unseen: 0, unread: 0 }) };
}

export const readChanged = (w: unknown, category: string): Changed => ({
  item: isObject(w) && isObject(w.item) ? readItem(w.item) : undefined,
  counts: readCounts(w, category),
});

function readItem(w: Wire): InboxItem {
  return {
    id: text(w.id),
    title: text(w.title),
    body: text(w.body),
    category: text(w.category),
    data: w.data,
    actions: Array.isArray(w.actions)
      ? w.actions
          .filter(isObject)
          .map(readAction)
          .filter(({ id }) => id)
      : [],
    createdAt: time(w.created_at) ?? new Date(0),
    seenAt: time(w.seen_at),
    readAt: time(w.read_at),
    archivedAt: time(w.archived_at),
    pinned: w.pinned === true,
    answered: text(w.answered) || undefined,
  };
}

const readAction = (w: Wire): InboxAction => {
  const url = text(w.url);
  return { id: text(w.id), title: text(w.title) || text(w.id), ...(url ? { url } : {}) };
};

/**
 * The address that a publisher's URL leads to, relative to the page. Only web addresses are: "javascript:" and "data:"
 * would run in the page.
 */
export function target(url: unknown, base: string): string | undefined {
  if (typeof url !== "string" || url === "") return undefined;
  try {
    const { href } = new URL(url, base);
    return /^https?:/.test(href) ? href : undefined;
  } catch {
    return undefined; // it is no address
  }
}

/** What a click on an item opens. */
export const urlOf = ({ data }: InboxItem): unknown => (isObject(data) ? data.url : undefined);
