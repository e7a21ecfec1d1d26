import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";

export interface Stored {
  id: string;
  title?: string;
  body?: string;
  category?: string;
  data?: unknown;
  actions?: unknown;
  created_at?: string;
  seen_at?: string | null;
  read_at?: string | null;
  archived_at?: string | null;
  pinned?: boolean;
  answered?: string;
}

/** A server with one recipient's inbox, where the test sees everything and breaks what it likes. */
export class InboxBackend {
  url = "";
  items: Stored[] = [];
  preferences: unknown = {};
  readonly requests: string[] = [];
  /** Frames that clients sent, their hellos apart. */
  readonly frames: Record<string, unknown>[] = [];
  readonly hellos: Record<string, unknown>[] = [];
  /** Requests for the list answer with this status; 0: with the list. */
  broken = 0;
  /** Changes answer with this status; 0: they are made. */
  refuses = 0;
  /** No connection is taken and no request answered. */
  away = false;
  token = "";
  private readonly sockets = new Set<WebSocket>();

  static async start(): Promise<InboxBackend> {
    const b = new InboxBackend();
    const server = createServer((req, res) => {
      let body = "";
      req.on("data", (part) => (body += String(part)));
      req.on("end", () => b.answer(req, res, body));
    });
    const sockets = new WebSocketServer({ server, path: "/v1/connect" });
    sockets.on("connection", (socket) => b.connected(socket));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    b.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    onTestFinished(() => {
      b.cut();
      server.closeAllConnections();
      server.close();
    });
    return b;
  }

  get counts(): { unseen: number; unread: number } {
    return this.countsOf();
  }

  /** The counts as answers have them. */
  private get counted() {
    const categories = Object.fromEntries(this.items.map((i) => [i.category ?? "", this.countsOf(i.category ?? "")]));
    return { ...this.counts, categories };
  }

  private countsOf(category?: string): { unseen: number; unread: number } {
    const kept = this.items.filter((i) => !i.archived_at && (category ?? i.category ?? "") === (i.category ?? ""));
    return { unseen: kept.filter((i) => !i.seen_at).length, unread: kept.filter((i) => !i.read_at).length };
  }

  /** Stores an item as the newest one, and says so. */
  publish(item: Stored): void {
    this.items.unshift({ created_at: new Date().toISOString(), ...item });
    this.tell([item.id]);
  }

  /** Says what changed to all who are connected, and what those are that were only marked. */
  tell(changed: string[], marked: Stored[] = []): void {
    const marks = marked.slice(0, 10).map((i) => ({
      ...{ id: i.id, seen: Boolean(i.seen_at), read: Boolean(i.read_at), archived: Boolean(i.archived_at) },
      ...{ pinned: Boolean(i.pinned), answered: i.answered ?? "" },
    }));
    for (const s of this.sockets) s.send(JSON.stringify({ inbox: { ...this.counts, changed, marked: marks } }));
  }

  /** Ends all connections, as a restart does. */
  cut(): void {
    for (const s of this.sockets) s.terminate();
  }

  get connections(): number {
    return this.sockets.size;
  }

  private connected(socket: WebSocket): void {
    if (this.away) {
      socket.terminate();
      return;
    }
    socket.on("close", () => this.sockets.delete(socket));
    socket.on("message", (data) => {
      const frame = JSON.parse(String(data)) as Record<string, unknown>;
      if (!frame.hello) {
        this.frames.push(frame);
        return;
      }
      this.hellos.push(frame.hello as Record<string, unknown>);
      if (this.token && (frame.hello as { token?: string }).token !== this.token) {
        socket.send(JSON.stringify({ goodbye: { reason: "unauthenticated" } }));
        return socket.close(1008);
      }
      this.sockets.add(socket);
      const welcome = { session: "s", app: "demo", recipient: "ada", heartbeat: "30s", digest: "0000000000000000" };
      socket.send(
        JSON.stringify({ welcome: { ...welcome, server_time: new Date().toISOString(), inbox: this.counts } }),
      );
    });
  }

