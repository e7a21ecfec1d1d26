import { Backoff, sleep } from "./backoff.js";
import { Campaign, type CampaignAPI, type CampaignFields } from "./campaigns.js";
import { type Duration, durationMs, durationText } from "./durations.js";
import { Channels, Endpoints } from "./endpoints.js";
import { GodwitError, responseError, UnreachableError } from "./errors.js";
import { isJSON } from "./live/encoding.js";
import { Listener, type ListenOptions, type NotificationHandler } from "./live/listener.js";
import { Preference, type WebTransportOptions } from "./live/prefer.js";
import { maxBody } from "./live/reply.js";
import { platformSocket, type SocketFactory } from "./live/socket.js";
import { checkPath, checkTopic } from "./names.js";
import {
  type ObjectState,
  type Publication,
  type Receipt,
  readObject,
  readReceipt,
  readStatus,
  type Status,
  wirePublication,
} from "./publish.js";
import type { TokenSource } from "./token.js";

export type { TokenSource } from "./token.js";

export interface ClientOptions {
  /** Names the app, where neither key nor token says it and the server has several. */
  app?: string;
  /** The key of a back end: role publish for publishing, read for status. Never in a browser. */
  apiKey?: string;
  /** A recipient's token, or where such come from; needed to listen, except from a development server. */
  token?: TokenSource;
  /** Tries of one request, the first included; default 6. */
  attempts?: number;
  /** Milliseconds one try may take; default 30,000. */
  timeout?: number;
  fetch?: typeof fetch;
  webSocket?: SocketFactory;
  /**
   * Listens over WebTransport where browser, server (`--quic-addr`) and network let it, else over a WebSocket, at most a
   * second later. True: the server has QUIC at the same host and port. Default: WebSocket only.
   */
  webTransport?: boolean | WebTransportOptions;
}

/** A call of the API. */
export interface Call {
  query?: Record<string, string | undefined>;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is. */
  body?: string | Uint8Array<ArrayBuffer>;
  contentType?: string;
  /** A request that makes something makes it once, however often it is sent. */
  idempotencyKey?: string;
  /** The revision that is changed; if it is another by now, the server answers 412. */
  ifMatch?: string | undefined;
  /** Tried once, since it must not be carried out twice. */
  once?: boolean;
  signal?: AbortSignal;
}

export interface RequestOptions {
  contentType?: string;
  /** For the answer, milliseconds or "5s"; default 5 s, at most 60 s. */
  timeout?: Duration;
}

/** What answered a request. */
export class Answer {
  constructor(
    readonly status: number,
    /** `getSetCookie` has the cookies one by one. */
    readonly headers: Headers,
    readonly contentType: string,
    readonly data: Uint8Array,
  ) {}

  text(): string {
    return new TextDecoder().decode(this.data);
  }

  /** The JSON value that the data is; undefined where there is none. */
  json(): unknown {
    return this.data.length > 0 ? JSON.parse(this.text()) : undefined;
  }
}

/** What a request may take beside the wait for its answer, in milliseconds. */
const answerSlack = 10_000;

const batchLines = 10_000;
/** The server takes no more in a request. */
const maxAckTokens = 100;
const batchBytes = 31 << 20; // the server takes 32 MB

/** Talks to one server, or to a cluster behind one address. */
export class Client {
  private readonly base: URL;
  private readonly prefix: string; // where the server lies below a path
  private readonly o: ClientOptions;
  private readonly preference: Preference | undefined;

