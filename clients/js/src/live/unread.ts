import { UndecodableError } from "../errors.js";
import { isName } from "../names.js";

/** Stands for a frame that cannot be read. */
export interface Unread {
  error: UndecodableError;
  /** How many milliseconds the server is asked to keep the notification: it doubles with every attempt. */
  pause: number;
}

/** What is wrong with one member of a frame. It quotes nothing of it: the reason ends in logs. */
export class MemberError extends Error {
  constructor(name: string, what: string) {
    super(`${name}: ${what}`);
  }
}

/** A notification that cannot be read may be readable to the next version of the program, but hardly at once. */
const pause = 10_000;
const longestPause = 300_000;

/** Says that a frame cannot be read, whose it is as far as its fields tell, and when to try again. */
export function unread(reason: string, kind = "", w: Record<string, unknown> = {}): Unread {
  if (kind === "object") {
    const group = name(w.group) ?? "";
    const object = name(w.object);
    return { error: new UndecodableError(reason, "", object ? `${group}/${object}` : ""), pause: longestPause };
  }
  const id = kind === "notification" ? name(w.id) : undefined;
  const attempt = Number.isInteger(w.attempt) ? (w.attempt as number) : 0;
  const early = attempt >= 1 && attempt <= 5;
  return { error: new UndecodableError(reason, id ?? ""), pause: early ? pause * 2 ** (attempt - 1) : longestPause };
}

const name = (v: unknown): string | undefined => (typeof v === "string" && isName(v) ? v : undefined);

/** A number this long or with such an exponent may be none that JavaScript has. */
const large = /\d{309}|[eE]\+?\d{3}/;

/** Throws where a number of the value, which was read from the text, has become infinite: nothing is altered silently. */
export function checkNumbers(text: string, value: unknown, member: string): void {
  if (!large.test(text)) return;
  const waiting = [value]; // no recursion: it may be deeper than the stack
  while (waiting.length > 0) {
    const v = waiting.pop();
    if (typeof v === "number" && !Number.isFinite(v)) throw new MemberError(member, "has a number that is too large");
    if (typeof v === "object" && v !== null) for (const inner of Object.values(v)) waiting.push(inner);
  }
}

/**
 * Takes {"name":{…}} apart without looking at values beyond where they end, so that what they say does not matter. Of a
 * frame that breaks off it returns what came before.
 */
export function split(text: string): { kind: string; members: Map<string, string>; whole: boolean } {
  const members = new Map<string, string>();
  const s = new Splitter(text);
  const kind = s.take("{") ? s.name() : undefined;
  if (kind === undefined || !s.take("{")) return { kind: "", members, whole: false };
  const broken = { kind, members, whole: false };
  while (!s.take("}")) {
    const key = s.name();
    const value = key === undefined ? undefined : s.value();
    if (key === undefined || value === undefined) return broken;
    members.set(key, value);
    if (!s.take(",") && s.next() !== "}") return broken;
  }
  return { kind, members, whole: s.take("}") && s.next() === "" };
}

class Splitter {
  private at = 0;

  constructor(private readonly text: string) {}

  /** What comes next; "" at the end. */
  next(): string {
    while (" \t\r\n".includes(this.text[this.at] ?? "x")) this.at++;
    return this.text[this.at] ?? "";
  }

  take(mark: string): boolean {
    if (this.next() !== mark) return false;
    this.at++;
    return true;
  }

  /** Takes a member's name and its colon. */
  name(): string | undefined {
    if (this.next() !== '"') return undefined;
    const end = this.stringEnd(this.at);
    const raw = this.text.slice(this.at, end);
    this.at = end;
    try {
      const read = JSON.parse(raw) as string;
      return this.take(":") ? read : undefined;
    } catch {
      return undefined;
    }
  }

  /** Takes whatever stands up to where it ends. */
  value(): string | undefined {
    this.next();
    const start = this.at;
    let depth = 0;
    for (let i = start; i < this.text.length; i++) {
      const c = this.text[i] as string;
      if (c === '"') i = this.stringEnd(i) - 1;
      else if (c === "{" || c === "[") depth++;
      else if (c === "}" || c === "]" || c === ",") {
        if (depth === 0) {
          this.at = i;
          return this.text.slice(start, i).trim() || undefined;
        }
        if (c !== ",") depth--;
      }
    }
    return undefined;
  }

  /** Where the string that begins there ends; behind the text if it does not. */
  private stringEnd(start: number): number {
    for (let i = start + 1; i < this.text.length; i++) {
      const c = this.text[i];
      if (c === "\\") i++;
      else if (c === '"') return i + 1;
    }
    return this.text.length + 1;
  }
}
