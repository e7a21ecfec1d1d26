import { type Duration, durationText, parseDuration } from "../durations.js";
import type { RedeliverAfter } from "../errors.js";

/** The server refuses longer ones. */
const maxReasonBytes = 1_000;
/** The longest time a handler can ask for. */
const day = 86_400_000;

/** What a handler asked for, as the server takes it: more than a day is a day, and nonsense leaves it to the server. */
export function asked(e: RedeliverAfter): { after?: string; reason?: string } {
  const ms = typeof e.after === "number" ? e.after : parseDuration(e.after);
  const after = ms === undefined || Number.isNaN(ms) ? {} : { after: redelivery(e.after, ms) };
  return e.why ? { ...after, reason: cutReason(e.why) } : after;
}

function redelivery(given: Duration, ms: number): string {
  if (ms > day) return durationText(day);
  return durationText(ms < 1 ? 1 : given); // none at all would leave it to the server
}

/** A reason that the server takes. */
export function cutReason(text: string): string {
  const bytes = new TextEncoder().encode(text).subarray(0, maxReasonBytes);
  return new TextDecoder().decode(bytes).replace(/\ufffd$/, "");
}
