import { Backoff, sleep } from "../backoff.js";
import { type Duration, durationText } from "../durations.js";
import { RecalledError, RedeliverAfter, RefusedError, type ServeError, type SubscriptionError } from "../errors.js";
import { getToken } from "../token.js";
import type { ClientFrame, InboxUpdate, Notification, ServerFrame, Welcome } from "./frames.js";
import { asked, cutReason } from "./nack.js";
import { watchNetwork } from "./network.js";
import { Outbox } from "./outbox.js";
import { type ObjectHandler, type Registration, Registrations } from "./registrations.js";
import { Reply, replyFrame } from "./reply.js";
import { SeenIds } from "./seen.js";
import { GoodbyeError, Session } from "./session.js";
import type { Connection } from "./socket.js";
import type { StateStore } from "./state.js";
import { type MessageHandler, Topics } from "./topics.js";
import type { Unread } from "./unread.js";
import { type RequestHandler, unasked, Workers } from "./workers.js";

/**
 * Handles one notification. Once it has returned, the notification is acknowledged, which settles it for good; a Reply
 * that it returns answers it, which settles it as replied. If it throws, the notification comes again after a while;
 * RedeliverAfter says after which. The signal aborts when the notification is recalled, and when the listener closes.
 */
export type NotificationHandler = (
  n: Notification,
  context: { signal: AbortSignal },
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler that returns nothing is one
) => Reply | void | Promise<Reply | void>;

export interface ListenOptions {
  /**
   * Names the device, so that a notification with ack "all" waits for it and registrations last. A second session of
   * the same device closes the first, whose `done` then rejects with reason "replaced".
   */
  device?: string;
  /** The group of the session's objects. */
  group?: string;
  /** Notifications sent and not acknowledged, and requests not answered: 1 to 1,024 each; default 64. */
  window?: number;
  /** 5 s to 24 h; the server's default is 30 s. A connection that is silent for two is given up. */
  heartbeat?: Duration;
  /** How many handlers run at once; default 1, which keeps the order. */
  concurrency?: number;
  /**
   * How long acknowledgements wait so that several share a frame, 0 to 1 s; default 5 ms, 0: none waits. The first one
   * after as long a pause leaves at once, and all leave once half of the window waits, or in a hidden page.
   */
  ackDelay?: Duration;
  /** Where registrations are kept; default: in memory. */
  state?: StateStore;
  /** Says, at every connect, which notifications are still shown; those settled meanwhile are recalled. */
  held?: () => string[] | Promise<string[]>;
  /** Is told of notifications that need not be shown any more. */
  onRecall?: (ids: string[]) => void;
  onConnect?: (w: Welcome) => void;
  /** Why a connection ended, or could not be made, and in how many milliseconds the next is tried. */
  onDisconnect?: (error: Error, retry: number) => void;
  /** A registration was refused: for good ("forbidden", "too_many") or for now ("unavailable"), then it is tried again. */
  onRegistrationFailed?: (r: Registration, code: string) => void;
  /** Handles messages of the topics that `subscribe` names, one after the other. */
  onMessage?: MessageHandler;
  /** How many messages were dropped before the next, because this program or its connection was too slow. */
  onGap?: (count: number) => void;
  /** Patterns were refused for good and are dropped. Default: onHandlerError. */
  onSubscriptionRefused?: (error: SubscriptionError) => void;
  /** Answers requests made to the recipient by its name, and of no subject that is served. Default: status 501. */
  onRequest?: RequestHandler;
  /** Patterns of subjects were refused for good and are dropped. Default: onHandlerError. */
  onServeRefused?: (error: ServeError) => void;
  /**
   * A handler or a callback threw, an UndecodableError says what the server sent and cannot be read, or the server did
   * not take a frame: none of it ends anything. Default: console.error.
   */
  onHandlerError?: (error: unknown) => void;
  /**
   * Only watches: the recipient does not count as connected, and what the handler got is not acknowledged. `ack` and
   * `reply` still answer, once the person has.
   */
  observe?: boolean;
  /** The recipient's inbox changed; the counts at a connect are in its Welcome. */
  onInbox?: (update: InboxUpdate) => void;
  /** Ends the listener. */
  signal?: AbortSignal;
}

/** A server sends at most 1,024 unacknowledged, so this is several windows. */
const rememberedIds = 8_192;
const maxWindow = 1_024;
const defaultWindow = 64;
/** Answers to notifications that are kept: 4 MB of the largest. One lost with its connection is asked of the handler again. */
const keptReplies = 64;
/** The server refuses more. */
const maxHeld = 1_000;
const handshakeTimeout = 30_000;
/** How long a session must have lasted for the next connect to be tried at once. */
const stable = 5_000;
/** Reasons of a goodbye after which trying again would not help. */
const final = new Set(["forbidden", "unknown_app", "replaced", "erased", "hello", "answer"]);

