import { execFileSync } from "node:child_process";
import { createECDH, randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import ece from "http_ece";
import { onTestFinished } from "vitest";
import type { Subscriptions } from "./browser.js";

/** A push service with TLS, which a server sends to, and the browser that its messages are encrypted for. */
export class PushService {
  /** The messages, decrypted as a browser does, in the order in which they came. */
  readonly messages: Record<string, unknown>[] = [];
  readonly headers: Record<string, unknown>[] = [];
  /** What a server needs to trust this one. */
  readonly certificate: string;
  private readonly dir = mkdtempSync(join(tmpdir(), "godwit-push-"));
  private readonly keys = createECDH("prime256v1");
  private readonly auth = randomBytes(16);
  private url = "";

  private constructor() {
    this.keys.generateKeys();
    const goroot = execFileSync("go", ["env", "GOROOT"], { encoding: "utf8" }).trim();
    const tool = join(goroot, "src/crypto/tls/generate_cert.go");
    execFileSync("go", ["run", tool, "--ca", "--ecdsa-curve", "P256", "--host", "127.0.0.1"], {
      cwd: this.dir,
      stdio: "ignore",
    });
    this.certificate = join(this.dir, "cert.pem");
  }

  static async start(): Promise<PushService> {
    const p = new PushService();
    const tls = { cert: readFileSync(p.certificate), key: readFileSync(join(p.dir, "key.pem")) };
    const server = createServer(tls, (req, res) => {
      const parts: Buffer[] = [];
      req.on("data", (b: Buffer) => parts.push(b));
      req.on("end", () => {
        const params = { version: "aes128gcm", privateKey: p.keys, authSecret: p.auth.toString("base64url") };
        p.messages.push(JSON.parse(ece.decrypt(Buffer.concat(parts), params).toString("utf8")));
        p.headers.push(req.headers);
        res.writeHead(201, { Location: `${p.url}message` }).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    p.url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/send/`;
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
      rmSync(p.dir, { recursive: true, force: true });
    });
    return p;
  }

  get subscriptions(): Subscriptions {
    return { url: this.url, p256dh: this.keys.getPublicKey("base64url"), auth: this.auth.toString("base64url") };
  }
}
