import { contents } from "./contents.js";
import { date, duration, flag, isObject, list, num, str, type Wire } from "./members.js";
import { checkNumbers, split, type Unread, unread } from "./unread.js";

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
  /** Marks of changed items that have neither come nor gone, at most 10. */
  marked: InboxItemState[];
}

/** What an item of an inbox is. */
export interface InboxItemState {
  id: string;
  seen: boolean;
  read: boolean;
  archived: boolean;
  pinned: boolean;
  /** The id of the action that was chosen; "": none was. */
  answered: string;
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
const marks = (given: unknown): InboxItemState[] =>
  (Array.isArray(given) ? given : []).filter(isObject).map((w) => ({
    id: str(w, "id"),
    seen: flag(w, "seen"),
    read: flag(w, "read"),
    archived: flag(w, "archived"),
    pinned: flag(w, "pinned"),
    answered: str(w, "answered"),
  }));
const counts = (w: Wire): InboxCounts => ({ unseen: num(w, "unseen"), unread: num(w, "unread") });

const readers: { [key: string]: (w: Wire) => ServerFrame } = {
  ...contents,
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
  inbox: (w) => ({
    inbox: { ...counts(w), changed: list(w, "changed"), more: flag(w, "more"), marked: marks(w.marked) },
  }),
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
