import { vi } from "vitest";
import type { ClientFrame } from "../../src/live/frames.js";

const encoder = new TextEncoder();

/** A frame with its length before it. */
export function delimited(content: string | Uint8Array): Uint8Array {
  const body = typeof content === "string" ? encoder.encode(content) : content;
  const head: number[] = [];
  let rest = body.length;
  for (; rest > 127; rest >>= 7) head.push((rest & 127) | 128);
  return new Uint8Array([...head, rest, ...body]);
}

/** Takes a client's bytes apart, with a reader of the test's own. */
function framesOf(bytes: number[]): ClientFrame[] {
  const frames: ClientFrame[] = [];
  for (let at = 0; at < bytes.length; ) {
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const b = bytes[at++] as number;
      length |= (b & 127) << shift;
      if (b < 128) break;
    }
    frames.push(JSON.parse(new TextDecoder().decode(new Uint8Array(bytes.slice(at, at + length)))) as ClientFrame);
    at += length;
  }
  return frames;
}

type Controller = ReadableStreamDefaultController<Uint8Array>;

const source = (start: (controller: Controller) => void) => new ReadableStream<Uint8Array>({ start });

/** A browser's WebTransport whose other end is the test. */
export class FakeTransport {
  static made: FakeTransport[] = [];

  readonly ready: Promise<void>;
  readonly closed: Promise<{ closeCode?: number; reason?: string }>;
  readonly datagrams: { readable: ReadableStream<Uint8Array>; incomingHighWaterMark: number };
  /** What the client closed the session with. */
  left: { closeCode?: number; reason?: string } | undefined;
  /** Whether the client has ended its stream. */
  ended = false;
  private finished = false;

  private readonly sentBytes: number[] = [];
  private opened: () => void = () => {};
  private refuse: (error: Error) => void = () => {};
  private tellEnd: (info: { closeCode?: number; reason?: string }) => void = () => {};
  private breakEnd: (error: Error) => void = () => {};
  private stream: Controller | undefined;
  private packets: Controller | undefined;

  constructor(
    readonly url: string,
    readonly options: Record<string, unknown>,
  ) {
    this.ready = new Promise((resolve, reject) => {
      this.opened = resolve;
      this.refuse = reject;
    });
    this.closed = new Promise((resolve, reject) => {
      this.tellEnd = resolve;
      this.breakEnd = reject;
    });
    this.datagrams = {
      readable: source((c) => {
        this.packets = c;
      }),
      incomingHighWaterMark: 1,
    };
    FakeTransport.made.push(this);
  }

  async createBidirectionalStream() {
    return {
      readable: source((c) => {
        this.stream = c;
      }),
      writable: new WritableStream<Uint8Array>({
        write: (bytes) => void this.sentBytes.push(...bytes),
        close: () => {
          this.ended = true;
        },
      }),
    };
  }

  close(info: { closeCode?: number; reason?: string } = {}): void {
    if (this.left) throw new Error("it is closed");
    this.left = info;
    this.refuse(new Error("closed before it was ready"));
    this.streamEnds();
    this.tellEnd(info);
  }

  /** The session stands. */
  open(): void {
    this.opened();
  }

  /** The server refuses the session, or cannot be reached. */
  refused(message: string): void {
    this.refuse(new Error(message));
    this.breakEnd(new Error(message));
  }

  /** Bytes come on the stream. */
  bytes(b: Uint8Array): void {
    this.stream?.enqueue(b);
  }

  say(frame: object): void {
    this.bytes(delimited(JSON.stringify(frame)));
  }

  packet(frame: object): void {
    this.packets?.enqueue(encoder.encode(JSON.stringify(frame)));
  }

  welcome(): void {
    this.say({
      welcome: {
        session: "s",
        app: "demo",
        recipient: "r",
        heartbeat: "30s",
        digest: "0000000000000000",
        registrations: 0,
        server_time: "2026-11-21T00:00:00.000Z",
      },
    });
  }

  /** The server ends its side of the stream. */
  finishes(): void {
    this.finished = true;
    this.stream?.close();
  }

  /** The server closes the session. */
  closes(closeCode: number, reason: string): void {
    this.streamEnds();
    this.tellEnd({ closeCode, reason });
  }

  /** The connection breaks. */
  breaks(message: string): void {
    this.streamEnds();
    this.breakEnd(new Error(message));
  }

  get sent(): ClientFrame[] {
    return framesOf(this.sentBytes);
  }

  private streamEnds(): void {
    if (!this.finished) this.stream?.error(new Error("the session has ended"));
    this.finished = true;
  }
}

/** Gives the test a browser with WebTransport. */
export function withTransport(): { made: FakeTransport[]; last: () => FakeTransport } {
  FakeTransport.made = [];
  vi.stubGlobal("WebTransport", FakeTransport);
  return {
    made: FakeTransport.made,
    last: () => {
      const t = FakeTransport.made.at(-1);
      if (!t) throw new Error("WebTransport was not tried");
      return t;
    },
  };
}