interface Job {
  n: Notification;
  abort: AbortController;
}

/**
 * Receives a recipient's notifications. Connections that fail or end are made again: at once after one that was good,
 * then after random waits of up to 1 s, doubling to 5 min, or when the server said. A notification is handled once
 * however often it is delivered, as far as the last 8,192 are concerned.
 */
export class Listener {
  /** Resolves when the listener was closed, and rejects with a RefusedError when the server refuses the client. */
  readonly done: Promise<void>;

  private readonly registrations: Registrations;
  private readonly topics: Topics;
  private readonly workers: Workers;
  private readonly closing = new AbortController();
  private readonly waiting: Job[] = [];
  private readonly held = new Map<string, Job>();
  private readonly seen = new SeenIds(rememberedIds);
  private readonly out: Outbox;
  private readonly said = new Map<string, NonNullable<ClientFrame["reply"]>>(); // the last ones
  private session: Session | undefined;
  private refusedToken: string | undefined; // if it was
  private running = 0;
  private idle: (() => void) | undefined;
  private hurry: (() => void) | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly recipient: string | undefined,
    private readonly handler: NotificationHandler,
    private readonly o: ListenOptions,
  ) {
    if (o.window !== undefined && !(o.window >= 1 && o.window <= maxWindow)) {
      throw new RangeError(`window ${o.window} is not between 1 and ${maxWindow}`);
    }
    const line = {
      send: (f: ClientFrame) => this.session?.send(f),
      live: () => this.session?.live === true,
      pings: () => this.session?.pings ?? 0,
    };
    const window = o.window ?? defaultWindow;
    this.out = new Outbox(line, window, o.ackDelay);
    this.registrations = new Registrations(
      line,
      o.group ?? "",
      o.state,
      (r, code) => this.tell(() => o.onRegistrationFailed?.(r, code)),
      (error) => this.broken(error),
    );
    this.workers = new Workers(
      line,
      window,
      o.onRequest ?? unasked,
      o.onServeRefused && ((error) => this.tell(() => o.onServeRefused?.(error))),
      (error) => this.broken(error),
    );
    this.topics = new Topics(
      line,
      o.onMessage,
      (count) => this.tell(() => o.onGap?.(count)),
      o.onSubscriptionRefused && ((error) => this.tell(() => o.onSubscriptionRefused?.(error))),
      (error) => this.broken(error),
    );
    this.done = this.run();
    this.done.catch(() => {}); // whoever does not look at it must not be punished with an unhandled rejection
    if (o.signal?.aborted) void this.close();
    o.signal?.addEventListener("abort", () => void this.close(), { once: true });
  }

  /** Learns an object's latest version now, and whenever it changes. A second call replaces the handler. */
  register(object: string, handler: ObjectHandler, group?: string): void {
    this.registrations.register(object, handler, group);
  }

  unregister(object: string, group?: string): void {
    this.registrations.unregister(object, group);
  }

  /**
   * Subscribes to topics or topic patterns: "*" stands for any one token, a final ">" for one or more. Of all who
   * subscribe to the same pattern with the same queue, one gets each message. Messages that are published while there
   * is no connection are missed; a new connection renews the subscriptions.
   */
  subscribe(patterns: string | string[], options: { queue?: string } = {}): void {
    this.topics.subscribe([patterns].flat(), options.queue ?? "");
  }

  /** Ends what `subscribe` with the same queue began. */
  unsubscribe(patterns: string | string[], options: { queue?: string } = {}): void {
    this.topics.unsubscribe([patterns].flat(), options.queue ?? "");
  }

  /** Resolves once all subscriptions are in effect: what is published from then on comes, as long as the connection lasts. */
  subscribed(): Promise<void> {
    return this.topics.active();
  }

  /**
   * Serves subjects or subject patterns: "*" stands for any one token, a final ">" for one or more. Of all who serve a
   * subject in one queue, one gets each request, at most once; an absent queue is the usual one. The handler answers, as
   * many requests at once as `window` says. On a new connection the subjects are served again. A second call with the same
   * subject replaces its handler.
   */
  serve(subjects: string | string[], handler: RequestHandler, options: { queue?: string } = {}): void {
    this.workers.serve([subjects].flat(), options.queue ?? "", handler);
  }

  /** Ends what `serve` with the same queue began. Requests that are on their way still come. */
  unserve(subjects: string | string[], options: { queue?: string } = {}): void {
    this.workers.unserve([subjects].flat(), options.queue ?? "");
  }

  /** Resolves once all that is to be served is: what is asked from then on comes, as long as the connection lasts. */
  serving(): Promise<void> {
    return this.workers.active();
  }

  /** Acknowledges notifications that are no handler's: those that a person has read in a list. */
  ack(ids: string[]): void {
    for (const id of ids) this.out.ack(id);
  }

  /** Answers a notification that is no handler's. A second answer to it changes nothing. */
  reply(id: string, reply: Reply): void {
    this.answer(id, reply);
  }

  /** What is registered, or about to be. */
  get objects(): Registration[] {
    return this.registrations.list();
  }

  /** Whether there is a session now. */
  get connected(): boolean {
    return this.session?.live === true;
  }

  /**
   * Ends the listener: handlers that run are waited for, and their acknowledgements still go out. Nothing more is served,
   * and up to 10 s are given to answer the requests under way.
   */
  async close(): Promise<void> {
    if (!this.closing.signal.aborted) this.closing.abort();
    await this.done.catch(() => {});
  }

  private async run(): Promise<void> {
    const unwatch = watchNetwork(() => {
      this.connection.moved?.();
      this.hurry?.();
      void this.session?.probe();
    });
    const closed = new Promise<void>((resolve) => {
      this.closing.signal.addEventListener("abort", () => resolve(), { once: true });
    });
    const connecting = this.connect();
    try {
      await Promise.race([connecting, closed]);
    } finally {
      if (!this.closing.signal.aborted) this.closing.abort();
      this.waiting.length = 0;
      for (const job of this.held.values()) job.abort.abort(this.closing.signal.reason);
      await this.workers.drain();
      if (this.running > 0) await new Promise<void>((resolve) => (this.idle = resolve));
      this.out.finish();
      this.registrations.stop();
      if (this.session?.live) this.session.finish();
      else this.session?.end(new Error("closed"));
      unwatch();
      await connecting.catch(() => {});
    }
  }

  /** Makes one session after the other, until closing, or throws the refusal that ends all. */
  private async connect(): Promise<void> {
    const wait = new Backoff(1_000, 300_000);
    for (let failures = 0; !this.closing.signal.aborted; ) {
      const start = Date.now();
      const { error, welcomed } = await this.once();
      if (this.closing.signal.aborted) return;
      await this.refuse(error);
      if (welcomed && Date.now() - start >= stable) {
        failures = 0;
        wait.reset();
      }
      const asked = error instanceof GoodbyeError ? error.retryAfter : 0;
      const delay = Math.max(failures++ > 0 ? wait.next() : 0, asked); // the first retry is at once
      this.tell(() => this.o.onDisconnect?.(error, delay));
      await this.pause(delay, asked > 0);
    }
  }

  /** Waits, unless the network comes back and it was not the server that asked to wait. */
  private async pause(ms: number, asked: boolean): Promise<void> {
    const cut = new AbortController();
    const stop = () => cut.abort();
    this.closing.signal.addEventListener("abort", stop, { once: true });
    this.hurry = asked ? undefined : stop;
    await sleep(ms, cut.signal);
    this.hurry = undefined;
    this.closing.signal.removeEventListener("abort", stop);
  }

  private async once(): Promise<{ error: Error; welcomed: boolean }> {
    let welcomed = false;
    const session = new Session({
      url: this.connection.url,
      open: this.connection.open,
      token: this.connection.token,
      hello: () => this.hello(),
      held: () => this.shown(),
      handshake: handshakeTimeout,
      welcomed: (w) => {
        welcomed = true;
        this.tell(() => this.o.onConnect?.(w));
        this.registrations.welcomed(w.digest);
        this.topics.welcomed();
        this.workers.welcomed();
        this.out.flush(true);
      },
      frame: (f) => this.frame(f),
      trouble: (error) => this.broken(error),
      digest: () => (this.registrations.size > 0 ? this.registrations.wantedDigest : undefined),
    });
    this.session = session;
    const error = await session.run();
    this.refusedToken = session.firstToken; // one that came after it may not have arrived in time, and is as good as new
    this.topics.lost();
    this.workers.lost();
    return { error, welcomed };
  }

  /** What is still shown. Not to know it must not keep anybody from connecting. */
  private shown(): string[] | undefined | Promise<string[] | undefined> {
    const failed = (error: unknown) => {
      this.broken(error);
      return undefined;
    };
    try {
      const held = this.o.held?.();
      return held instanceof Promise ? held.then((ids) => ids.slice(-maxHeld)).catch(failed) : held?.slice(-maxHeld);
    } catch (error) {
      return failed(error);
    }
  }

  private hello(): NonNullable<ClientFrame["hello"]> {
    const { device, group, window, heartbeat, observe } = this.o;
    return {
      app: this.connection.app,
      recipient: this.recipient,
      device,
      group,
      window,
      heartbeat: heartbeat === undefined ? undefined : durationText(heartbeat),
      digest: this.registrations.wantedDigest,
      observe,
    };
  }

  /** Throws where connecting again would not help. */
  private async refuse(error: Error): Promise<void> {
    const reason = error instanceof GoodbyeError || error instanceof RefusedError ? error.reason : "";
    if (reason === "unauthenticated" || reason === "token_expired") {
      // The source may have a better token by now. The same one again is refused again.
      const source = this.connection.token;
      if (typeof source === "function") {
        const next = await getToken(source).catch(() => undefined);
        if (next !== this.refusedToken) return;
      }
    } else if (!final.has(reason)) {
      return;
    }
    throw error instanceof RefusedError ? error : new RefusedError(reason);
  }

  private frame(f: ServerFrame): void {
    if (f.notification) this.take(f.notification);
    else if (f.recall) this.recall(f.recall);
    else if (f.inbox) this.tell(() => this.o.onInbox?.(f.inbox as InboxUpdate));
    else if (f.unread) this.unread(f.unread);
    else if (this.topics.take(f) || this.workers.take(f)) return;
    else if (f.error) this.broken(new Error(`server refused a frame: ${f.error.code}: ${f.error.message}`));
    else this.registrations.take(f);
  }

  /** Queues a notification for the handlers, unless they have it or had it. */
  private take(n: Notification): void {
    if (this.held.has(n.id) || this.closing.signal.aborted) return;
    if (this.seen.has(n.id)) {
      this.out.ack(n.id); // the first acknowledgement was lost with its connection
      return;
    }
    const said = this.said.get(n.id);
    if (said) {
      this.out.reply(said); // it was lost with its connection
      return;
    }
    const job = { n, abort: new AbortController() };
    this.held.set(n.id, job);
    this.waiting.push(job);
    this.work();
  }

  /**
   * Answers what cannot be read: a notification comes again after a while, for a program that can read it, or until the
   * server gives it up.
   */
  private unread({ error, pause }: Unread): void {
    const { id } = error;
    if (id && this.held.has(id)) return;
    if (id && this.seen.has(id)) {
      this.out.ack(id); // an earlier copy could be read
    } else {
      if (id) this.out.nack({ ids: [id], after: durationText(pause), reason: cutReason(error.reason) });
      this.broken(error);
    }
  }

  private work(): void {
    while (this.running < Math.max(1, this.o.concurrency ?? 1)) {
      const job = this.waiting.shift();
      if (!job) return;
      this.running++;
      void this.handle(job);
    }
  }

  private async handle(job: Job): Promise<void> {
    const { id } = job.n;
    const { signal } = job.abort;
    try {
      if (!signal.aborted) {
        const reply = await this.handler(job.n, { signal });
        if (reply instanceof Reply) this.answer(id, reply);
        else if (!this.o.observe) {
          this.seen.add(id);
          this.out.ack(id);
        }
      }
    } catch (error) {
      if (!signal.aborted) {
        this.out.nack({ ids: [id], ...(error instanceof RedeliverAfter ? asked(error) : {}) });
        if (!(error instanceof RedeliverAfter)) this.broken(error);
      }
    } finally {
      this.held.delete(id);
      this.running--;
      this.work();
      if (this.running === 0) this.idle?.();
    }
  }

  private answer(id: string, reply: Reply): void {
    const frame = replyFrame({ id }, reply);
    this.said.set(id, frame);
    for (const oldest of this.said.keys()) {
      if (this.said.size > keptReplies) this.said.delete(oldest);
      else break;
    }
    this.out.reply(frame);
  }

  private recall(ids: string[]): void {
    for (const id of ids) this.held.get(id)?.abort.abort(new RecalledError(id));
    this.tell(() => this.o.onRecall?.(ids));
  }

  /** Runs a callback. What it throws ends nothing. */
  private tell(callback: () => void): void {
    try {
      callback();
    } catch (error) {
      this.broken(error);
    }
  }

  private broken(error: unknown): void {
    if (this.o.onHandlerError) {
      try {
        this.o.onHandlerError(error);
        return;
      } catch {
        // Then it is told where it cannot fail.
      }
    }
    // biome-ignore lint/suspicious/noConsole: an error that nobody asked for must not vanish
    console.error("godwit:", error);
  }
}
