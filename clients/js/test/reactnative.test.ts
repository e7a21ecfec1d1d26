import { readFileSync } from "node:fs";
import { afterEach, expect, test, vi } from "vitest";
import { cutReason } from "../src/live/nack.js";
import { Client, type Notification, wsSocket } from "../src/node.js";
import { Server } from "./support/server.js";
import { eventually } from "./support/wait.js";

const page = readFileSync(new URL("../../../docs/guides/react-native.md", import.meta.url), "utf8");
const browser = { crypto, TextDecoder, AbortSignal, URL };

/** Takes away what React Native lacks and the client could notice. */
function reactNative() {
  for (const name of ["crypto", "TextDecoder", "localStorage", "document", "addEventListener", "EventSource"]) {
    vi.stubGlobal(name, undefined);
  }
  vi.stubGlobal("AbortSignal", class {});
  vi.stubGlobal(
    "URL",
    class extends browser.URL {
      override get searchParams(): URLSearchParams {
        throw new Error("URLSearchParams.set is not implemented");
      }
    },
  );
}

/** Runs the lines that the guide has an app import first. Its packages give back what was taken. */
function imported() {
  vi.stubGlobal("crypto", browser.crypto);
  vi.stubGlobal("URL", browser.URL);
  const lines = /```js\n(import "react-native-get-random-values".*?)```/s.exec(page)?.[1] ?? "";
  const code = lines.replaceAll(/^import .*$/gm, "");
  expect(code).toContain("TextDecoder ??=");
  new Function("TextDecoder", code)(browser.TextDecoder);
}

afterEach(() => vi.unstubAllGlobals());

test("a client listens and publishes with what the guide adds to React Native", async () => {
  const server = await Server.start();
  reactNative();
  const got: Notification[] = [];
  imported();
  const client = new Client(server.url, { app: "demo", webSocket: wsSocket });
  const listener = client.listen("driver-42", (n) => void got.push(n), { device: "phone", group: "region-1" });
  const versions: string[] = [];
  listener.register("camera-config", ({ version }) => void versions.push(version));
  const api = new Client(server.url, { apiKey: "dev" });
  const { id } = await api.publish({ to: "driver-42", title: "New ride" });
  await eventually("it is acknowledged", async () => (await api.status(id, "driver-42")).status === "acked");
  expect(got.map((n) => n.title)).toEqual(["New ride"]);
  await api.putObject("region-1", "camera-config", { version: "7", payload: { fps: 5 } });
  await eventually("the version comes", () => versions.includes("7"));
  expect(cutReason("blåbær")).toBe("blåbær");
  await listener.close();
});

test("the guide adds nothing that is not needed", async () => {
  const server = await Server.start();
  reactNative();
  const api = new Client(server.url, { apiKey: "dev" });
  expect(() => cutReason("why")).toThrow();
  await expect(api.publish({ to: "driver-42", title: "New ride" })).rejects.toThrow();
  vi.stubGlobal("crypto", browser.crypto);
  await expect(api.status("ride-1", "driver-42")).rejects.toThrow("not implemented");
  vi.stubGlobal("URL", browser.URL);
  await expect(api.status("ride-1", "driver-42")).rejects.toThrow("404");
});

test("a call without an answer ends in time, and when its caller gives up", async () => {
  reactNative();
  imported();
  const silent = ((_url: unknown, { signal }: { signal: AbortSignal }) =>
    new Promise((_answer, fail) => {
      signal.addEventListener("abort", () => fail(signal.reason));
    })) as typeof fetch;
  const api = new Client("http://localhost:1", { apiKey: "dev", fetch: silent, attempts: 1, timeout: 10 });
  await expect(api.status("ride-1", "driver-42")).rejects.toThrow("no answer within 10 ms");
  const patient = new Client("http://localhost:1", { apiKey: "dev", fetch: silent, attempts: 1 });
  const caller = new AbortController();
  const call = patient.call("GET", "/v1/channels", { signal: caller.signal });
  caller.abort(new Error("nobody waits"));
  await expect(call).rejects.toThrow("nobody waits");
});
