import { MemoryState, type StateStore } from "./live/state.js";
import { addSettled, addShown, remembered, type Seen, stateOf } from "./seenlist.js";

const format = 1;

/** Reads what `write` has written. What cannot be understood is as if nothing had been kept: at worst something is shown twice. */
function read(text: string | undefined): readonly Seen[] {
  if (text === undefined) return [];
  let kept: { format?: unknown; ids?: unknown };
  try {
    kept = JSON.parse(text) as typeof kept;
  } catch {
    return [];
  }
  if (typeof kept !== "object" || kept === null) return [];
  if (typeof kept.format === "number" && kept.format > format) {
    throw new Error("the ids that were seen were kept by a later version of this program");
  }
  return Array.isArray(kept.ids) ? kept.ids.filter(isSeen).slice(-remembered) : [];
}

function isSeen(v: unknown): v is Seen {
  const s = v as Seen | null;
  if (typeof s !== "object" || s === null || typeof s.id !== "string") return false;
  return s.settled === undefined || (typeof s.settled === "string" && !Number.isNaN(Date.parse(s.settled)));
}

/**
 * Remembers the last 500 notifications that came here, so that one which comes over the live connection and by push as
 * well is shown once: ask `seen` before showing and say `shown` afterwards, so that a program that is killed in between
 * shows it after all. It is kept where the store keeps it, before a call returns; in Node that is a `FileState`.
 */
export class Deduplicator {
  private list: readonly Seen[];

  constructor(
    private readonly store: StateStore = new MemoryState(),
    private readonly now: () => number = Date.now,
  ) {
    this.list = read(store.load());
  }

  /** Whether it is shown, or was acknowledged or recalled, and so is not to be shown. */
  seen(id: string): boolean {
    return stateOf(this.list, id, this.now()) !== "new";
  }

  /** Keeps that it is shown. */
  shown(id: string): void {
    this.keep(addShown(this.list, id, this.now()));
  }

  /**
   * Keeps that it was acknowledged or recalled, even if it has not come yet. True: it was shown until now, so take it
   * away, and acknowledge it if it was not recalled.
   */
  settled(id: string): boolean {
    const now = this.now();
    const before = stateOf(this.list, id, now);
    this.keep(addSettled(this.list, id, now));
    return before === "shown";
  }

  /** The ids that are shown: what `held` of a listener wants to know. */
  held(): string[] {
    return this.list.filter((s) => s.settled === undefined).map((s) => s.id);
  }

  private keep(list: readonly Seen[]): void {
    if (list === this.list) return;
    this.store.save(`${JSON.stringify({ format, ids: list })}\n`);
    this.list = list;
  }
}
