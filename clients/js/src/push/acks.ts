// Acknowledgements by token: what came by push brings one, so nobody has to be signed in.

import { get, update } from "./store.js";

export type AckEvent = "shown" | "clicked" | "dismissed";

interface Unsent {
  server: string;
  token: string;
  event?: AckEvent;
}

/** How many are kept for a server that cannot be reached; one request carries as many. */
const mostUnsent = 100;

/**
 * Acknowledges what came by push. It is kept first, so that it is sent with the next event where the server cannot be
 * reached, or the browser ends the worker.
 */
export async function acknowledge(server: string, token: string, event?: AckEvent): Promise<void> {
  const one: Unsent = event ? { server, token, event } : { server, token };
  try {
    await update<Unsent[]>("unsent", (list = []) => [...list, one].slice(-mostUnsent));
  } catch {
    await post([one]); // a browser that keeps nothing
    return;
  }
  await sendUnsent();
}

/** Sends what could not be sent before. */
export async function sendUnsent(): Promise<void> {
  const list = (await get<Unsent[]>("unsent")) ?? [];
  const requests = new Map<string, Unsent[]>();
  for (const u of list) {
    const key = JSON.stringify([u.server, u.event]);
    requests.set(key, [...(requests.get(key) ?? []), u]);
  }
  const sent = new Set<string>();
  const tell = async (some: Unsent[]) => {
    if (await post(some)) for (const u of some) sent.add(JSON.stringify(u));
  };
  await Promise.all([...requests.values()].map(tell));
  if (sent.size === 0) return;
  await update<Unsent[]>("unsent", (now = []) => now.filter((u) => !sent.has(JSON.stringify(u))));
}

/** Tells a server and returns whether that is done with: a server that refuses a token will not take it later. */
async function post(some: Unsent[]): Promise<boolean> {
  const [{ server, event }] = some as [Unsent];
  const tokens = [...new Set(some.map((u) => u.token))];
  try {
    const response = await fetch(`${server}/v1/acks`, {
      method: "POST",
      credentials: "omit",
      keepalive: true,
      headers: { "Content-Type": "text/plain" }, // needs no preflight
      body: JSON.stringify(event ? { tokens, event } : { tokens }),
    });
    return response.status < 500 && response.status !== 429;
  } catch {
    return false; // offline, or the server is away
  }
}
