import { parseDuration } from "../durations.js";
import { isName } from "../names.js";
import { checkNumbers, MemberError, split, type Unread, unread } from "./unread.js";

/** One notification as a recipient gets it. */
export interface Notification {
  id: string;
  /** Counts per recipient from 1; gaps are normal. */
  seq: number;
  title: string;
  body: string;
  category: string;
  /** A JSON value, a string or bytes, as contentType says; undefined where there is none. */
  data: unknown;
  contentType: string;
  priority: "high" | "normal" | "low";
  createdAt: Date;
  expiresAt: Date;
  /** 1 for the first delivery. */
  attempt: number;
  /** Until when a reply is awaited, where one is. */
  replyBy?: Date;
}

/** What the server said when a session began. */
export interface Welcome {
  /** Secret: it authorises acknowledgements. */
  session: string;
  app: string;
  recipient: string;
  /** Milliseconds. */
  heartbeat: number;
  digest: string;
  registrations: number;
  serverTime: Date;
  /** Of a recipient with an inbox. */
  inbox?: InboxCounts;
}

/** How many items of an inbox its list was not opened for yet, and how many are unread. */
export interface InboxCounts {
  unseen: number;
  unread: number;
}

/** The inbox changed, here or elsewhere. */
export interface InboxUpdate extends InboxCounts {
  /** The ids of the items that changed. */
  changed: string[];
  /** Others have changed as well. */
  more: boolean;
}

/** The latest state of an object. */
export interface ObjectUpdate {
  group: string;
  object: string;
  /** A whole number up to 2^63-1, as text; "" where none was ever known. */
  version: string;
  /** The server cannot say what the latest version is, only that it is not below this one: fetch the object anew. */
  unknown: boolean;
  payload: unknown;
  contentType: string;
}

/** What was published to a topic. It comes at most once. */
export interface Message {
  topic: string;
  /** A JSON value, a string or bytes, as contentType says; undefined where there is none. */
  data: unknown;
  contentType: string;
}

/** What somebody asks. */
export interface ServedRequest {
  /** Secret: it authorises the answer. */
  id: string;
  subject: string;
  /** Of a request that came through the gateway, as path and query; else "". */
  method: string;
  path: string;
  query: string;
  /** By name; some come more than once. */
  headers: Record<string, string[]>;
  /** A JSON value, a string or bytes, as contentType says; undefined where there is none. */
  data: unknown;
  contentType: string;
  /** An answer that comes later is dropped. */
  deadline: Date;
}

/** Frames to the server: one key each. */
export interface ClientFrame {
  hello?: {
    app?: string | undefined;
    token?: string | undefined;
    recipient?: string | undefined;
    group?: string | undefined;
    device?: string | undefined;
    digest?: string | undefined;
    held?: string[] | undefined;
    window?: number | undefined;
    heartbeat?: string | undefined;
    observe?: boolean | undefined;
  };
  ack?: { ids: string[] };
  nack?: { ids: string[]; after?: string; reason?: string };
  register?: { objects: string[]; group?: string; reset?: boolean; more?: boolean };
  unregister?: { objects: string[]; group?: string };
  object_ack?: { object: string; group?: string; version: string };
  subscribe?: { topics: string[]; queue?: string };
  unsubscribe?: { topics: string[]; queue?: string };
  serve?: { subjects: string[]; queue?: string };
  unserve?: { subjects: string[]; queue?: string };
  reply?: {
    request_id?: string;
    id?: string;
    status?: number;
    headers?: Record<string, string | string[]>;
    content_type?: string;
    data?: unknown;
    data_base64?: string;
  };
  ping?: { digest?: string };
}

/** Frames from the server that this client knows. All keys absent: one of a later server, to be passed over. */
export interface ServerFrame {
  welcome?: Welcome;
  notification?: Notification;
  recall?: string[];
  registered?: { objects: string[]; group: string; digest: string };
  registrationFailed?: { objects: string[]; group: string; code: string; transient: boolean };
  object?: ObjectUpdate;
  message?: Message;
  /** How many messages were dropped before the next. */
  gap?: number;
  request?: ServedRequest;
  pong?: { digest: string };
  goodbye?: { reason: string; retryAfter: number };
  error?: { code: string; message: string; field: string; refused: string[] };
  inbox?: InboxUpdate;
  unread?: Unread;
}

type Wire = Record<string, unknown>;

