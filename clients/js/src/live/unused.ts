// These take the place of parts of the listener in /sdk/inbox.js, which has no use for notifications, objects, topics and
// requests, and takes no frames apart that cannot be read.

import { UndecodableError } from "../errors.js";
import type { Unread } from "./unread.js";

const nothing = (): void => {};

export class Registrations {
  readonly welcomed = nothing;
  readonly take = nothing;
  readonly stop = nothing;
}

export class Topics {
  readonly welcomed = nothing;
  readonly lost = nothing;
  readonly take = nothing;
}

export class Workers extends Topics {
  readonly drain = nothing;
}

export const contents = {};
export const unasked = nothing;
export const checkNumbers = nothing;
export const asked = nothing;
export const cutReason = nothing;

export class MemberError extends Error {
  constructor(name: string, what: string) {
    super(`${name}: ${what}`);
  }
}

export const split = (): { kind: string } => ({ kind: "" });

/** Whoever only watches answers nothing: what cannot be read is passed over. */
export const unread = (reason: string): Unread => ({ error: new UndecodableError(reason), pause: 0 });

/** An inbox need not notice at once that a phone has left the Wi-Fi. */
export function watchNetwork(changed: () => void): () => void {
  addEventListener("online", changed);
  return () => removeEventListener("online", changed);
}

export class Reply {}
export const replyFrame = nothing;
