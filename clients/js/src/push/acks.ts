// Acknowledgements by token: what came by push brings one, so nobody has to be signed in.

import { update } from "./store.js";

export type AckEvent = "shown" | "clicked" | "dismissed";

interface Unsent {
  server: string;
  token: string;
  event?: AckEvent | undefined;
}

/**
 * Acknowledges what came by push, if it has a token, and sends what could not be sent before. It is kept first, so that it is sent with the next event where the server cannot be
 * reached, or the browser ends the worker.
 */
export const acknowledge = async (server: string, token?: string, event?: AckEvent): Promise<void> => {
  if (token) {
    const one = { server, token, event };
    // A hundred are kept for a server that cannot be reached; one request carries as many.
    await update<Unsent[]>("unsent", (list = []) => [...list, one].slice(-100)).catch(
      () => tell([one]) as Promise<undefined>, // a browser that keeps nothing
    );
  }
  await sendUnsent();
};

/** Sends what could not be sent before, one request for each server and event. */
export const sendUnsent = async (): Promise<unknown> => {
  const list = (await update<Unsent[]>("unsent").catch(() => {})) ?? [];
  const request = (u: Unsent) => u.server + u.event;
  const requests = [...new Set(list.map(request))];
  return Promise.all(requests.map((r) => tell(list.filter((u) => request(u) === r))));
};

/** Tells a server, and forgets what is told: a server that refuses a token will not take it later. */
const tell = async (some: Unsent[]): Promise<void> => {
  const [{ server, event }] = some as [Unsent];
  const tokens = some.map((u) => u.token);
  const { status } = await post(server, "acks", { tokens, event });
  if (status > 428) return; // 429, and what is the server's own trouble
  await update<Unsent[]>("unsent", (list) => list?.filter((u) => u.event !== event || !tokens.includes(u.token))).catch(
    () => {},
  );
};

/** Tells a server, also where the page or worker ends meanwhile. Offline is as if the server was away. */
export const post = (server: string, path: string, body: unknown, more?: RequestInit): Promise<{ status: number }> =>
  fetch(`${server}/v1/${path}`, {
    method: "POST",
    credentials: "omit",
    keepalive: true,
    body: JSON.stringify(body), // as plain text, which needs no preflight
    ...more,
  }).catch(() => ({ status: 503 }));
