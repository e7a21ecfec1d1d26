/** Client of the Godwit notification service for Node: the same as in browsers, with a WebSocket from the package ws. */

import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { WebSocket } from "ws";
import { type ClientOptions, Client as PlatformClient } from "./client.js";
import type { Socket, SocketFactory } from "./live/socket.js";
import type { StateStore } from "./live/state.js";

export * from "./index.js";

/** The largest frame a server sends: a request of 1 MiB whose every byte needs escaping, with its headers. */
const maxFrame = 7 << 20;

/** Opens WebSockets in Node; for createInbox, which a browser needs none for. */
export const wsSocket: SocketFactory = (url, protocols) =>
  new WebSocket(url, protocols, { maxPayload: maxFrame, perMessageDeflate: false }) as unknown as Socket;

export class Client extends PlatformClient {
  constructor(server: string, options: ClientOptions = {}) {
    super(server, { webSocket: wsSocket, ...options });
  }
}

/** Keeps what a `StateStore` is for in a file, which is replaced whole: after a crash there is the old one or the new one. */
export class FileState implements StateStore {
  constructor(private readonly filename: string) {}

  load(): string | undefined {
    try {
      return readFileSync(this.filename, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  save(text: string): void {
    const temporary = `${this.filename}.new`;
    const file = openSync(temporary, "w", 0o600);
    try {
      writeFileSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, this.filename);
  }
}