  /** The server's http or https URL, for example "https://push.example.org". */
  constructor(server: string | URL, options: ClientOptions = {}) {
    this.base = new URL(server);
    if (!/^https?:$/.test(this.base.protocol)) throw new TypeError(`${server} is not an http or https URL`);
    if (/[?#]/.test(String(server))) throw new TypeError(`${server} must end before ? and #: paths are added to it`);
    this.prefix = this.base.pathname.replace(/\/+$/, "");
    this.o = options;
    const { webTransport } = options;
    if (webTransport) this.preference = this.prefer(webTransport === true ? {} : webTransport);
  }

  /** Receives a recipient's notifications until it is closed. The recipient may be left out where a token says it. */
  listen(recipient: string | undefined, handler: NotificationHandler, options: ListenOptions = {}): Listener {
    const url = this.url("/v1/connect");
    url.protocol = url.protocol.replace("http", "ws");
    const { app, token } = this.o;
    const p = this.preference;
    const connection = { url: url.href, app, token, open: p?.open ?? this.webSocket, moved: p?.moved };
    return new Listener(connection, recipient, handler, options);
  }

  private get webSocket(): SocketFactory {
    return this.o.webSocket ?? platformSocket;
  }

  private prefer(o: WebTransportOptions): Preference {
    const server = String(o.url ?? this.url("/")).replace(/\/+$/, "");
    return new Preference(`${server}/v1/transport`, o, this.webSocket);
  }

  /**
   * Stores one notification; it is on the server's disk when the promise resolves. After an error it may have been
   * stored all the same: publish again with the same id.
   */
  async publish(p: Publication): Promise<Receipt> {
    return readReceipt(await this.call("POST", "/v1/notifications", { json: wirePublication(p, p.to) }));
  }

  /** Stores one notification for up to 1,000 recipients. One receipt each, in order; some may carry an error. */
  async publishTo(to: string[], p: Omit<Publication, "to">): Promise<Receipt[]> {
    const answer = await this.call<{ results: Record<string, unknown>[] }>("POST", "/v1/notifications", {
      json: wirePublication(p, to),
    });
    return answer.results.map(readReceipt);
  }

  /**
   * Stores any number of notifications in as few requests as possible. One receipt each, in order; a bad one stops
   * nothing. Temporary failures are tried again.
   */
  async publishBatch(publications: Publication[]): Promise<Receipt[]> {
    const wire = publications.map((p) => wirePublication(p, p.to));
    const lines = wire.map((w) => JSON.stringify(w));
    const receipts: Receipt[] = new Array(lines.length);
    const wait = new Backoff(100, 10_000);
    let todo = lines.map((_, i) => i);
    for (let attempt = 1; todo.length > 0; attempt++) {
      for (const part of portions(todo, lines)) {
        const answers = await this.sendLines(part.map((i) => lines[i] as string));
        part.forEach((index, at) => {
          receipts[index] = readReceipt(answers[at] ?? {});
        });
      }
      todo = todo.filter((i) => receipts[i]?.error?.temporary);
      if (attempt >= this.attempts) break;
      if (todo.length > 0) await sleep(wait.next());
    }
    return receipts;
  }

  private async sendLines(lines: string[]): Promise<Record<string, unknown>[]> {
    const text = await this.text("POST", "/v1/notifications/batch", {
      body: `${lines.join("\n")}\n`,
      contentType: "application/x-ndjson",
    });
    const answers = text.split("\n").filter((line) => line !== "");
    if (answers.length !== lines.length) {
      throw new Error(`publish batch: ${lines.length} lines were sent, ${answers.length} answered`);
    }
    return answers.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /**
   * Hands a message to a topic's present subscribers. Delivery is at most once: it is tried once, and nothing reports
   * whom it reached. Bytes are sent as they are, and strings with a content type that is not JSON; all else is sent as
   * JSON. At most 64 KB.
   */
  async publishMessage(topic: string, data?: unknown, options: { contentType?: string } = {}): Promise<void> {
    checkTopic(topic);
    await this.text("POST", `/v1/topics/${encodeURIComponent(topic)}`, { ...messageBody(data, options), once: true });
  }

  /**
   * Asks one of those who serve a subject, and returns the answer, whatever its status. It is tried once: a worker may have
   * done what it was asked although no answer came. NobodyServesError says that nobody was asked, NoAnswerError that no
   * answer came. The data is sent as by `publishMessage`; at most 1 MiB.
   */
  async request(subject: string, data?: unknown, options: RequestOptions = {}): Promise<Answer> {
    checkTopic(subject);
    return this.ask(`/v1/requests/${encodeURIComponent(subject)}`, data, options, {});
  }

  /**
   * Asks the newest session of a recipient that does not only observe, or of one of its devices; see `request`. The subject
   * is what the client is told that it is asked. To ask one that may sleep, publish with replyBy.
   */
  async requestRecipient(
    recipient: string,
    data?: unknown,
    options: RequestOptions & { device?: string; subject?: string } = {},
  ): Promise<Answer> {
    const { device, subject } = options;
    return this.ask(`/v1/recipients/${encodeURIComponent(recipient)}/requests`, data, options, { device, subject });
  }

  private async ask(path: string, data: unknown, o: RequestOptions, query: Call["query"]): Promise<Answer> {
    const wait = durationMs(o.timeout ?? 5_000);
    const call = { ...messageBody(data, o), query: { ...query, timeout: durationText(wait) } };
    const size = typeof call.body === "string" ? new TextEncoder().encode(call.body).length : (call.body?.length ?? 0);
    if (size > maxBody) throw new RangeError(`data has ${size} bytes; at most ${maxBody} are allowed`);
    // A redirect is an answer, too.
    checkPath(path);
    const response = await this.exchange("POST", path, call, call.body, wait + answerSlack, { redirect: "manual" });
    const contentType = response.headers.get("Content-Type") ?? "";
    if (response.status >= 400 && contentType === "application/problem+json") {
      const error = await responseError(response.clone());
      if (error.type.startsWith("/problems/")) throw error; // the server's, not a worker's
    }
    return new Answer(response.status, response.headers, contentType, new Uint8Array(await response.arrayBuffer()));
  }

  /** What became of one recipient's copy of a notification. */
  async status(id: string, to: string): Promise<Status> {
    return readStatus(await this.call("GET", `/v1/notifications/${encodeURIComponent(id)}`, { query: { to } }));
  }

  /**
   * Acknowledges what came by push, with the tokens that it brought (`godwit_ack`): nothing else is needed, no token of a
   * client. `event` is what happened to it; "shown" settles only what was published so. Returns how many copies this call
   * settled: 0 for those that were settled before. Only where none of the tokens is good it throws, with status 401.
   */
  async ackTokens(tokens: string[], event?: "shown" | "clicked" | "dismissed"): Promise<number> {
    let acked = 0;
    for (let i = 0; i < tokens.length; i += maxAckTokens) {
      const json = { tokens: tokens.slice(i, i + maxAckTokens), event };
      acked += (await this.call<{ acked: number }>("POST", "/v1/acks", { json })).acked;
    }
    return acked;
  }

  /** Withdraws a notification from one recipient, or from all. Copies that are settled stay as they are. */
  async recall(id: string, to?: string): Promise<void> {
    await this.text("DELETE", `/v1/notifications/${encodeURIComponent(id)}`, { query: { to } });
  }

  /**
   * Says that an object is at a version; without one the server takes the next, and a retry after a lost answer may
   * take one more. `source` is the client that made the change and is not told ("client-3" or "client-3/device").
   */
  async putObject(
    group: string,
    object: string,
    state: { version?: string | number | bigint; payload?: unknown; unknown?: boolean; source?: string } = {},
  ): Promise<{ version: string; changed: boolean }> {
    const version = state.version === undefined ? undefined : String(state.version);
    return this.call("PUT", objectPath(group, object), { json: { ...state, version } });
  }

  async object(group: string, object: string): Promise<ObjectState> {
    return readObject(await this.call("GET", objectPath(group, object)));
  }

  /** Announces that the object's version is unknown; what it was stays as the floor. */
  async deleteObject(group: string, object: string): Promise<void> {
    await this.text("DELETE", objectPath(group, object));
  }

  /**
   * A campaign: one that is there, by its id, or a new one, which its first method makes:
   * `await client.campaign({ content: { title: "Hi {{name|friend}}" }, audience: { tagsAny: ["news"] } }).start()`.
   */
  campaign(campaign: string | CampaignFields): Campaign {
    return new Campaign(this.parts, campaign);
  }

  /** The endpoints of the app. */
  get endpoints(): Endpoints {
    return new Endpoints(this.parts);
  }

  /** The channels of the app. */
  get channels(): Channels {
    return new Channels(this.parts);
  }

  /** What campaigns, endpoints and channels are made of. */
  private get parts(): CampaignAPI {
    return {
      call: (method, path, call) => this.call(method, path, call),
      lines: async (path, query) => {
        const text = await this.text("GET", path, { query });
        return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Record<string, unknown>]));
      },
    };
  }

