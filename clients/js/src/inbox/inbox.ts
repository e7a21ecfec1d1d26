import { RefusedError } from "../errors.js";
import type { InboxUpdate } from "../live/frames.js";
import { Listener } from "../live/listener.js";
import { platformSocket } from "../live/socket.js";
import { Changes, changed, isUnread } from "./changes.js";
import { List } from "./list.js";
import type { Counts, Page } from "./read.js";
import { InboxServer } from "./server.js";
import type {
  InboxChange,
  InboxItem,
  InboxOptions,
  InboxPreferences,
  InboxState,
  InboxTab,
  InboxUndo,
} from "./types.js";

const defaultPage = 30;
/** How many pinned items stand at the beginning. */
const mostPinned = 100;
/** Of how many items an update tells the marks at most. */
const mostMarked = 10;
/** How often the server is asked while there is no live connection. */
const askAgain = 30_000;

/** Makes the inbox of a recipient; it connects once somebody subscribes to it. */
export const createInbox = (options: InboxOptions): Inbox => new Inbox(options);

/**
 * A recipient's inbox without a picture of it: the list, the counts, and what a person does with them. While there are
 * subscribers it is kept current over a live connection, which acknowledges nothing by itself.
 */
export class Inbox {
  readonly #server: InboxServer;
  readonly #changes: Changes;
  readonly #watchers = new Set<() => void>();
  readonly #pageSize: number;
  #list: List;
  #pinned: readonly InboxItem[] = []; // wherever they are in the list
  #current: InboxState;
  #counts: Counts = { unseen: 0, unread: 0 };
  #inverse: { ids: string[]; change: InboxChange } | undefined; // what undo does
  #who: string | undefined;
  #listener: Listener | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #turn = 0; // goes up with whatever makes an answer under way an old one
  #work: Promise<void> = Promise.resolve(); // what is being fetched
  #refreshing = false;
  #appending = false;
  #stale: Set<string> | "all" | undefined; // what is to be fetched anew
  #pinsStale = true; // and so is what is pinned

