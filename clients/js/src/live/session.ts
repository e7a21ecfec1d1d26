import { Backoff, sleep } from "../backoff.js";
import { RefusedError } from "../errors.js";
import { getToken, renewIn, type TokenSource } from "../token.js";
import { type ClientFrame, readFrame, type ServerFrame, type Welcome } from "./frames.js";
import type { Opener, Socket } from "./socket.js";

/** Ends a session because the server said goodbye. */
export class GoodbyeError extends Error {
  constructor(
    readonly reason: string,
    readonly retryAfter: number,
  ) {
    super(`server said goodbye: ${reason}`);
  }
}

export interface SessionOptions {
  url: string;
  open: Opener;
  token: TokenSource | undefined;
  /** The hello without its token and what is held. */
  hello: () => NonNullable<ClientFrame["hello"]>;
  /** What is still shown; it never rejects. */
  held: () => string[] | undefined | Promise<string[] | undefined>;
  /** Bounds opening, hello and welcome together. */
  handshake: number;
  welcomed: (w: Welcome) => void;
  frame: (f: ServerFrame) => void;
  /** Is told of what ends nothing. */
  trouble: (error: unknown) => void;
  /** The digest to send with a ping; undefined: nothing is registered. */
  digest: () => string | undefined;
}

/** How long the server may take to close after its goodbye. */
const byePatience = 2_000;
/** How long it may take to answer after the network has changed. */
const probePatience = 2_000;

/** One connection from hello to end. */
export class Session {
  /** The token that it began with; undefined: none was needed. */
  firstToken: string | undefined;
  live = false;

  private token: string | undefined; // the last one shown
  private socket: Socket | undefined;
  /** Sent so far. */
  pings = 0;
  private pongs = 0;
  private heard = Date.now();
  private welcomed = false;
  private over: ((error: Error) => void) | undefined;
  private patience: ReturnType<typeof setTimeout> | undefined;
  private trouble = "";
  private readonly ended = new AbortController();

  constructor(private readonly o: SessionOptions) {}

  /** Runs until the connection ends and says why. It never throws. */
  async run(): Promise<Error> {
    const end = new Promise<Error>((resolve) => {
      this.over = resolve;
    });
    this.patience = setTimeout(() => this.end(new Error("server did not welcome in time")), this.o.handshake);
    void this.connect();
    const error = await end;
    clearTimeout(this.patience);
    this.live = false;
    this.ended.abort();
    this.drop();
    return error;
  }

  send(frame: ClientFrame): void {
    if (this.live) this.write(frame);
  }

  /**
   * Asks at once whether the connection stands, and ends it if no answer comes: the network has changed. Over QUIC the server
   * learns the client's new address by it.
   */
  async probe(): Promise<void> {
    const { pongs } = this;
    this.ping();
    if ((await sleep(probePatience, this.ended.signal)) && this.live && pongs === this.pongs) {
      this.end(new Error("server was silent after a network change"));
    }
  }

  /** Ends the session gently: what was sent before reaches the server. */
  finish(): void {
    this.live = false;
    this.socket?.close(1000);
    // A server that does not answer the close must not hold the caller.
    this.patience = setTimeout(() => this.end(new Error("closed")), byePatience);
  }

  /** Ends it at once. */
  end(error: Error): void {
    this.over?.(error);
  }

  private async connect(): Promise<void> {
    try {
      this.firstToken = this.token = await getToken(this.o.token);
      if (this.ended.signal.aborted) return;
      const socket = await this.o.open(this.o.url, ["godwit.v1.json"]);
      this.socket = socket;
      if (this.ended.signal.aborted) return this.drop();
      socket.onopen = () => {
        const held = this.o.held();
        if (held instanceof Promise) void held.then((ids) => this.introduce(ids));
        else this.introduce(held);
      };
      socket.onmessage = (event) => this.message(event.data);
      socket.onclose = (event) => this.end(closeError(event, this.trouble));
      socket.onerror = (event) => {
        this.trouble = event.message ?? ""; // a close follows
      };
    } catch (error) {
      this.end(error instanceof Error ? error : new Error(String(error)));
    }
  }

  private introduce(held: string[] | undefined): void {
    if (!this.ended.signal.aborted) this.write({ hello: { ...this.o.hello(), held, token: this.token } });
  }

  private write(frame: ClientFrame): void {
    if (frame.ping) this.pings++;
    try {
      this.socket?.send(JSON.stringify(frame));
    } catch (error) {
      this.end(error as Error);
    }
  }

  private message(data: unknown): void {
    this.heard = Date.now();
    const f = readFrame(String(data));
    if (f.pong) this.pongs++;
    if (f.goodbye) {
      // The server closes next, but the goodbye is the end that counts.
      const { reason, retryAfter } = f.goodbye;
      this.live = false;
      this.end(new GoodbyeError(reason, retryAfter));
    } else if (f.welcome) {
      this.welcome(f.welcome);
    } else if (f.error && !this.welcomed) {
      this.end(new RefusedError("hello", `${f.error.message} (${f.error.code})`));
    } else if (this.welcomed) {
      this.o.frame(f);
    } else if (f.unread) {
      this.o.trouble(f.unread.error);
    }
  }

  private welcome(w: Welcome): void {
    if (this.welcomed) return; // the answer to a hello with a new token
    clearTimeout(this.patience);
    this.welcomed = this.live = true;
    void this.beat(Math.max(w.heartbeat, 1_000));
    void this.renew();
    this.o.welcomed(w);
  }

  /** Pings a server that is silent for a heartbeat and gives up after two. With registrations, digests are compared every heartbeat. */
  private async beat(every: number): Promise<void> {
    let pinged = false;
    for (let turn = 1; await sleep(every / 2, this.ended.signal); turn++) {
      const silence = Date.now() - this.heard;
      const digest = this.o.digest();
      if (silence >= 2 * every && pinged) {
        this.end(new Error("server was silent for two heartbeats"));
      } else if (silence < every && !(digest && turn % 2 === 0)) {
        pinged = false;
      } else if (!pinged || digest) {
        pinged = true;
        this.ping();
      }
    }
  }

  private ping(): void {
    const digest = this.o.digest();
    this.send({ ping: digest ? { digest } : {} });
  }

  /** Gets a new token before the present one ends and introduces it with another hello. */
  private async renew(): Promise<void> {
    const wait = new Backoff(1_000, 300_000);
    for (;;) {
      const delay = renewIn(this.token, Date.now());
      if (delay === undefined || !(await sleep(delay, this.ended.signal))) return;
      for (;;) {
        const next = await getToken(this.o.token).catch(() => undefined);
        if (next && next !== this.token) {
          this.token = next;
          const { app, recipient, device, heartbeat } = this.o.hello();
          this.send({ hello: { app, recipient, device, heartbeat, token: next } });
          wait.reset();
          break;
        }
        if (!(await sleep(wait.next(), this.ended.signal))) return; // the source has none yet
      }
    }
  }

  private drop(): void {
    if (!this.socket) return;
    this.socket.onmessage = this.socket.onclose = null;
    try {
      this.socket.close(1000);
    } catch {
      // It is closed already.
    }
  }
}

function closeError(event: { code: number; reason: string }, trouble: string): Error {
  if (event.code === 1008) return new RefusedError(event.reason || "policy");
  // Node says what the server answered instead of a connection; browsers do not.
  const status = Number(/response: (4\d\d)/.exec(trouble)?.[1] ?? 0);
  if (status !== 0 && status !== 408 && status !== 429) return new RefusedError("answer", `it answered ${status}`);
  return new Error(`connection lost: ${trouble || event.reason || event.code}`);
}