  /** Any other call of the API; the answer is read as JSON. Retried like the rest: make it one that may be repeated. */
  async call<T = Record<string, unknown>>(method: string, path: string, call: Call = {}): Promise<T> {
    const text = await this.text(method, path, call);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  private get attempts(): number {
    return Math.max(1, this.o.attempts ?? 6);
  }

  private url(path: string): URL {
    const url = new URL(this.base);
    url.pathname = this.prefix + path;
    return url;
  }

  /** Carries out a request, again after failures that may pass, and returns the body of the successful answer. */
  private async text(method: string, path: string, call: Call = {}): Promise<string> {
    checkPath(path);
    const body = call.json === undefined ? call.body : JSON.stringify(call.json);
    const wait = new Backoff(100, 10_000);
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.once(method, path, call, body);
      } catch (error) {
        const answer = error instanceof GodwitError ? error : undefined;
        if (call.once || call.signal?.aborted || (answer && !answer.temporary) || attempt >= this.attempts) throw error;
        if (!(await sleep(Math.max(wait.next(), answer?.retryAfter ?? 0), call.signal))) throw error;
      }
    }
  }

  private async once(method: string, path: string, call: Call, body: Call["body"]): Promise<string> {
    const response = await this.exchange(method, path, call, body, this.o.timeout ?? 30_000);
    if (!response.ok) throw await responseError(response);
    return response.text();
  }

  private async exchange(
    method: string,
    path: string,
    call: Call,
    body: Call["body"],
    within: number,
    more: RequestInit = {},
  ): Promise<Response> {
    const url = this.url(path);
    for (const [name, value] of Object.entries(call.query ?? {})) if (value) url.searchParams.set(name, value);
    const headers: Record<string, string> = {};
    if (this.o.apiKey) headers.Authorization = `Bearer ${this.o.apiKey}`;
    if (call.json !== undefined) headers["Content-Type"] = "application/json";
    if (call.idempotencyKey) headers["Idempotency-Key"] = call.idempotencyKey;
    if (call.ifMatch) headers["If-Match"] = `"${call.ifMatch}"`;
    if (call.contentType) headers["Content-Type"] = call.contentType;
    const init: RequestInit = {
      ...more,
      method,
      headers,
      signal: limited(within, call.signal),
    };
    if (body !== undefined) init.body = body;
    return (this.o.fetch ?? fetch)(url, init).catch((error: unknown) => {
      if (call.signal?.aborted) throw error;
      throw new UnreachableError(method, url.origin + url.pathname, error);
    });
  }
}

