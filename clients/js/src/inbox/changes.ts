import type { GodwitError } from "../errors.js";
import type { InboxChange, InboxItem } from "./types.js";

interface Pending {
  ids: readonly string[];
  change: InboxChange;
  send: () => Promise<void>;
}

/** How long a change that did not reach the server waits, unless the connection comes back before. */
const pause = 5_000;

/**
 * The changes that the person made and the server has not confirmed. They show at once. While the server cannot be reached
 * they wait, in order: each says what is to be, so that sending one twice does no harm.
 */
export class Changes {
  readonly #pending: Pending[] = [];
  #sending = false;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly o: {
      /** A change is on the server: the items are so. */
      done: (ids: readonly string[], change: InboxChange) => void;
      /** The server cannot be reached, or has refused a change, which is taken back. */
      failed: (error: GodwitError) => void;
    },
  ) {}

  add(ids: readonly string[], change: InboxChange, send: () => Promise<void>): void {
    this.#pending.push({ ids, change, send });
    this.flush();
  }

  /** Sends what waits. */
  flush(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    if (!this.#sending) void this.#send();
  }

  stop(): void {
    clearTimeout(this.#retry);
  }

  /** An item as it is to be once all is sent. */
  applied(item: InboxItem): InboxItem {
    let now = item;
    for (const { ids, change } of this.#pending) if (ids.includes(item.id)) now = changed(now, change);
    return now;
  }

  /** Whether an item is to become something else than the server says that it is. */
  differ(item: InboxItem, is: Required<InboxChange>): boolean {
    const { readAt, archivedAt, pinned } = this.applied(item);
    return (
      this.#pending.some(({ ids }) => ids.includes(item.id)) &&
      (!readAt === is.read || !archivedAt === is.archived || pinned !== is.pinned)
    );
  }

  async #send(): Promise<void> {
    this.#sending = true;
    for (let next = this.#pending[0]; next; next = this.#pending[0]) {
      const { ids, change } = next;
      try {
        await next.send();
        this.#pending.shift();
        this.o.done(ids, change);
      } catch (error) {
        const waits = (error as GodwitError).temporary === true;
        if (!waits) this.#pending.shift();
        this.o.failed(error as GodwitError);
        if (waits) {
          this.#retry = setTimeout(() => this.flush(), Math.max(pause, (error as GodwitError).retryAfter));
          break;
        }
      }
    }
    this.#sending = false;
  }
}

/** An item after a change. The first answer stays, and reads it. */
export function changed(item: InboxItem, change: InboxChange): InboxItem {
  const { archived, pinned = item.pinned, answered, read = answered ? true : undefined } = change;
  const set = (to: boolean | undefined, at: Date | undefined) =>
    to === undefined ? at : to ? (at ?? new Date()) : undefined;
  return {
    ...item,
    pinned,
    readAt: set(read, item.readAt),
    archivedAt: set(archived, item.archivedAt),
    answered: item.answered ?? (answered || undefined),
  };
}

/** Whether an item counts as unread. */
export const isUnread = ({ readAt, archivedAt }: InboxItem): boolean => !readAt && !archivedAt;
