import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

type Answer = (req: IncomingMessage, res: ServerResponse, body: string) => void;

async function serve(answer: Answer): Promise<string> {
  const server = createServer((req, res) => {
    let body = "";
    req.on("data", (b) => (body += String(b)));
    req.on("end", () => answer(req, res, body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A web site: pages by path, under a content security policy as strict as sites have them. */
export async function site(server: () => string, pages: Record<string, string>, more = ""): Promise<string> {
  return serve((req, res) => {
    const path = new URL(req.url ?? "/", "http://site").pathname;
    const page = pages[path];
    const policy = `default-src 'none'; script-src 'self' ${server()}; connect-src 'self' ${server()} ${server().replace("http", "ws")}; img-src 'self'; style-src 'self'${more}`;
    res.setHeader("Content-Security-Policy", policy);
    if (page === undefined) {
      res.writeHead(path === "/favicon.ico" ? 204 : 404).end();
    } else if (path.endsWith(".js")) {
      res.writeHead(200, { "Content-Type": "text/javascript" }).end(page);
    } else if (path.endsWith(".css")) {
      res.writeHead(200, { "Content-Type": "text/css" }).end(page);
    } else if (path.endsWith(".svg")) {
      res.writeHead(200, { "Content-Type": "image/svg+xml" }).end(page);
    } else {
      res.writeHead(200, { "Content-Type": "text/html; charset=utf-8" });
      const whole = page.startsWith("<!doctype");
      res.end(whole ? page : `<!doctype html><html lang="en"><meta charset="utf-8"><title>Site</title><body>${page}`);
    }
  });
}

export interface KnownEndpoint {
  id: string;
  token: string;
  app: string;
  body: { address: { endpoint: string; keys: Record<string, string> }; tags?: string[]; [field: string]: unknown };
}

/** The part of the server that pages and service workers talk to, where the test sees everything. */
export class PushBackend {
  url = "";
  /** An uncompressed P-256 point, as the server's key is one. */
  key = Buffer.from([4, ...Array.from({ length: 64 }, (_, i) => i)]).toString("base64url");
  readonly endpoints = new Map<string, KnownEndpoint>();
  readonly reports: { token: string; event: string }[] = [];
  /** What was acknowledged by token, and the status that is answered instead of taking it. */
  readonly acks: { tokens: string[]; event?: string }[] = [];
  acksAway = 0;
  readonly requests: string[] = [];
  /** Requests get no answer. */
  silent = false;
  readonly apps = new Set(["news"]);
  /** The app takes no registrations from pages of the site. */
  refusesPages = false;

  static async start(): Promise<PushBackend> {
    const b = new PushBackend();
    b.url = await serve((req, res, body) => b.answer(req, res, body));
    return b;
  }

  private answer(req: IncomingMessage, res: ServerResponse, body: string): void {
    const { pathname, searchParams } = new URL(req.url ?? "/", "http://server");
    this.requests.push(`${req.method} ${pathname}`);
    if (this.silent) return;
    res.setHeader("Access-Control-Allow-Origin", "*");
    res.setHeader("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE");
    res.setHeader("Access-Control-Allow-Headers", "authorization, content-type, x-wp-nonce");
    const json = (status: number, value: unknown) => {
      res.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
    };
    const script = /^\/sdk\/([a-z]+\.js)$/.exec(pathname)?.[1];
    if (this.refusesPages && pathname.startsWith("/v1/endpoints")) {
      res.removeHeader("Access-Control-Allow-Origin");
      json(403, { status: 403, detail: "the page's origin is not on the app's list" });
    } else if (req.method === "OPTIONS") res.writeHead(204).end();
    else if (script) this.script(script, res);
    else if (pathname === "/v1/webpush/key" && !this.apps.has(searchParams.get("app") ?? "")) {
      json(404, { type: "/problems/unknown-app", status: 404, detail: "there is no such app" });
    } else if (pathname === "/v1/webpush/key") json(200, { app: searchParams.get("app"), public_key: this.key });
    else if (pathname === "/v1/track") {
      this.reports.push(JSON.parse(body));
      res.writeHead(204).end();
    } else if (pathname === "/v1/acks") {
      if (!this.acksAway) this.acks.push(JSON.parse(body));
      json(this.acksAway || 200, { acked: 1 });
    } else if (pathname.startsWith("/v1/endpoints")) {
      this.endpoint(req, searchParams.get("app") ?? "", pathname.split("/")[3], body, json);
    } else if (pathname.startsWith("/compat/perfecty/news/v1/push/users")) {
      this.perfecty(pathname.split("/").slice(7), body, json);
    } else json(404, { status: 404, detail: `nothing at ${pathname}` });
  }

  private script(name: string, res: ServerResponse): void {
    res.setHeader("Content-Type", "text/javascript");
    res.setHeader("Cross-Origin-Resource-Policy", "cross-origin");
    res.setHeader("Access-Control-Allow-Origin", "*");
    res.end(readFileSync(new URL(`../../../../internal/server/sdk/dist/${name}`, import.meta.url)));
  }

  private endpoint(
    req: IncomingMessage,
    app: string,
    id: string | undefined,
    body: string,
    json: (status: number, value: unknown) => void,
  ): void {
    if (req.method === "POST" && !id) {
      const made = { id: `e${this.endpoints.size + 1}-${Math.random()}`, token: `secret-${Math.random()}` };
      this.endpoints.set(made.id, { ...made, app, body: JSON.parse(body) });
      json(201, { id: made.id, manage_token: made.token });
      return;
    }
    const e = this.endpoints.get(decodeURIComponent(id ?? ""));
    if (!e || req.headers.authorization !== `Bearer ${e.token}`) {
      json(404, { status: 404, detail: "no such endpoint" });
    } else if (req.method === "DELETE") {
      this.endpoints.delete(e.id);
      json(200, {});
    } else {
      if (req.method === "PATCH") Object.assign(e.body, JSON.parse(body));
      json(200, { id: e.id, status: "active", ...e.body });
    }
  }

  readonly users = new Map<string, { user: { endpoint: string }; user_id: string | null; first_time: boolean }>();

  /** The routes of Perfecty Push's server. */
  private perfecty(rest: string[], body: string, json: (status: number, value: unknown) => void): void {
    const [uuid, action] = rest;
    if (!uuid) {
      const made = JSON.parse(body || "{}");
      const id = made.user_id ?? `uuid-${this.users.size + 1}`;
      this.users.set(id, made);
      json(201, { uuid: id });
    } else if (action === "unregister") {
      this.users.delete(uuid);
      json(200, { result: true });
    } else json(200, this.users.has(uuid) ? { uuid } : null);
  }
}