  private answer(req: IncomingMessage, res: ServerResponse, body: string): void {
    const { pathname, searchParams } = new URL(req.url ?? "/", this.url);
    if (req.method !== "OPTIONS") this.requests.push(`${req.method} ${req.url} ${body}`.trim());
    if (this.away) return void req.socket.destroy();
    res.setHeader("Access-Control-Allow-Origin", "*");
    res.setHeader("Access-Control-Allow-Methods", "GET, POST, PUT");
    res.setHeader("Access-Control-Allow-Headers", "authorization, content-type");
    const json = (status: number, value: unknown) =>
      void res.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
    const problem = (status: number) => json(status, { type: "/problems/test", title: "No", status });
    const script = /^\/sdk\/([a-z]+\.js)$/.exec(pathname)?.[1];
    if (req.method === "OPTIONS") res.writeHead(204).end();
    else if (script) {
      const path = new URL(`../../../../internal/server/sdk/dist/${script}`, import.meta.url);
      res.writeHead(200, { "Content-Type": "text/javascript" }).end(readFileSync(path));
    } else if (this.token && req.headers.authorization !== `Bearer ${this.token}`) problem(401);
    else if (pathname.endsWith("/preferences")) {
      if (req.method === "PUT") this.preferences = JSON.parse(body);
      json(200, this.preferences);
    } else if (pathname === "/v1/inbox") this.broken ? problem(this.broken) : json(200, this.page(searchParams));
    else if (pathname.startsWith("/v1/inbox/")) {
      if (this.refuses) problem(this.refuses);
      else this.change(pathname.slice("/v1/inbox/".length), JSON.parse(body), json);
    } else problem(404);
  }

  private page(q: URLSearchParams): unknown {
    const state = q.get("state");
    const all = this.items.filter((i) => {
      if (q.get("category") && i.category !== q.get("category")) return false;
      if (state === "archived") return i.archived_at;
      if (state === "pinned") return i.pinned && !i.archived_at;
      return !i.archived_at && (state !== "unread" || !i.read_at) && (state !== "unseen" || !i.seen_at);
    });
    const from = q.get("cursor") ? all.findIndex((i) => i.id === q.get("cursor")) + 1 : 0;
    const items = all.slice(from, from + Number(q.get("limit") ?? 30));
    const last = items.at(-1);
    return { items, ...this.counted, next_cursor: last && last !== all.at(-1) ? last.id : "" };
  }

  private change(
    what: string,
    body: Record<string, boolean | string>,
    json: (status: number, value: unknown) => void,
  ): void {
    const all = what === "seen" || what === "read";
    const { category } = body as { category?: string };
    const these = this.items.filter((i) => !category || i.category === category);
    const changed = these.filter((i) => (all ? mark(i, what) : i.id === decodeURIComponent(what) && put(i, body)));
    json(changed.length > 0 || all ? 200 : 404, all ? this.counted : { ...this.counted, item: changed[0] });
    if (changed.length > 0)
      this.tell(
        changed.map(({ id }) => id),
        changed,
      );
  }
}

function mark(i: Stored, what: "seen" | "read"): boolean {
  if (i[`${what}_at`]) return false;
  i[`${what}_at`] = i.seen_at = new Date().toISOString();
  return true;
}

function put(i: Stored, { read, archived, pinned, answered }: Record<string, boolean | string>): boolean {
  const now = new Date().toISOString();
  if (answered) {
    i.answered ??= String(answered);
    i.read_at ??= now;
  }
  if (read !== undefined) i.read_at = read ? now : null;
  if (archived !== undefined) i.archived_at = archived ? now : null;
  if (pinned !== undefined) i.pinned = Boolean(pinned);
  return true;
}

/** So many items, the newest first: every third is read. */
export function items(n: number): Stored[] {
  return Array.from({ length: n }, (_, i) => {
    const at = new Date(Date.now() - (i + 1) * 3_600_000).toISOString();
    return {
      id: `n${i}`,
      title: `Item ${i}`,
      body: `Body of item ${i}`,
      created_at: at,
      seen_at: at,
      read_at: i % 3 === 2 ? at : null,
    };
  });
}
