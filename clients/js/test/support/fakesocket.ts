import type { ClientFrame } from "../../src/live/frames.js";
import type { Socket } from "../../src/live/socket.js";

/** A socket whose other end is the test. */
export class FakeSocket implements Socket {
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: ((event: { message?: string }) => void) | null = null;
  readonly sent: ClientFrame[] = [];
  closed = false;

  send(text: string): void {
    if (this.closed) throw new Error("closed");
    this.sent.push(JSON.parse(text) as ClientFrame);
  }

  close(code = 1000): void {
    if (this.closed) return;
    this.closed = true;
    queueMicrotask(() => this.onclose?.({ code, reason: "" }));
  }

  /** The connection stands. */
  open(): void {
    this.onopen?.(undefined as never);
  }

  /** The server says something. */
  say(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  welcome(fields: object = {}): void {
    this.open();
    this.say({
      welcome: {
        session: "s",
        app: "demo",
        recipient: "r",
        heartbeat: "30s",
        digest: "0000000000000000",
        registrations: 0,
        server_time: "2026-11-21T00:00:00.000Z",
        ...fields,
      },
    });
  }

  /** The connection breaks. */
  break(code = 1006, reason = ""): void {
    this.closed = true;
    this.onclose?.({ code, reason });
  }

  /** All frames of one kind that were sent. */
  all<K extends keyof ClientFrame>(kind: K): NonNullable<ClientFrame[K]>[] {
    return this.sent.map((f) => f[kind]).filter((f) => f !== undefined) as NonNullable<ClientFrame[K]>[];
  }
}

/** A place where sockets are made, to be looked at in order. */
export function sockets(): { made: FakeSocket[]; open: () => FakeSocket; last: () => FakeSocket } {
  const made: FakeSocket[] = [];
  return {
    made,
    open: () => {
      const s = new FakeSocket();
      made.push(s);
      return s;
    },
    last: () => {
      const s = made.at(-1);
      if (!s) throw new Error("no connection was tried");
      return s;
    },
  };
}
