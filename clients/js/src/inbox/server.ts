import { type GodwitError, responseError, UnreachableError } from "../errors.js";
import { getToken, renewIn } from "../token.js";
import { type Changed, type Counts, type Page, readChanged, readCounts, readPage } from "./read.js";
import type { InboxChange, InboxOptions, InboxPreferences, InboxTab } from "./types.js";

/** How long an answer may take. */
const patience = 30_000;

/** The part of the server's API that an inbox uses. */
export class InboxServer {
  readonly #base: string;
  #token: string | undefined;
  #renewAt = 0; // of a token that is asked for

  constructor(private readonly o: InboxOptions) {
    const url = new URL(o.url);
    if (!/^https?:$/.test(url.protocol)) throw new TypeError(`${o.url} is not an http or https URL`);
    this.#base = url.origin + url.pathname.replace(/\/+$/, "");
  }

  /** Where the live connection is made. */
  get connect(): string {
    return `${this.#base.replace("http", "ws")}/v1/connect`;
  }

  /** One page, newest first. The browser keeps its copy and asks whether it is current. */
  async list(state: InboxTab | "pinned", category: string, cursor: string, limit: number): Promise<Page> {
    return readPage(await this.#call("GET", "/v1/inbox", { state, category, cursor, limit: String(limit) }), category);
  }

  async change(id: string, change: InboxChange, category: string): Promise<Changed> {
    return readChanged(await this.#call("POST", `/v1/inbox/${encodeURIComponent(id)}`, {}, change), category);
  }

  /** Marks everything as seen, or as read, or all of a category. */
  async all(what: "seen" | "read", category: string): Promise<Counts | undefined> {
    return readCounts(await this.#call("POST", `/v1/inbox/${what}`, {}, category ? { category } : {}), category);
  }

  async preferences(recipient: string): Promise<InboxPreferences> {
    return (await this.#call("GET", preferencesOf(recipient))) as InboxPreferences;
  }

  async setPreferences(recipient: string, preferences: InboxPreferences): Promise<void> {
    await this.#call("PUT", preferencesOf(recipient), {}, preferences);
  }

  async #call(method: string, path: string, query: Record<string, string> = {}, json?: unknown) {
    try {
      return await this.#once(method, path, query, json);
    } catch (error) {
      if ((error as GodwitError).status !== 401 || typeof this.o.token !== "function") throw error;
      this.#renewAt = 0; // it may have ended early: the source may have a better one
      return this.#once(method, path, query, json);
    }
  }

  async #once(method: string, path: string, query: Record<string, string>, json: unknown): Promise<unknown> {
    const { app, recipient } = this.o;
    const url = new URL(this.#base + path);
    const token = await this.#fresh();
    for (const [name, value] of Object.entries({ app, recipient, ...query }))
      if (value) url.searchParams.set(name, value);
    // A change goes on when its page is left, as by an item that leads to another page.
    const init: RequestInit = {
      method,
      cache: "no-cache",
      signal: AbortSignal.timeout(patience),
      keepalive: method !== "GET",
    };
    const headers: Record<string, string> = {};
    if (token) headers.Authorization = `Bearer ${token}`;
    if (json !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(json);
    }
    const response = await (this.o.fetch ?? fetch)(url, { ...init, headers }).catch((error: unknown) => {
      throw new UnreachableError(method, url.origin + url.pathname, error);
    });
    if (!response.ok) throw await responseError(response);
    const text = await response.text();
    return text ? JSON.parse(text) : undefined;
  }

  /** A function is asked for a token when nine tenths of the last one's life are over. */
  async #fresh(): Promise<string | undefined> {
    const source = this.o.token;
    if (typeof source !== "function") return source;
    if (Date.now() >= this.#renewAt) {
      this.#token = await getToken(source);
      this.#renewAt = Date.now() + (renewIn(this.#token, Date.now()) ?? 60_000);
    }
    return this.#token;
  }
}

const preferencesOf = (recipient: string) => `/v1/recipients/${encodeURIComponent(recipient)}/preferences`;
