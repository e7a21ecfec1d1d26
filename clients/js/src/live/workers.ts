import { ServeError } from "../errors.js";
import type { ClientFrame, ServedRequest, ServerFrame } from "./frames.js";
import { type PatternLine, Patterns } from "./patterns.js";
import { Reply, replyFrame } from "./reply.js";

/**
 * Answers one request; nothing is an empty answer. An error that it throws stays here: the caller gets an answer with
 * status 500. The signal aborts at the request's deadline, and when the connection it came on has ended: nobody can be
 * answered then.
 */
export type RequestHandler = (
  r: ServedRequest,
  context: { signal: AbortSignal },
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler that returns nothing is one
) => Reply | void | Promise<Reply | void>;

/** How long closing waits for requests that are being answered, in milliseconds. */
const patience = 10_000;

/** Keeps what the application serves, and has its handlers answer. */
export class Workers {
  private readonly patterns: Patterns;
  private readonly handlers = new Map<string, RequestHandler>(); // also of what is served no more: requests may be on their way
  private readonly running = new Set<AbortController>();

  constructor(
    private readonly line: PatternLine,
    private readonly window: number,
    private readonly byName: RequestHandler,
    private readonly refused: ((error: ServeError) => void) | undefined,
    private readonly broken: (error: unknown) => void,
  ) {
    this.patterns = new Patterns(line, {
      field: "subjects",
      begin: (subjects, queue) => ({ serve: frame(subjects, queue) }),
      end: (subjects, queue) => ({ unserve: frame(subjects, queue) }),
    });
  }

  serve(subjects: string[], queue: string, handler: RequestHandler): void {
    this.patterns.add(subjects, queue);
    for (const s of subjects) this.handlers.set(s, handler);
  }

  unserve(subjects: string[], queue: string): void {
    this.patterns.remove(subjects, queue);
  }

  active(): Promise<void> {
    return this.patterns.active();
  }

  welcomed(): void {
    this.patterns.welcomed();
  }

  /** The session ended: what was asked on it cannot be answered any more. */
  lost(): void {
    for (const r of this.running) r.abort(new Error("the connection has ended"));
    this.running.clear();
    this.patterns.lost();
  }

  /** Takes a frame that concerns requests; false: it is another's. Others look at pongs, too. */
  take(f: ServerFrame): boolean {
    if (f.pong) this.patterns.ponged();
    else if (f.request) void this.asked(f.request);
    else {
      return this.patterns.refuse(f.error, (error) => {
        const told = new ServeError(error.refused, error.code, error.message);
        if (this.refused) this.refused(told);
        else this.broken(told);
      });
    }
    return !f.pong;
  }

  /** Serves no more, and resolves when all that was asked is answered, or cannot be, or has taken too long. */
  async drain(): Promise<void> {
    this.patterns.stop();
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.patterns.moved();
    }, patience);
    await this.patterns.until(() => late || (this.patterns.stopped && this.running.size === 0));
    clearTimeout(timer);
    this.lost();
  }

  private async asked(r: ServedRequest): Promise<void> {
    if (this.running.size >= this.window) {
      // Requests that passed their deadline no longer count at the server, but may still be running here.
      this.answer(r, new Reply(undefined, { status: 503 }));
      return;
    }
    const abort = new AbortController();
    const left = Math.max(0, r.deadline.getTime() - Date.now());
    const timer = setTimeout(() => abort.abort(new Error("the request's deadline has passed")), left);
    this.running.add(abort);
    let reply: Reply;
    try {
      reply = (await this.handler(r.subject)(r, { signal: abort.signal })) ?? new Reply();
    } catch (error) {
      if (!abort.signal.aborted) this.broken(error);
      reply = failed;
    }
    clearTimeout(timer);
    if (!this.running.has(abort)) return; // its connection has ended
    if (!abort.signal.aborted) this.answer(r, reply); // else nobody waits any more
    this.running.delete(abort);
    this.patterns.moved();
  }

  private handler(subject: string): RequestHandler {
    for (const [pattern, handler] of this.handlers) if (matches(pattern, subject)) return handler;
    return this.byName;
  }

  private answer(r: ServedRequest, reply: Reply): void {
    let answer: NonNullable<ClientFrame["reply"]>;
    try {
      answer = replyFrame({ request_id: r.id }, reply);
    } catch (error) {
      this.broken(error);
      answer = replyFrame({ request_id: r.id }, failed);
    }
    this.line.send({ reply: answer });
  }
}

const failed = new Reply(undefined, { status: 500 });

/** Answers for a program that answers no requests made to its recipient. */
export const unasked: RequestHandler = () =>
  new Reply("this client answers no requests", { status: 501, contentType: "text/plain" });

/** Whether a subject is one of a pattern. */
export function matches(pattern: string, subject: string): boolean {
  const want = pattern.split(".");
  const have = subject.split(".");
  if (want.at(-1) === ">") {
    want.pop();
    if (have.length <= want.length) return false;
  } else if (want.length !== have.length) {
    return false;
  }
  return want.every((token, i) => token === "*" || token === have[i]);
}

const frame = (subjects: string[], queue: string) => (queue === "" ? { subjects } : { subjects, queue });
