import { parseDuration } from "../durations.js";

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
  };
  ack?: { ids: string[] };
  nack?: { ids: string[]; after?: string; reason?: string };
  register?: { objects: string[]; group?: string; reset?: boolean; more?: boolean };
  unregister?: { objects: string[]; group?: string };
  object_ack?: { object: string; group?: string; version: string };
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
  pong?: { digest: string };
  goodbye?: { reason: string; retryAfter: number };
  error?: { code: string; message: string; field: string };
}

type Wire = Record<string, unknown>;

const str = (v: unknown): string => (typeof v === "string" ? v : v === undefined || v === null ? "" : String(v));
const num = (v: unknown): number => Number(v ?? 0);
const list = (v: unknown): string[] => (Array.isArray(v) ? v.map(str) : []);
const date = (v: unknown): Date => new Date(str(v));

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
  const encoded = w[`${name}_base64`];
  const contentType = str(w.content_type);
  if (typeof encoded === "string") return { value: bytesFromBase64(encoded), contentType };
  // The usual type is left out.
  return { value: w[name], contentType: contentType || (w[name] === undefined ? "" : "application/json") };
}

function notification(w: Wire): Notification {
  const { value, contentType } = content(w, "data");
  const n: Notification = {
    id: str(w.id),
    seq: num(w.seq),
    title: str(w.title),
    body: str(w.body),
    category: str(w.category),
    data: value,
    contentType,
    priority: (str(w.priority) || "normal") as Notification["priority"],
    createdAt: date(w.created_at),
    expiresAt: date(w.expires_at),
    attempt: num(w.attempt),
  };
  if (w.reply_by !== undefined) n.replyBy = date(w.reply_by);
  return n;
}

const readers: { [key: string]: (w: Wire) => ServerFrame } = {
  welcome: (w) => ({
    welcome: {
      session: str(w.session),
      app: str(w.app),
      recipient: str(w.recipient),
      heartbeat: parseDuration(str(w.heartbeat)) ?? 30_000,
      digest: str(w.digest),
      registrations: num(w.registrations),
      serverTime: date(w.server_time),
    },
  }),
  notification: (w) => ({ notification: notification(w) }),
  recall: (w) => ({ recall: list(w.ids) }),
  registered: (w) => ({ registered: { objects: list(w.objects), group: str(w.group), digest: str(w.digest) } }),
  registration_failed: (w) => ({
    registrationFailed: {
      objects: list(w.objects),
      group: str(w.group),
      code: str(w.code),
      transient: w.transient === true,
    },
  }),
  object: (w) => {
    const { value, contentType } = content(w, "payload");
    const unknown = w.unknown === true;
    return {
      object: {
        group: str(w.group),
        object: str(w.object),
        version: str(w.version),
        unknown,
        payload: value,
        contentType,
      },
    };
  },
  pong: (w) => ({ pong: { digest: str(w.digest) } }),
  goodbye: (w) => ({ goodbye: { reason: str(w.reason), retryAfter: parseDuration(str(w.retry_after)) ?? 0 } }),
  error: (w) => ({ error: { code: str(w.code), message: str(w.message), field: str(w.field) } }),
};

/** Reads one frame: an object with one key. Throws where it is none. */
export function readFrame(text: string): ServerFrame {
  const parsed: unknown = JSON.parse(text);
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) {
    throw new SyntaxError("a frame is an object with one key");
  }
  const [key, inner] = Object.entries(parsed)[0] ?? ["", undefined];
  const read = Object.hasOwn(readers, key) ? readers[key] : undefined;
  return read && typeof inner === "object" && inner !== null ? read(inner as Wire) : {};
}
