import type { Duration } from "./durations.js";
import { durationText } from "./durations.js";
import { type GodwitError, problemError } from "./errors.js";
import { base64FromBytes, bytesFromBase64, isJSON } from "./live/encoding.js";
import type { APNs, FCM, LiveActivity } from "./phones.js";
import { ulid } from "./ulid.js";

/** A notification to be published. Only `to` is required. */
export interface Publication {
  /** The recipient: 1 to 128 bytes of A-Za-z0-9._:@+- */
  to: string;
  /**
   * Names the notification; publishing it again to the same recipient while it is pending, and 24 h after it settled,
   * changes nothing. Absent: a ULID is made.
   */
  id?: string;
  title?: string;
  body?: string;
  category?: string;
  /** A JSON value; with a contentType that is not JSON, a string or bytes. */
  data?: unknown;
  contentType?: string;
  /** Default 24 h, most 30 d; counts from sendAt if that is set. */
  ttl?: Duration;
  expiresAt?: Date;
  sendAt?: Date;
  /** An unsettled notification of the same key and recipient is replaced. */
  collapseKey?: string;
  /** With which others it gathers, if its category gathers; else the category's settings say. */
  digestKey?: string;
  priority?: "high" | "normal" | "low";
  ack?: "any" | "all" | "none";
  /** Asks the recipient for an answer, within this time; at most 30 d. The status has it. */
  replyBy?: Duration;
  /**
   * The name of one of the app's templates, whose content it gets in the place of title, body and category. Each variable
   * that the template says without something in its stead must be among `variables`.
   */
  template?: string;
  variables?: Record<string, string | number | boolean>;
  /** BCP 47: in which sessions get the template, and endpoints of no known language. */
  locale?: string;
  /** What happens while nobody acknowledges it, one step after the other. */
  escalate?: Step[];
  /** What phones alone get by these steps. */
  fcm?: FCM;
  apns?: APNs;
  liveActivity?: LiveActivity;
}

/** One step of an escalation. */
export interface Step {
  /** live, which is where all begins, or a push channel. */
  channel: string;
  /** How long after the notification is due, if it is unacknowledged then; not less than that of the step before. */
  after?: Duration;
  /** "shown": it is settled as soon as a device has shown it; else by a click or an acknowledgement. */
  settle?: "shown";
  /** False: what the step has brought stays where it is shown, although the notification was settled elsewhere. */
  withdraw?: boolean;
  /** Of a webhook: the name of an endpoint of the app, in the place of the recipient's. */
  to?: string;
}

/** Says that a notification is on the server's disk, or why it is not. */
export interface Receipt {
  id: string;
  to: string;
  status: string;
  /** It had been published before: nothing was sent again. */
  duplicate: boolean;
  expiresAt?: Date;
  /** This copy was refused. */
  error?: GodwitError;
}

/** What became of one recipient's copy of a notification. */
export interface Status {
  id: string;
  to: string;
  /** scheduled stored delivered acked replied expired replaced recalled failed; for a digest gathered, then digested */
  status: string;
  seq: number;
  createdAt: Date;
  expiresAt: Date;
  sendAt?: Date;
  deliveredAt?: Date;
  settledAt?: Date;
  ackedAt?: Date;
  latencyMs: number;
  attempts: number;
  /** What the recipient answered, where it did. */
  reply?: { status: number; contentType: string; data: unknown };
  /** The digest in which it waits, or into which it went: the id of its notification, and when it leaves at the latest. */
  digest?: { id: string; dueAt: Date };
}

/** The state of an object on the server. */
export interface ObjectState {
  /** A whole number up to 2^63-1, as text. */
  version: string;
  unknown: boolean;
  payload: unknown;
}

/** Writes a publication as the API takes it. The id is made here so that a retry is no second notification. */
export function wirePublication(p: Omit<Publication, "to">, to: string | string[]): Record<string, unknown> {
  const w: Record<string, unknown> = {
    to,
    id: p.id ?? ulid(),
    title: p.title,
    body: p.body,
    category: p.category,
    content_type: p.contentType,
    ttl: p.ttl === undefined ? undefined : durationText(p.ttl),
    expires_at: p.expiresAt?.toISOString(),
    send_at: p.sendAt?.toISOString(),
    collapse_key: p.collapseKey,
    digest_key: p.digestKey,
    priority: p.priority,
    ack: p.ack,
    template: p.template,
    variables: p.variables,
    locale: p.locale,
    fcm: p.fcm,
    apns: p.apns,
    live_activity: p.liveActivity,
    reply_by: p.replyBy === undefined ? undefined : durationText(p.replyBy),
    escalate: p.escalate?.map(({ after, ...step }) => ({
      ...step,
      ...(after === undefined ? {} : { after: durationText(after) }),
    })),
  };
  setData(w, p.data, p.contentType);
  return w;
}

function setData(w: Record<string, unknown>, data: unknown, contentType: string | undefined): void {
  if (data === undefined) return;
  if (data instanceof Uint8Array) {
    w.data_base64 = base64FromBytes(data);
    w.content_type = contentType ?? "application/octet-stream";
    return;
  }
  if (contentType && !isJSON(contentType) && typeof data !== "string") {
    throw new TypeError(`data of content type ${contentType} must be a string or bytes`);
  }
  w.data = data;
}

type Wire = Record<string, unknown>;

const text = (v: unknown): string => (v === undefined || v === null ? "" : String(v));

function dates<K extends string>(w: Wire, names: Record<K, string>): Partial<Record<K, Date>> {
  const out: Partial<Record<K, Date>> = {};
  for (const [name, wire] of Object.entries<string>(names)) {
    if (text(w[wire])) out[name as K] = new Date(text(w[wire])); // null: it has not happened
  }
  return out;
}

export function readReceipt(w: Wire): Receipt {
  const problem = w.error as Parameters<typeof problemError>[0] | undefined;
  return {
    id: text(w.id),
    to: text(w.to),
    status: text(w.status),
    duplicate: w.duplicate === true,
    ...dates(w, { expiresAt: "expires_at" }),
    ...(problem ? { error: problemError(problem, problem.status ?? 0) } : {}),
  };
}

export function readStatus(w: Wire): Status {
  return {
    id: text(w.id),
    to: text(w.to),
    status: text(w.status),
    seq: Number(w.seq ?? 0),
    createdAt: new Date(text(w.created_at)),
    expiresAt: new Date(text(w.expires_at)),
    latencyMs: Number(w.latency_ms ?? 0),
    attempts: Number(w.attempts ?? 0),
    ...(w.reply ? { reply: readReply(w.reply as Wire) } : {}),
    ...(w.digest ? { digest: readDigest(w.digest as Wire) } : {}),
    ...dates(w, { sendAt: "send_at", deliveredAt: "delivered_at", settledAt: "settled_at", ackedAt: "acked_at" }),
  };
}

const readDigest = (w: Wire) => ({ id: text(w.id), dueAt: new Date(text(w.due_at)) });

function readReply(w: Wire): NonNullable<Status["reply"]> {
  const data = typeof w.data_base64 === "string" ? bytesFromBase64(w.data_base64) : w.data;
  return { status: Number(w.status), contentType: text(w.content_type), data };
}

export function readObject(w: Wire): ObjectState {
  return { version: text(w.version), unknown: w.unknown === true, payload: w.payload };
}
