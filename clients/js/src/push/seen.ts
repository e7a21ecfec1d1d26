// Which notifications came to this browser, known to page and service worker alike: the rules are those of Deduplicator,
// the place is IndexedDB.

import { addSettled, addShown, type Seen, type SeenState, stateOf } from "../seenlist.js";
import { get, update } from "./store.js";

/** What became of a notification here. */
export async function seenState(id: string): Promise<SeenState> {
  return stateOf((await get<readonly Seen[]>("seen")) ?? [], id, Date.now());
}

/** Keeps that it is shown. */
export async function noteShown(id: string): Promise<void> {
  await update<readonly Seen[]>("seen", (list = []) => addShown(list, id, Date.now()));
}

/** Keeps that it was acknowledged or recalled, and returns what it was before. */
export async function noteSettled(id: string): Promise<SeenState> {
  const now = Date.now();
  const before = await update<readonly Seen[]>("seen", (list = []) => addSettled(list, id, now));
  return stateOf(before ?? [], id, now);
}

/** The ids that are shown. */
export async function held(): Promise<string[]> {
  const list = (await get<readonly Seen[]>("seen")) ?? [];
  return list.filter((s) => s.settled === undefined).map((s) => s.id);
}
