// Frames for programs: notifications, objects, messages and requests.

import { bytesFromBase64, isJSON } from "./encoding.js";
import type { Notification, ServerFrame } from "./frames.js";
import { date, flag, isObject, list, nameOf, num, str, type Wire } from "./members.js";
import { MemberError } from "./unread.js";

/** Headers: a string each, or a list where one repeats. */
function headers(w: Wire): Record<string, string[]> {
  const given = w.headers ?? {};
  if (!isObject(given)) throw new MemberError("headers", "is not an object");
  const entries = Object.entries(given).map(([name, v]) => [name, typeof v === "string" ? [v] : list(given, name)]);
  return Object.fromEntries(entries) as Record<string, string[]>;
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

/** The frames, by their names. */
export const contents: { [key: string]: (w: Wire) => ServerFrame } = {
  notification: (w) => ({ notification: notification(w) }),
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
};
