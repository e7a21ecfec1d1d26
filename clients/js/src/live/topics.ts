import { SubscriptionError } from "../errors.js";
import type { Message, ServerFrame } from "./frames.js";
import { type PatternLine, Patterns } from "./patterns.js";

/** Handles one message of a topic. Messages come at most once: one that it fails on is not sent again. */
export type MessageHandler = (m: Message) => void | Promise<void>;

/** What waits for the handler; more is dropped and told as a gap. */
const maxWaiting = 4_096;

/** Keeps what the application subscribes to and makes the server's agree on every new connection. */
export class Topics {
  private readonly patterns: Patterns;
  private readonly waiting: (Message | number)[] = []; // a number is a gap
  private busy = false;

  constructor(
    line: PatternLine,
    private readonly handler: MessageHandler | undefined,
    private readonly gap: ((count: number) => void) | undefined,
    private readonly refused: ((error: SubscriptionError) => void) | undefined,
    private readonly broken: (error: unknown) => void,
  ) {
    this.patterns = new Patterns(line, {
      field: "topics",
      begin: (topics, queue) => ({ subscribe: frame(topics, queue) }),
      end: (topics, queue) => ({ unsubscribe: frame(topics, queue) }),
    });
  }

  subscribe(patterns: string[], queue: string): void {
    this.patterns.add(patterns, queue);
  }

  unsubscribe(patterns: string[], queue: string): void {
    this.patterns.remove(patterns, queue);
  }

  /** Resolves once all subscriptions are in effect. */
  active(): Promise<void> {
    return this.patterns.active();
  }

  welcomed(): void {
    this.patterns.welcomed();
  }

  lost(): void {
    this.patterns.lost();
  }

  /** Takes a frame that concerns topics; false: it is another's. Others look at pongs, too. */
  take(f: ServerFrame): boolean {
    if (f.pong) this.patterns.ponged();
    else if (f.message) this.received(f.message);
    else if (f.gap) this.missed(f.gap);
    else {
      return this.patterns.refuse(f.error, (error) => {
        const told = new SubscriptionError(error.refused, error.code, error.message);
        if (this.refused) this.refused(told);
        else this.broken(told);
      });
    }
    return !f.pong;
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
}

const frame = (topics: string[], queue: string) => (queue === "" ? { topics } : { topics, queue });
