// The notifications that this browser has received, shared by page and service worker: Deduplicator's rules, kept in
// IndexedDB. A browser that keeps nothing has seen nothing. Ids are those of an app, so each worker's scope has a list of
// its own.

import { addSettled, addShown, type Seen, type SeenState, stateOf } from "../seenlist.js";
import { update } from "./store.js";

const all = async (scope: string): Promise<readonly Seen[]> =>
  (await update<readonly Seen[]>(`seen ${scope}`).catch(() => undefined)) ?? [];

/** What became of a notification here. */
export const seenState = async (scope: string, id?: string): Promise<SeenState> =>
  stateOf(await all(scope), id, Date.now());

/** Keeps what becomes of a notification, if it has an id. */
const note = (add: typeof addShown) => async (scope: string, id?: string) => {
  if (!id) return;
  await update<readonly Seen[]>(`seen ${scope}`, (before = []) => add(before, id, Date.now())).catch(() => {});
};

/** Keeps that it is shown. */
export const noteShown = note(addShown);

/** Keeps that it was acknowledged or recalled. */
export const noteSettled = note(addSettled);

/** The ids that are shown. */
export const held = async (scope: string): Promise<string[]> =>
  (await all(scope)).filter((s) => !s.settled).map((s) => s.id);
