import { parts } from "./parts.js";
import type { Opener, Socket, SocketFactory } from "./socket.js";

export interface WebTransportOptions {
  /** The server's URL over QUIC, if it is another than the client's: "https://push.example.org:4433". */
  url?: string | URL;
  /**
   * SHA-256 of certificates that no authority has signed. Browsers take such ones if they are of ECDSA P-256 and valid for
   * two weeks at most.
   */
  serverCertificateHashes?: { algorithm: "sha-256"; value: ArrayBuffer | Uint8Array<ArrayBuffer> }[];
  /** Messages of topics may come as datagrams: a lost packet holds nothing up, and what was in it does not come. */
  datagrams?: boolean;
  /** Why a WebSocket is used instead. */
  onFallback?: (error: Error) => void;
}

/** How long WebTransport may take to connect before a WebSocket does it, in milliseconds. */
const patience = 900;
/** After a failure WebTransport is not tried for so long, doubling with each further one; in milliseconds. */
const rest = 300_000;
const longestRest = 3_600_000;

/** Opens WebTransport where it works, else a WebSocket. */
export class Preference {
  private restsUntil = 0;
  private failures = 0;

  constructor(
    private readonly url: string,
    private readonly o: WebTransportOptions,
    private readonly webSocket: SocketFactory,
  ) {}

  readonly open: Opener = async (url, protocols) => {
    if (Date.now() >= this.restsUntil) {
      try {
        return await this.webTransport(protocols[0] as string);
      } catch (error) {
        this.failed(error as Error);
      }
    }
    return this.webSocket(url, protocols);
  };

  /** The network is another one, or works: what failed before counts no more. */
  readonly moved = (): void => {
    this.restsUntil = this.failures = 0;
  };

  private async webTransport(protocol: string): Promise<Socket> {
    if (typeof WebTransport === "undefined") throw new Error("there is no WebTransport here");
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = new Error(`WebTransport did not connect in ${patience} ms: UDP may be blocked`);
      timer = setTimeout(() => reject(error), patience);
    });
    const { serverCertificateHashes, datagrams = false } = this.o;
    const query = new URLSearchParams({ protocol, ...(datagrams ? { datagrams: "1" } : {}) });
    const place = { url: `${this.url}?${query}`, serverCertificateHashes, datagrams };
    try {
      const { connect } = await Promise.race([parts.webTransport(), late]);
      return await connect(place, late, (error) => (error ? this.failed(error) : this.moved()));
    } finally {
      clearTimeout(timer);
    }
  }

  private failed(error: Error): void {
    if (Date.now() < this.restsUntil) return; // another listener has told
    this.restsUntil = Date.now() + Math.min(longestRest, rest * 2 ** this.failures++);
    try {
      this.o.onFallback?.(error);
    } catch (thrown) {
      // biome-ignore lint/suspicious/noConsole: what a callback throws ends nothing and must not vanish
      console.error("godwit:", thrown);
    }
  }
}