  constructor(private readonly o: InboxOptions) {
    this.#server = new InboxServer(o);
    this.#pageSize = Math.min(Math.max(Math.trunc(o.pageSize ?? defaultPage), 1), 100);
    this.#who = o.recipient;
    this.#changes = new Changes({
      done: (ids, change) => {
        this.#each((item) => (ids.includes(item.id) ? changed(item, change) : item));
        this.#set({});
      },
      failed: (error) => {
        this.#set({
          error,
          ...(error.temporary && this.state.connection !== "refused" ? { connection: "offline" } : {}),
        });
        if (!error.temporary) this.#refresh("all");
      },
    });
    const { tab = "all", category = "" } = o;
    this.#list = this.#fresh(tab, category);
    this.#current = {
      ...{ unseen: 0, unread: 0, tab, category, items: [], more: false, loading: true, error: undefined },
      ...{ connection: "connecting", undo: undefined },
    };
  }

  /** Everything that is to be shown now. */
  get state(): InboxState {
    return this.#current;
  }

  /** The recipient; undefined until the server has said who it is. */
  get recipient(): string | undefined {
    return this.#who;
  }

  /** Calls back after every change, until the function that it returns is called. The first subscriber makes it connect. */
  readonly subscribe = (watcher: () => void): (() => void) => {
    const each = () => watcher(); // the same function may subscribe twice
    this.#watchers.add(each);
    this.#start();
    return () => {
      this.#watchers.delete(each);
      // Frameworks subscribe again at once: the connection stays.
      setTimeout(() => this.#watchers.size === 0 && this.#stop());
    };
  };

  /** The same as `state`, for what takes a function: useSyncExternalStore. */
  readonly getState = (): InboxState => this.#current;

  /** Shows another list. */
  show(tab: InboxTab, category = this.state.category): void {
    this.#list = this.#fresh(tab, category);
    this.#work = Promise.resolve(); // whoever still fetches the other one does so for nothing
    this.#refreshing = this.#appending = false;
    this.#set({ tab, category, loading: true, error: undefined });
    this.#refresh("all");
  }

  /** Fetches what comes after the last item. */
  async more(): Promise<void> {
    const list = this.#list;
    if (this.#appending || !this.state.more) return this.#work;
    this.#appending = true;
    this.#set({ loading: true });
    return this.#inTurn(async () => {
      const turn = this.#turn;
      let failed: Error | undefined;
      const page = await list.more().catch((error: Error) => {
        failed = error;
        return undefined;
      });
      if (list !== this.#list) return;
      this.#appending = false;
      if (page) this.#took(page, turn);
      this.#set({ loading: false, ...(failed ? { error: failed } : {}) });
    });
  }

  /** Fetches the list anew, as after an error. */
  retry(): void {
    this.#changes.flush();
    this.#refresh("all");
  }

  /** Says that the list was opened: nothing in it is new any more. */
  async seen(): Promise<void> {
    if (this.state.unseen === 0) return;
    this.#turn++; // an answer under way does not know it yet
    this.#took({ ...this.#counts, unseen: 0 });
    const counts = await this.#server.all("seen", this.state.category).catch(() => undefined); // the next time, then
    this.#turn++;
    if (counts) this.#took(counts);
  }

  read(id: string, read = true): void {
    const answers = !this.#find(id)?.actions.length; // a question is over when it is answered
    this.#change([id], { read }, undefined, () => read && answers && this.#listener?.ack([id]));
  }

  archive(id: string, archived = true): void {
    this.#change([id], { archived }, { what: archived ? "archived" : "restored", count: 1 });
  }

  pin(id: string, pinned = true): void {
    this.#change([id], { pinned });
  }

  /** Marks everything as read, also what was not fetched. It can be taken back where all of it was. */
  readAll(): void {
    const unread = this.state.items.filter(isUnread);
    const ids = unread.map(({ id }) => id);
    const before = this.state.unread;
    const settled = unread.filter(({ actions }) => actions.length === 0).map(({ id }) => id);
    this.#changes.add(ids, { read: true }, async () => {
      const counts = await this.#server.all("read", this.state.category);
      if (counts) this.#took(counts);
      this.#listener?.ack(settled);
      this.#refresh("all");
    });
    this.#undoable(
      ids,
      { read: false },
      before === ids.length && before > 0 ? { what: "read", count: before } : undefined,
    );
  }

  /** Presses a button of an item, which answers the notification and reads the item. */
  answer(id: string, action: string): void {
    if (!this.#find(id)?.actions.some((each) => each.id === action))
      throw new RangeError(`item ${id} has no action ${action}`);
    this.#change([id], { answered: action });
  }

  /** Takes back what the state's `undo` names. */
  undo(): void {
    const inverse = this.#inverse;
    this.#undoable([], {}, undefined);
    for (const id of inverse?.ids ?? []) this.#change([id], inverse?.change ?? {});
  }

  /** Forgets what could be taken back. */
  forgetUndo(): void {
    this.#undoable([], {}, undefined);
  }

  async preferences(): Promise<InboxPreferences> {
    return this.#server.preferences(await this.#name());
  }

  async setPreferences(preferences: InboxPreferences): Promise<void> {
    return this.#server.setPreferences(await this.#name(), preferences);
  }

  async #name(): Promise<string> {
    if (!this.#who) throw new Error("the server has not said yet whose inbox this is");
    return this.#who;
  }

  #find(id: string): InboxItem | undefined {
    return this.state.items.find((item) => item.id === id);
  }

  #fresh(tab: InboxTab, category: string): List {
    return new List((cursor, limit) => this.#server.list(tab, category, cursor, limit), this.#pageSize);
  }

  #change(ids: string[], change: InboxChange, undo?: InboxUndo, sent?: () => void): void {
    this.#changes.add(ids, change, async () => {
      for (const id of ids) {
        const { counts, item } = await this.#server.change(id, change, this.state.category);
        if (item) this.#each((old) => (old.id === id ? item : old));
        if (counts) this.#took(counts);
      }
      sent?.();
    });
    if (undo) this.#undoable(ids, { archived: !change.archived }, undo);
    else this.#set({});
  }

  #undoable(ids: string[], change: InboxChange, undo: InboxUndo | undefined): void {
    this.#inverse = undo ? { ids, change } : undefined;
    this.#set({ undo });
  }

  #start(): void {
    if (this.#listener) return;
    const { app, recipient, token, webSocket: open = platformSocket } = this.o;
    const connection = { url: this.#server.connect, app, token, open };
    this.#listener = new Listener(connection, recipient, () => {}, {
      observe: true,
      onConnect: (w) => {
        this.#who = w.recipient;
        if (w.inbox) this.#told(w.inbox);
        this.#set({ connection: "live" });
        this.#changes.flush();
        this.#refresh("all"); // something may have been missed
      },
      onDisconnect: (_, retry) => this.#set({ connection: retry > 0 ? "offline" : "connecting" }),
      onInbox: (update) => this.#updated(update),
      onHandlerError: (error) => this.#set({ error: error as Error }),
    });
    this.#listener.done.catch((error: unknown) => {
      if (error instanceof RefusedError) this.#set({ connection: "refused", error });
    });
    this.#timer = setInterval(() => this.#ask(), askAgain);
    globalThis.addEventListener?.("offline", this.#offline);
    globalThis.addEventListener?.("online", this.#ask);
    globalThis.document?.addEventListener("visibilitychange", this.#ask);
    this.#refresh("all");
  }

  /** Something has changed, here or elsewhere. What was only marked need not be fetched. */
  #updated({ changed: ids, more, marked, ...counts }: InboxUpdate): void {
    const marks = new Map(marked.map((m) => [m.id, m]));
    const known = new Set([...this.#list.items, ...this.#pinned].map(({ id }) => id));
    const whole = more || ids.length === 0;
    let sure = !whole && !this.state.category && ids.every((id) => marks.has(id) && known.has(id));
    if (marked.some(({ id }) => known.has(id))) {
      this.#each((item) => {
        const m = marks.get(item.id);
        if (!m) return item;
        if (this.#changes.differ(item, m)) sure = false; // who was the last is not known
        return { ...changed(item, m), seenAt: m.seen ? (item.seenAt ?? new Date()) : undefined };
      });
    }
    this.#told(counts);
    if (sure) return;
    const pins = this.#pinned.some(({ id }) => ids.includes(id)) || marked.some(({ id }) => !known.has(id));
    this.#refresh(whole ? "all" : new Set(ids), pins || marked.length >= mostMarked);
  }

  /** Replaces items that were fetched. What is being fetched does not know it yet. */
  #each(become: (item: InboxItem) => InboxItem): void {
    this.#turn++;
    this.#list.items = this.#list.items.map(become);
    this.#pinned = this.#pinned.map(become);
  }

  #stop(): void {
    void this.#listener?.close();
    this.#listener = undefined;
    this.#changes.stop();
    clearInterval(this.#timer);
    globalThis.removeEventListener?.("offline", this.#offline);
    globalThis.removeEventListener?.("online", this.#ask);
    globalThis.document?.removeEventListener("visibilitychange", this.#ask);
    this.#set({ connection: "connecting" });
  }

  readonly #offline = (): void => this.#set({ connection: "offline" });

  /** Asks the server where no live connection says what is new. */
  readonly #ask = (): void => {
    if (this.#listener?.connected || globalThis.document?.visibilityState === "hidden") return;
    this.#changes.flush();
    this.#refresh("all");
  };

  /** Fetches anew what has changed, once what is being fetched has come. */
  #refresh(which: ReadonlySet<string> | "all", pins = true): void {
    this.#pinsStale ||= pins || which === "all";
    const more = this.#stale;
    this.#stale = which === "all" || more === "all" ? "all" : new Set([...(more ?? []), ...which]);
    if (this.#refreshing) return;
    this.#refreshing = true;
    const list = this.#list;
    void this.#inTurn(async () => {
      while (this.#stale && list === this.#list) await this.#refreshOnce(list);
      if (list === this.#list) this.#refreshing = false;
    });
  }

  async #refreshOnce(list: List): Promise<void> {
    const turn = this.#turn;
    const stale = this.#stale;
    const pins = this.#pinsStale && this.state.tab === "all";
    this.#stale = undefined;
    this.#pinsStale = false;
    const wanted = () => list === this.#list && turn === this.#turn;
    let failed: Error | undefined;
    const [page, pinned] = await Promise.all([
      list.refresh(stale === "all" ? undefined : stale, wanted),
      pins ? this.#server.list("pinned", this.state.category, "", mostPinned) : undefined,
    ]).catch((error: Error) => {
      failed = error;
      return [];
    });
    if (!wanted()) {
      this.#refresh(stale ?? "all", pins); // something has changed meanwhile: once more
    } else {
      if (pinned) this.#pinned = pinned.items;
      if (page) this.#took(page);
      this.#set({ error: failed, loading: this.#appending, ...(page ? this.#reached() : {}) });
    }
  }

  /** One after the other fetches. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#work = this.#work.then(work);
    return this.#work;
  }

  /** The server answers, so nobody is offline. */
  #reached(): Partial<InboxState> {
    if (this.state.connection === "refused") return {};
    return { connection: this.#listener?.connected ? "live" : "connecting" };
  }

  /** Takes the counts of the whole inbox. Those of a category come with its list. */
  #told(counts: Counts): void {
    if (!this.state.category) this.#took(counts);
  }

  /** Takes the counts that the server told, unless something has changed since it was asked. */
  #took(counts: Counts | Page, turn = this.#turn): void {
    if (turn === this.#turn) this.#counts = { unseen: counts.unseen, unread: counts.unread };
    this.#set({});
  }

  /** The items of the list that were fetched, with those that are pinned although the list was not fetched so far. */
  #known(tab: InboxTab): readonly InboxItem[] {
    const { items } = this.#list;
    const fetched = new Set(items.map(({ id }) => id));
    return tab === "all"
      ? [...items, ...this.#pinned.filter((p) => !fetched.has(p.id) && this.#changes.applied(p).pinned)]
      : items;
  }

  /** Makes the next state: what the server told, with the changes that it has not confirmed. */
  #set(more: Partial<InboxState>): void {
    const { tab } = { ...this.#current, ...more };
    const { unseen, unread } = this.#counts;
    let less = 0;
    const top: InboxItem[] = [];
    const items: InboxItem[] = [];
    for (const known of this.#known(tab)) {
      const item = this.#changes.applied(known);
      if (isUnread(known) !== isUnread(item)) less += isUnread(known) ? 1 : -1;
      if (belongs(item, tab)) (item.pinned && tab === "all" ? top : items).push(item);
    }
    items.unshift(...top.sort((a, b) => Number(b.createdAt) - Number(a.createdAt)));
    const cursor = this.#list.cursor;
    this.#current = { ...this.#current, unseen, unread: Math.max(0, unread - less), items, more: !!cursor, ...more };
    for (const watcher of [...this.#watchers]) watcher();
  }
}

const belongs = (item: InboxItem, tab: InboxTab): boolean =>
  tab === "unread" ? isUnread(item) : (tab === "archived") === (item.archivedAt !== undefined);
