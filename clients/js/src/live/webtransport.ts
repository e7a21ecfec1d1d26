import { delimit, Frames, FrameTooLongError } from "./framing.js";
import type { Socket } from "./socket.js";

/** What a browser's WebTransport takes; see `WebTransportOptions` in prefer.ts. */
export interface Place {
  url: string;
  serverCertificateHashes: { algorithm: string; value: ArrayBuffer | Uint8Array<ArrayBuffer> }[] | undefined;
  datagrams: boolean;
}

/** How long a close waits for the server's, so that what was sent before arrives, in milliseconds. */
const linger = 1_000;
/** How long a connection that is late may still show that it works, in milliseconds. */
const patience = 10_000;
/** A session in which the server has said nothing for so long is no use, in milliseconds. */
const mute = 5_000;
/** Datagrams that wait for the program; browsers drop the oldest beyond that, and keep one or few by themselves. */
const waitingDatagrams = 256;
/** WebSocket's codes: a connection that broke, and one whose other end sent too long a frame. */
const broken = 1006;
const tooLong = 1009;

type Proved = (error?: Error) => void;

const nothing = () => {};

/**
 * Connects and opens the stream of a session, or throws once `late` does. `proved` is called once a connection works: when the
 * server has said something, or when one that was late stands. A connection that ends before that calls it with the error.
 */
export async function connect(place: Place, late: Promise<never>, proved: Proved): Promise<Socket> {
  const { serverCertificateHashes, datagrams } = place;
  const transport = new WebTransport(place.url, {
    allowPooling: false, // certificate hashes need a connection of their own
    requireUnreliable: datagrams,
    ...(serverCertificateHashes ? { serverCertificateHashes } : {}),
  });
  transport.closed.catch(nothing); // whoever waits for it hears of it
  const opening = transport.ready.then(() => transport.createBidirectionalStream());
  try {
    return new StreamSocket(transport, await Promise.race([opening, late]), datagrams, proved);
  } catch (error) {
    const timer = setTimeout(() => leave(transport), patience);
    const done = () => {
      clearTimeout(timer);
      leave(transport);
    };
    opening.then(() => proved(), nothing).then(done); // slow is not blocked: the next connection may be quicker
    throw error;
  }
}

function leave(transport: WebTransport, closeCode = 1000, reason = ""): void {
  try {
    transport.close({ closeCode, reason });
  } catch {
    // It is closed, or never was open.
  }
}

/** A session's stream in the form of a WebSocket. */
class StreamSocket implements Socket {
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  onerror: Socket["onerror"] = null;

  private readonly writer: WritableStreamDefaultWriter<Uint8Array>;
  private readonly decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  private readonly encoder = new TextEncoder();
  private readonly since = Date.now();
  private over = false;
  private lingering: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly transport: WebTransport,
    stream: WebTransportBidirectionalStream,
    datagrams: boolean,
    private proved: Proved,
  ) {
    this.writer = stream.writable.getWriter();
    this.writer.closed.catch(nothing);
    const read = this.read(stream.readable);
    if (datagrams) this.readDatagrams().catch(nothing); // they end with the transport
    // Frames that came before the end are read first.
    transport.closed.then(
      ({ closeCode, reason }) => read.then(() => this.end(closeCode ?? 0, reason ?? "")),
      (error: Error) => read.then(() => this.end(broken, "", error.message)),
    );
  }

  /** The stream is open already: whoever waits for it is told at once. */
  set onopen(opened: Socket["onopen"]) {
    if (opened) queueMicrotask(() => opened(undefined as never));
  }

  get onopen(): Socket["onopen"] {
    return null;
  }

  send(text: string): void {
    this.writer.write(delimit(this.encoder.encode(text))).catch(nothing); // the end of the session tells why
  }

  /** Ends the stream and waits for the server to end the session, since an end of the session drops what is on its way. */
  close(code = 1000, reason = ""): void {
    if (this.over || this.lingering !== undefined) return;
    // A program that leaves soon has not waited for an answer, and says nothing about the network.
    if (Date.now() - this.since >= mute) this.prove(new Error("WebTransport connected, and no answer came"));
    this.proved = nothing;
    this.finish(code, reason);
  }

  private finish(code: number, reason: string): void {
    if (this.over || this.lingering !== undefined) return;
    this.writer.close().catch(nothing);
    this.lingering = setTimeout(() => this.break(code, reason), linger);
  }

  private async read(readable: ReadableStream<Uint8Array>): Promise<void> {
    const frames = new Frames();
    const reader = readable.getReader();
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        frames.take(value, (content) => this.message(content));
      }
    } catch (error) {
      if (error instanceof FrameTooLongError) {
        this.break(tooLong, error.message);
        return;
      }
      // The session has ended, or the server has given up the stream.
    }
    this.finish(broken, "the server ended the stream"); // and may still say why it ends the session
  }

  private async readDatagrams(): Promise<void> {
    const datagrams = this.transport.datagrams as WebTransportDatagramDuplexStream & {
      incomingMaxBufferedDatagrams: number;
    };
    datagrams.incomingHighWaterMark = waitingDatagrams;
    datagrams.incomingMaxBufferedDatagrams = waitingDatagrams; // its name since 2026
    const reader = (datagrams.readable as ReadableStream<Uint8Array>).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.message(value);
    }
  }

  private message(content: Uint8Array): void {
    this.prove();
    if (content.length === 0) return; // a sign of life
    this.onmessage?.({ data: this.decoder.decode(content) });
  }

  private prove(error?: Error): void {
    this.proved(error);
    this.proved = nothing;
  }

  /** Ends the session at once. */
  private break(code: number, reason: string): void {
    leave(this.transport, code, reason);
    this.end(code, reason);
  }

  private end(code: number, reason: string, trouble = ""): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.lingering);
    this.prove(new Error(`WebTransport ended without a word: ${trouble || reason || code}`));
    if (trouble) this.onerror?.({ message: trouble });
    this.onclose?.({ code, reason });
  }
}
