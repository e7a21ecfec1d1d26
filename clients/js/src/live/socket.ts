import type { TokenSource } from "../token.js";

/** What the listener needs of a WebSocket: the part that browsers' and Node's have in common. */
export interface Socket {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number; reason: string }) => void) | null;
  onerror: ((event: { message?: string }) => void) | null;
}

export type SocketFactory = (url: string, protocols: string[]) => Socket;

/** Opens the connection of a session; a promise where several ways are tried. */
export type Opener = (url: string, protocols: string[]) => Socket | Promise<Socket>;

/** What a listener connects to, and how. */
export interface Connection {
  url: string;
  app: string | undefined;
  token: TokenSource | undefined;
  open: Opener;
  /** The network has changed: what failed before may not now. */
  moved?: (() => void) | undefined;
}

/** The WebSocket that the platform brings. */
export const platformSocket: SocketFactory = (url, protocols) => {
  if (typeof WebSocket === "undefined") {
    throw new Error('there is no WebSocket here: import from "godwit/node", or pass webSocket to the client');
  }
  return new WebSocket(url, protocols) as unknown as Socket;
};
