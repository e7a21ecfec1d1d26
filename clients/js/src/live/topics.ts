import { Backoff } from "../backoff.js";
import { SubscriptionError } from "../errors.js";
import { checkTopic, isName } from "../names.js";
import type { Message, ServerFrame } from "./frames.js";
import type { Line } from "./registrations.js";

/** Handles one message of a topic. Messages come at most once: one that it fails on is not sent again. */
export type MessageHandler = (m: Message) => void | Promise<void>;

/** A pattern with its queue, and how far it is on this connection. */
interface Entry {
  pattern: string;
  queue: string;
  sent: boolean;
  active: boolean;
  /** The ping whose pong makes it active. */
  mark: number;
  retries: Backoff;
}

/** Patterns of one frame. */
const maxPatterns = 256;
/** What waits for the handler; more is dropped and told as a gap. */
const maxWaiting = 4_096;

/** Keeps what the application subscribes to and makes the server's agree on every new connection. */
export class Topics {
  private readonly entries = new Map<string, Entry>();
  private readonly timers = new Set<ReturnType<typeof setTimeout>>();
  private readonly waiting: (Message | number)[] = []; // a number is a gap
  private watchers: (() => void)[] = [];
  private pongs = 0;
  private busy = false;

  constructor(
    private readonly line: Line & { pings(): number },
    private readonly handler: MessageHandler | undefined,
    private readonly gap: ((count: number) => void) | undefined,
    private readonly refused: ((error: SubscriptionError) => void) | undefined,
    private readonly broken: (error: unknown) => void,
  ) {}

  subscribe(patterns: string[], queue: string): void {
    if (queue !== "" && !isName(queue)) throw new RangeError(`"${queue}" is not a name of a queue`);
    for (const p of patterns) checkTopic(p);
    for (const pattern of patterns) {
      const at = key(pattern, queue);
      if (this.entries.has(at)) continue;
      const retries = new Backoff(1_000, 300_000);
      this.entries.set(at, { pattern, queue, sent: false, active: false, mark: 0, retries });
    }
    this.send();
  }

  unsubscribe(patterns: string[], queue: string): void {
    const ended = patterns.filter((p) => {
      const at = key(p, queue);
      const sent = this.entries.get(at)?.sent === true;
      this.entries.delete(at);
      return sent;
    });
    if (ended.length > 0) this.line.send({ unsubscribe: frame(ended, queue) });
    this.moved();
  }

  /** Resolves once all subscriptions are in effect. */
  async active(): Promise<void> {
    while (!this.line.live() || [...this.entries.values()].some((e) => !e.active)) {
      await new Promise<void>((resolve) => this.watchers.push(resolve));
    }
  }

  /** A session began, on which nothing is subscribed yet. */
  welcomed(): void {
    this.lost();
    this.pongs = 0;
    this.send();
    this.moved();
  }

  /** The session ended. */
  lost(): void {
    for (const timer of this.timers) clearTimeout(timer);
    this.timers.clear();
    for (const e of this.entries.values()) e.sent = e.active = false;
  }

  /** Takes a frame that concerns topics; false: it is another's. Others look at pongs, too. */
  take(f: ServerFrame): boolean {
    if (f.pong) this.ponged(++this.pongs);
    else if (f.message) this.received(f.message);
    else if (f.gap) this.missed(f.gap);
    else return f.error?.field === "topics" && f.error.refused.length > 0 && this.refuse(f.error);
    return !f.pong;
  }

  private send(): void {
    if (!this.line.live()) return;
    const mark = this.line.pings() + 1;
    const queues = new Map<string, string[]>();
    for (const e of this.entries.values()) {
      if (e.sent) continue;
      e.sent = true;
      e.mark = mark;
      queues.set(e.queue, [...(queues.get(e.queue) ?? []), e.pattern]);
    }
    for (const [queue, patterns] of queues) {
      while (patterns.length > 0) this.line.send({ subscribe: frame(patterns.splice(0, maxPatterns), queue) });
    }
    if (queues.size > 0) this.line.send({ ping: {} }); // its pong says that they are in effect
  }

  private ponged(count: number): void {
    for (const e of this.entries.values()) {
      if (!e.sent || count < e.mark) continue;
      e.active = true;
      e.retries.reset();
    }
    this.moved();
  }

  private refuse(error: { code: string; message: string; refused: string[] }): boolean {
    for (const [at, e] of this.entries) {
      if (!e.sent || !error.refused.includes(e.pattern)) continue;
      if (error.code === "unavailable") this.again(e);
      else this.entries.delete(at);
    }
    if (error.code !== "unavailable") {
      const told = new SubscriptionError(error.refused, error.code, error.message);
      if (this.refused) this.refused(told);
      else this.broken(told);
    }
    this.moved();
    return true;
  }

  /** Asks again for what the server could not do just now. */
  private again(e: Entry): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      e.sent = false;
      this.send();
    }, e.retries.next());
    this.timers.add(timer);
    e.active = false;
    e.mark = Number.POSITIVE_INFINITY;
  }

  private received(m: Message): void {
    if (!this.handler) return;
    if (this.waiting.length >= maxWaiting) {
      this.missed(1);
      return;
    }
    this.waiting.push(m);
    if (!this.busy) void this.work();
  }

  private missed(count: number): void {
    const last = this.waiting.length - 1;
    const before = this.waiting[last];
    if (typeof before === "number") this.waiting[last] = before + count;
    else this.waiting.push(count);
    if (!this.busy) void this.work();
  }

  /** Hands what has come to the callbacks, one after the other. */
  private async work(): Promise<void> {
    this.busy = true;
    for (let next = this.waiting.shift(); next !== undefined; next = this.waiting.shift()) {
      try {
        if (typeof next === "number") this.gap?.(next);
        else await this.handler?.(next);
      } catch (error) {
        this.broken(error);
      }
    }
    this.busy = false;
  }

  private moved(): void {
    const told = this.watchers;
    this.watchers = [];
    for (const watcher of told) watcher();
  }
}

const key = (pattern: string, queue: string) => `${queue} ${pattern}`;

const frame = (topics: string[], queue: string) => (queue === "" ? { topics } : { topics, queue });
