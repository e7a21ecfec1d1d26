import type { FailureReason } from "./failure.js";
import { type Kept, save } from "./store.js";

/** What the server answered instead of doing what was asked; status 0: nothing that this page may read. */
export class EndpointError extends Error {
  override name = "EndpointError";
  /** What is to blame, where that is known. */
  declare reason?: FailureReason;

  constructor(
    readonly status: number,
    detail: string,
    readonly method = "",
  ) {
    super(detail || `server answered ${status}`);
  }
}

/** Who is asked, and for which app. */
type Server = Pick<Kept, "server" | "app">;

export async function call<T>(
  { server, app }: Server,
  method: string,
  path: string,
  token?: string,
  body?: unknown,
): Promise<T> {
  const url = `${server}/v1/${path}?app=${encodeURIComponent(app)}`;
  const init: RequestInit = {
    method,
    headers: {
      ...(body ? { "Content-Type": "application/json" } : {}),
      ...(token ? { Authorization: `Bearer ${token}` } : {}),
    },
    credentials: "omit",
  };
  if (body) init.body = JSON.stringify(body);
  const response = await fetch(url, init).catch((error: unknown) => {
    throw new EndpointError(0, `${method} ${url}: no answer (${error})`, method);
  });
  const answer = await response.json().catch(() => ({})); // not JSON: nothing to read from it
  if (!response.ok) throw new EndpointError(response.status, answer.detail, method);
  return answer;
}

/** The server's public key, with which a subscription is made. */
export const serverKey = async (at: Server): Promise<string> =>
  (await call<{ public_key: string }>(at, "GET", "webpush/key")).public_key;

/** Asks for, changes (PATCH) or removes (DELETE) the endpoint; undefined where the server has forgotten it, or the token is no longer good. */
export const endpoint = (kept: Kept, method: string, fields?: object): Promise<{ status?: string } | undefined> =>
  call<{ status?: string }>(kept, method, `endpoints/${kept.id}`, kept.manageToken, fields).catch((error) => {
    if (![401, 403, 404, 410].includes(error.status)) throw error;
    return undefined;
  });

/**
 * Tells the server of a subscription and keeps what it answers. An endpoint that the server knows, and would send to,
 * keeps its tags and gets the new address. A client's token names the recipient.
 */
export async function register(kept: Kept, subscription: PushSubscription, token?: string): Promise<void> {
  const { endpoint: address } = subscription;
  const next = { ...kept, address, checkedAt: Date.now() };
  const moved = address !== kept.address;
  const known =
    !token && kept.id && (await endpoint(kept, moved ? "PATCH" : "GET", moved ? { address: subscription } : undefined));
  if (!known || known.status === "disabled") {
    const made = await call<{ id: string; manage_token?: string }>(kept, "POST", "endpoints", token, {
      channel: "webpush",
      address: subscription, // which knows how to become JSON
      tags: kept.tags,
      attributes: kept.attributes,
      locale: navigator.language,
      timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    });
    next.id = made.id;
    if (made.manage_token) next.manageToken = made.manage_token;
  }
  await save(next, next);
}
