import { base64FromBytes, isJSON } from "./encoding.js";
import type { ClientFrame } from "./frames.js";

/** Bytes of the answer to a request, and of one to a notification. */
export const maxBody = 1 << 20;
export const maxReply = 64 << 10;

const maxHeaders = 16 << 10; // all names and values together
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what a header may not have
const control = /[\x00-\x08\x0a-\x1f\x7f]/;

export interface ReplyOptions {
  /** 200 to 599; default 200. */
  status?: number;
  /** Values, or lists of them for headers that repeat. An answer to a notification has none. */
  headers?: Record<string, string | string[]>;
  contentType?: string;
}

/**
 * Answers a request, or a notification that asked for a reply. Bytes are sent as they are, and strings with a content type
 * that is not JSON; all else is sent as JSON. At most 1 MiB, to a notification 64 KB.
 */
export class Reply {
  constructor(
    readonly data?: unknown,
    readonly options: ReplyOptions = {},
  ) {}
}

type Frame = NonNullable<ClientFrame["reply"]>;

/** The frame of a reply. It throws for what the server would not take. */
export function replyFrame(to: { request_id: string } | { id: string }, reply: Reply): Frame {
  const { status = 200, headers = {}, contentType = "" } = reply.options;
  if (!(Number.isInteger(status) && status >= 200 && status <= 599)) {
    throw new RangeError(`status ${status} is not between 200 and 599`);
  }
  if (!/^[ -~]{0,128}$/.test(contentType)) {
    throw new RangeError("the content type is not one of at most 128 ASCII characters");
  }
  const frame: Frame = { ...to, status, ...content(reply.data, contentType, "id" in to ? maxReply : maxBody) };
  if ("request_id" in to && Object.keys(headers).length > 0) {
    checkHeaders(headers);
    frame.headers = headers;
  }
  return frame;
}

function checkHeaders(headers: Record<string, string | string[]>): void {
  let size = 0;
  for (const [name, given] of Object.entries(headers)) {
    if (!headerName.test(name)) throw new RangeError(`"${name.slice(0, 64)}" is not a header's name`);
    for (const value of [given].flat()) {
      if (control.test(value)) throw new RangeError(`header ${name} has a value with control characters`);
      size += name.length + bytesOf(value).length;
    }
  }
  if (size > maxHeaders) throw new RangeError(`headers have ${size} bytes; at most ${maxHeaders} are allowed`);
}

const bytesOf = (text: string) => new TextEncoder().encode(text);

function content(data: unknown, contentType: string, most: number): Omit<Frame, "status"> {
  if (data === undefined) return contentType ? { content_type: contentType } : {};
  if (data instanceof Uint8Array) {
    return encoded(data, contentType || "application/octet-stream", most);
  }
  if (typeof data === "string" && contentType && !isJSON(contentType)) {
    const bytes = bytesOf(data);
    const long = bytesOf(JSON.stringify(data)).length > (bytes.length * 4) / 3 + 4; // most of it has to be escaped
    return long
      ? encoded(bytes, contentType, most)
      : { data: sized(data, bytes.length, most), content_type: contentType };
  }
  const written = JSON.stringify(data);
  if (written === undefined) throw new TypeError("data is not a JSON value");
  return { data: sized(data, bytesOf(written).length, most), content_type: contentType || "application/json" };
}

function encoded(data: Uint8Array, contentType: string, most: number): Omit<Frame, "status"> {
  return { data_base64: base64FromBytes(sized(data, data.length, most)), content_type: contentType };
}

function sized<T>(data: T, size: number, most: number): T {
  if (size > most) throw new RangeError(`data has ${size} bytes; at most ${most} are allowed`);
  return data;
}
