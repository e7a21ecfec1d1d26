// Which notifications came to this browser, known to page and service worker alike: the rules are those of Deduplicator,
// the place is IndexedDB. A browser that keeps nothing has seen nothing.

import { addSettled, addShown, type Seen, type SeenState, stateOf } from "../seenlist.js";
import { update } from "./store.js";

const all = async (): Promise<readonly Seen[]> => (await update<readonly Seen[]>("seen").catch(() => undefined)) ?? [];

/** What became of a notification here. */
export const seenState = async (id: string | undefined): Promise<SeenState> => stateOf(await all(), id, Date.now());

/** Keeps what becomes of a notification, if it has an id. */
const note = (add: typeof addShown) => async (id: string | undefined) => {
  if (id) await update<readonly Seen[]>("seen", (list = []) => add(list, id, Date.now())).catch(() => {});
};

/** Keeps that it is shown. */
export const noteShown = note(addShown);

/** Keeps that it was acknowledged or recalled. */
export const noteSettled = note(addSettled);

/** The ids that are shown. */
export const held = async (): Promise<string[]> => (await all()).filter((s) => !s.settled).map((s) => s.id);
