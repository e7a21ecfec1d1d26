import { type Duration, durationMs } from "../durations.js";
import type { ClientFrame } from "./frames.js";

const maxAckIds = 256;
const defaultAckDelay = 5;
/** The server would deliver again after longer ones. */
const maxAckDelay = 1_000;

type Nack = NonNullable<ClientFrame["nack"]>;
type ReplyFrame = NonNullable<ClientFrame["reply"]>;

/** Where frames go, while there is a session. */
interface Line {
  send(f: ClientFrame): void;
  live(): boolean;
}

/**
 * Collects acknowledgements, so that those of a burst share a frame. It outlives sessions: what a lost connection did not
 * carry goes out on the next one.
 */
export class Outbox {
  private readonly acks: string[] = [];
  private readonly nacks: Nack[] = [];
  private readonly replies: ReplyFrame[] = [];
  private readonly delay: number;
  private flushing = false;
  private collecting: ReturnType<typeof setTimeout> | undefined; // acknowledgements, since some have left

  constructor(
    private readonly line: Line,
    private readonly window: number,
    delay: Duration = defaultAckDelay,
  ) {
    this.delay = durationMs(delay);
    if (this.delay > maxAckDelay) throw new RangeError(`ackDelay ${delay} is more than ${maxAckDelay} ms`);
  }

  ack(id: string): void {
    this.acks.push(id);
    this.flushSoon();
  }

  nack(nack: Nack): void {
    this.nacks.push(nack);
    this.flushSoon();
  }

  reply(reply: ReplyFrame): void {
    this.replies.push(reply);
    this.flushSoon();
  }

  /** Sends all that has to go now. Acknowledgements may wait for others, unless all is to go. */
  flush(all = false): void {
    if (!this.line.live()) return;
    if (all || this.nacks.length + this.replies.length > 0 || !this.mayWait()) this.sendAcks();
    for (const nack of this.nacks.splice(0)) this.line.send({ nack });
    for (const reply of this.replies.splice(0)) this.line.send({ reply });
  }

  /** Sends what is left. Nothing leaves by itself afterwards. */
  finish(): void {
    this.flush(true);
    clearTimeout(this.collecting);
  }

  /** Sends acknowledgements at the end of this turn, so that those of a burst share a frame. */
  private flushSoon(): void {
    if (this.flushing) return;
    this.flushing = true;
    queueMicrotask(() => {
      this.flushing = false;
      this.flush();
    });
  }

  /** Whether acknowledgements are being collected, and nobody waits for them. Timers of hidden pages are late by up to a minute. */
  private mayWait(): boolean {
    const full = this.acks.length >= Math.floor(this.window / 2);
    return this.collecting !== undefined && !full && globalThis.document?.visibilityState !== "hidden";
  }

  private sendAcks(): void {
    if (this.acks.length === 0) return;
    while (this.acks.length > 0) this.line.send({ ack: { ids: this.acks.splice(0, maxAckIds) } });
    clearTimeout(this.collecting);
    this.collecting = undefined;
    if (this.delay === 0) return;
    this.collecting = setTimeout(() => {
      this.collecting = undefined;
      this.flush();
    }, this.delay);
  }
}