function messageBody(data: unknown, { contentType = "" }: { contentType?: string }): Call {
  if (data === undefined) return contentType ? { contentType } : {};
  if (data instanceof Uint8Array) {
    return { body: new Uint8Array(data), contentType: contentType || "application/octet-stream" };
  }
  if (typeof data === "string" && contentType && !isJSON(contentType)) return { body: data, contentType };
  return { body: JSON.stringify(data), contentType: contentType || "application/json" };
}

/** Aborts after a time, or when another signal does. React Native has no AbortSignal.timeout, and Node before 20.3 no AbortSignal.any. */
function limited(ms: number, by?: AbortSignal): AbortSignal {
  const limit = new AbortController();
  const timer: unknown = setTimeout(() => limit.abort(new Error(`no answer within ${ms} ms`)), ms);
  (timer as { unref?: () => void }).unref?.(); // a program under Node ends without it
  if (by?.aborted) limit.abort(by.reason);
  by?.addEventListener("abort", () => limit.abort(by.reason), { once: true });
  return limit.signal;
}

const objectPath = (group: string, object: string) =>
  `/v1/objects/${encodeURIComponent(group)}/${encodeURIComponent(object)}`;

/** Cuts a list of lines into requests that the server takes. */
function* portions(todo: number[], lines: string[]): Generator<number[]> {
  let part: number[] = [];
  let bytes = 0;
  for (const i of todo) {
    const size = (lines[i] as string).length * 3 + 1; // at most three bytes a UTF-16 unit
    if (part.length > 0 && (part.length === batchLines || bytes + size > batchBytes)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(i);
    bytes += size;
  }
  if (part.length > 0) yield part;
}