function str(w: Wire, name: string): string {
  const v = w[name] ?? "";
  if (typeof v !== "string") throw new MemberError(name, "is not text");
  return v;
}

function nameOf(w: Wire, name: string): string {
  const v = str(w, name);
  if (!isName(v)) throw new MemberError(name, "is not a name");
  return v;
}

function num(w: Wire, name: string): number {
  const v = w[name] ?? 0;
  if (!Number.isInteger(v) || (v as number) < 0) throw new MemberError(name, "is not a whole number in range");
  return v as number;
}

function flag(w: Wire, name: string): boolean {
  const v = w[name] ?? false;
  if (typeof v !== "boolean") throw new MemberError(name, "is neither true nor false");
  return v;
}

function list(w: Wire, name: string): string[] {
  const v = w[name] ?? [];
  if (!Array.isArray(v) || !v.every((each) => typeof each === "string")) {
    throw new MemberError(name, "is not a list of texts");
  }
  return v;
}

/** Headers: a string each, or a list where one repeats. */
function headers(w: Wire): Record<string, string[]> {
  const given = w.headers ?? {};
  if (!isObject(given)) throw new MemberError("headers", "is not an object");
  const entries = Object.entries(given).map(([name, v]) => [name, typeof v === "string" ? [v] : list(given, name)]);
  return Object.fromEntries(entries) as Record<string, string[]>;
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i;

/** A time; what is absent is 1970. */
function date(w: Wire, name: string): Date {
  if (w[name] === undefined || w[name] === null) return new Date(0);
  const text = str(w, name);
  const at = new Date(text);
  if (!rfc3339.test(text) || Number.isNaN(at.getTime())) throw new MemberError(name, "is not a time");
  return at;
}

function duration(w: Wire, name: string, absent: number): number {
  const v = w[name] ?? "";
  if (v === "") return absent;
  const ms = typeof v === "string" || typeof v === "number" ? parseDuration(v) : undefined;
  if (ms === undefined) throw new MemberError(name, "is not a duration");
  return ms;
}

const mostVersion = 2n ** 63n - 1n;

/** A version as text; "": none. */
function version(w: Wire): string {
  const v = w.version ?? "";
  const text = typeof v === "number" && Number.isSafeInteger(v) ? String(v) : v;
  if (text === "") return text;
  if (typeof text === "string" && /^\d{1,19}$/.test(text) && BigInt(text) <= mostVersion) return text;
  throw new MemberError("version", "is not a whole number from 1 to 2^63-1");
}

/** Whether a content type is JSON. */
export function isJSON(contentType: string): boolean {
  const base = (contentType.split(";")[0] ?? "").trim();
  return base === "application/json" || base.endsWith("+json");
}

export function bytesFromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export function base64FromBytes(bytes: Uint8Array): string {
  let text = "";
  for (const b of bytes) text += String.fromCharCode(b);
  return btoa(text);
}

/** Reads data or payload: JSON stands as it is, other text is a string, the rest is base64. */
function content(w: Wire, name: string): { value: unknown; contentType: string } {
  const contentType = str(w, "content_type");
  const encoded = w[`${name}_base64`];
  if (encoded !== undefined && encoded !== null) {
    if (typeof encoded !== "string" || encoded.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(encoded)) {
      throw new MemberError(`${name}_base64`, "is not base64");
    }
    return { value: bytesFromBase64(encoded), contentType };
  }
  if (contentType && !isJSON(contentType) && w[name] !== undefined && typeof w[name] !== "string") {
    throw new MemberError(name, "is not text although its content type says so");
  }
  // The usual type is left out.
  return { value: w[name], contentType: contentType || (w[name] === undefined ? "" : "application/json") };
}

function notification(w: Wire): Notification {
  const { value, contentType } = content(w, "data");
  const priority = str(w, "priority");
  const n: Notification = {
    id: nameOf(w, "id"),
    seq: num(w, "seq"),
    title: str(w, "title"),
    body: str(w, "body"),
    category: str(w, "category"),
    data: value,
    contentType,
    priority: priority === "high" || priority === "low" ? priority : "normal", // also one of a later server
    createdAt: date(w, "created_at"),
    expiresAt: date(w, "expires_at"),
    attempt: num(w, "attempt"),
  };
  if (w.reply_by !== undefined && w.reply_by !== null) n.replyBy = date(w, "reply_by");
  return n;
}

const counts = (w: Wire): InboxCounts => ({ unseen: num(w, "unseen"), unread: num(w, "unread") });

const readers: { [key: string]: (w: Wire) => ServerFrame } = {
  welcome: (w) => ({
    welcome: {
      session: str(w, "session"),
      app: str(w, "app"),
      recipient: str(w, "recipient"),
      heartbeat: duration(w, "heartbeat", 30_000),
      digest: str(w, "digest"),
      registrations: num(w, "registrations"),
      serverTime: date(w, "server_time"),
      ...(isObject(w.inbox) ? { inbox: counts(w.inbox) } : {}),
    },
  }),
  inbox: (w) => ({ inbox: { ...counts(w), changed: list(w, "changed"), more: flag(w, "more") } }),
  notification: (w) => ({ notification: notification(w) }),
  recall: (w) => ({ recall: list(w, "ids") }),
  registered: (w) => ({
    registered: { objects: list(w, "objects"), group: str(w, "group"), digest: str(w, "digest") },
  }),
  registration_failed: (w) => ({
    registrationFailed: {
      objects: list(w, "objects"),
      group: str(w, "group"),
      code: str(w, "code"),
      transient: flag(w, "transient"),
    },
  }),
  object: (w) => {
    const { value, contentType } = content(w, "payload");
    const unknown = flag(w, "unknown");
    return {
      object: {
        group: w.group ? nameOf(w, "group") : "",
        object: nameOf(w, "object"),
        version: version(w),
        unknown,
        payload: value,
        contentType,
      },
    };
  },
  message: (w) => {
    if (w.gap) return { gap: num(w, "gap") };
    const { value, contentType } = content(w, "data");
    return { message: { topic: str(w, "topic"), data: value, contentType } };
  },
  request: (w) => {
    const { value, contentType } = content(w, "data");
    return {
      request: {
        id: str(w, "request_id"),
        subject: str(w, "subject"),
        method: str(w, "method"),
        path: str(w, "path"),
        query: str(w, "query"),
        headers: headers(w),
        data: value,
        contentType,
        deadline: date(w, "deadline"),
      },
    };
  },
  pong: (w) => ({ pong: { digest: str(w, "digest") } }),
  goodbye: (w) => ({ goodbye: { reason: str(w, "reason"), retryAfter: duration(w, "retry_after", 0) } }),
  error: (w) => ({
    error: { code: str(w, "code"), message: str(w, "message"), field: str(w, "field"), refused: list(w, "refused") },
  }),
};

/**
 * Reads one frame: an object with one key. It never throws: what cannot be read says so.
 */
export function readFrame(text: string): ServerFrame {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return salvage(text);
  }
  if (!isObject(parsed)) return { unread: unread("frame: is not an object with one key") };
  const [key, inner] = Object.entries(parsed)[0] ?? ["", undefined];
  if (!Object.hasOwn(readers, key)) return {};
  if (!isObject(inner)) return { unread: unread("frame: holds no object") };
  return readMembers(text, key, inner);
}

