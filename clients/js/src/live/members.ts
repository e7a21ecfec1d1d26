// Members of frames, as JSON has them.

import { parseDuration } from "../durations.js";
import { isName } from "../names.js";
import { MemberError } from "./unread.js";

export type Wire = Record<string, unknown>;

export function str(w: Wire, name: string): string {
  const v = w[name] ?? "";
  if (typeof v !== "string") throw new MemberError(name, "is not text");
  return v;
}

export function nameOf(w: Wire, name: string): string {
  const v = str(w, name);
  if (!isName(v)) throw new MemberError(name, "is not a name");
  return v;
}

export function num(w: Wire, name: string): number {
  const v = w[name] ?? 0;
  if (!Number.isInteger(v) || (v as number) < 0) throw new MemberError(name, "is not a whole number in range");
  return v as number;
}

export function flag(w: Wire, name: string): boolean {
  const v = w[name] ?? false;
  if (typeof v !== "boolean") throw new MemberError(name, "is neither true nor false");
  return v;
}

export function list(w: Wire, name: string): string[] {
  const v = w[name] ?? [];
  if (!Array.isArray(v) || !v.every((each) => typeof each === "string")) {
    throw new MemberError(name, "is not a list of texts");
  }
  return v;
}

export const isObject = (v: unknown): v is Wire => typeof v === "object" && v !== null && !Array.isArray(v);

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i;

/** A time; what is absent is 1970. */
export function date(w: Wire, name: string): Date {
  if (w[name] === undefined || w[name] === null) return new Date(0);
  const text = str(w, name);
  const at = new Date(text);
  if (!rfc3339.test(text) || Number.isNaN(at.getTime())) throw new MemberError(name, "is not a time");
  return at;
}

export function duration(w: Wire, name: string, absent: number): number {
  const v = w[name] ?? "";
  if (v === "") return absent;
  const ms = typeof v === "string" || typeof v === "number" ? parseDuration(v) : undefined;
  if (ms === undefined) throw new MemberError(name, "is not a duration");
  return ms;
}
