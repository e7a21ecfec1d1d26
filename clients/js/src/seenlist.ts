// The rules by which received notifications are remembered, apart from where the list is kept.

/** One notification that came here, by whatever way. */
export interface Seen {
  id: string;
  /** When it was acknowledged here, or recalled (RFC 3339); absent: it is shown. */
  settled?: string;
}

/** How many are remembered; docs/guides/escalation.md and the other languages say the same. */
export const remembered = 500;

/** An id that was settled may be published anew after a day: the server knows its duplicates for as long. */
const reusable = 86_400_000;

export type SeenState = "new" | "shown" | "settled";

/** What a list, whose newest is last, says of an id. */
export const stateOf = (list: readonly Seen[], id: string | undefined, now: number): SeenState => {
  const found = list.find((s) => s.id === id);
  if (!found) return "new";
  if (!found.settled) return "shown";
  return now < Date.parse(found.settled) + reusable ? "settled" : "new";
};

/** The list with an id that is shown now. What was settled stays so. */
export const addShown = (list: readonly Seen[], id: string, now: number): readonly Seen[] =>
  stateOf(list, id, now) === "new" ? newest(list, { id }) : list;

/** The list with an id that is settled now. */
export const addSettled = (list: readonly Seen[], id: string, now: number): readonly Seen[] =>
  stateOf(list, id, now) === "settled" ? list : newest(list, { id, settled: new Date(now).toISOString() });

const newest = (list: readonly Seen[], s: Seen): Seen[] =>
  [...list.filter((other) => other.id !== s.id), s].slice(-remembered);