function readMembers(text: string, key: string, inner: Wire): ServerFrame {
  try {
    checkNumbers(text, [inner.data, inner.payload], inner.payload === undefined ? "data" : "payload");
    return readers[key]?.(inner) ?? {};
  } catch (error) {
    return { unread: unread((error as Error).message, key, inner) };
  }
}

const isObject = (v: unknown): v is Wire => typeof v === "object" && v !== null && !Array.isArray(v);

/** The members that a notification or an object has. */
const members: { [kind: string]: string[] } = {
  notification: [
    ...["id", "attempt", "seq", "title", "body", "category", "content_type", "data", "data_base64"],
    ...["priority", "created_at", "expires_at", "reply_by"],
  ],
  object: ["object", "group", "version", "unknown", "content_type", "payload", "payload_base64"],
};

/**
 * Reads a frame that is not sound as a whole, member by member: what is wrong may be where this client does not look,
 * and if not, there may still be an id to answer with.
 */
function salvage(text: string): ServerFrame {
  const { kind, members: raw, whole } = split(text);
  if (!Object.hasOwn(members, kind)) return { unread: unread("frame: is not JSON") };
  const w: Wire = {};
  let wrong = whole ? "" : "frame: is not JSON";
  for (const name of members[kind] ?? []) {
    const value = raw.get(name);
    if (value === undefined) continue;
    try {
      w[name] = JSON.parse(value);
    } catch {
      wrong = `${name}: is not JSON`;
    }
  }
  return wrong ? { unread: unread(wrong, kind, w) } : readMembers(text, kind, w);
}
