import { Backoff } from "../backoff.js";
import { checkTopic, isName } from "../names.js";
import type { ClientFrame, ServerFrame } from "./frames.js";
import type { Line } from "./registrations.js";

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

export type PatternLine = Line & { pings(): number };

/** How patterns are asked for, and what the server's errors about them name. */
export interface Kind {
  field: string;
  begin: (patterns: string[], queue: string) => ClientFrame;
  end: (patterns: string[], queue: string) => ClientFrame;
}

type Refusal = NonNullable<ServerFrame["error"]>;

/** Keeps what the application has asked for by pattern and queue, and asks for it again on every new connection. */
export class Patterns {
  private readonly entries = new Map<string, Entry>();
  private readonly timers = new Set<ReturnType<typeof setTimeout>>();
  private watchers: (() => void)[] = [];
  private pongs = 0;
  private over = false; // nothing more is asked for
  private overMark = 0; // the ping whose pong says that the server has taken note

  constructor(
    private readonly line: PatternLine,
    private readonly kind: Kind,
  ) {}

  add(patterns: string[], queue: string): void {
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

  remove(patterns: string[], queue: string): void {
    const ended = patterns.filter((p) => {
      const at = key(p, queue);
      const sent = this.entries.get(at)?.sent === true;
      this.entries.delete(at);
      return sent;
    });
    if (ended.length > 0) this.line.send(this.kind.end(ended, queue));
    this.moved();
  }

  /** Resolves once all are in effect. */
  async active(): Promise<void> {
    await this.until(() => this.line.live() && [...this.entries.values()].every((e) => e.active));
  }

  /** Resolves once something is so. It is asked again whenever a pattern or the connection has changed. */
  async until(so: () => boolean): Promise<void> {
    while (!so()) await new Promise<void>((resolve) => this.watchers.push(resolve));
  }

  /** Has those who wait look again. */
  moved(): void {
    const told = this.watchers;
    this.watchers = [];
    for (const watcher of told) watcher();
  }

  /** Ends all that was asked for, for good. */
  stop(): void {
    this.over = true;
    const queues = new Map<string, string[]>();
    for (const e of this.entries.values()) {
      if (e.sent) queues.set(e.queue, [...(queues.get(e.queue) ?? []), e.pattern]);
    }
    if (!this.line.live() || queues.size === 0) return;
    this.overMark = this.line.pings() + 1;
    for (const [queue, patterns] of queues) {
      while (patterns.length > 0) this.line.send(this.kind.end(patterns.splice(0, maxPatterns), queue));
    }
    this.line.send({ ping: {} });
  }

  /** Whether the server has taken note of the stop, or there is no connection. */
  get stopped(): boolean {
    return this.over && (!this.line.live() || this.pongs >= this.overMark);
  }

  /** A session began, on which nothing has been asked for yet. */
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
    this.overMark = 0;
    this.moved();
  }

  /** Takes the answer to a ping. */
  ponged(): void {
    const count = ++this.pongs;
    for (const e of this.entries.values()) {
      if (!e.sent || count < e.mark) continue;
      e.active = true;
      e.retries.reset();
    }
    this.moved();
  }

  /**
   * Takes an error of the server: what is refused for good is dropped, and told; the rest is asked for again later. False:
   * it is about something else.
   */
  refuse(error: Refusal | undefined, told: (error: Refusal) => void): boolean {
    if (error?.field !== this.kind.field || error.refused.length === 0) return false;
    for (const [at, e] of this.entries) {
      if (!e.sent || !error.refused.includes(e.pattern)) continue;
      if (error.code === "unavailable") this.again(e);
      else this.entries.delete(at);
    }
    if (error.code !== "unavailable") told(error);
    this.moved();
    return true;
  }

  private send(): void {
    if (!this.line.live() || this.over) return;
    const mark = this.line.pings() + 1;
    const queues = new Map<string, string[]>();
    for (const e of this.entries.values()) {
      if (e.sent) continue;
      e.sent = true;
      e.mark = mark;
      queues.set(e.queue, [...(queues.get(e.queue) ?? []), e.pattern]);
    }
    for (const [queue, patterns] of queues) {
      while (patterns.length > 0) this.line.send(this.kind.begin(patterns.splice(0, maxPatterns), queue));
    }
    if (queues.size > 0) this.line.send({ ping: {} }); // its pong says that they are in effect
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
}

const key = (pattern: string, queue: string) => `${queue} ${pattern}`;
