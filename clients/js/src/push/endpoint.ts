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

export async function call<T>(
  server: string,
  method: string,
  path: string,
  body?: unknown,
  token?: string,
): Promise<T> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token) headers.Authorization = `Bearer ${token}`;
  const init: RequestInit = { method, headers, credentials: "omit" };
  if (body !== undefined) init.body = JSON.stringify(body);
  const response = await fetch(server + path, init).catch((error: unknown) => {
    throw new EndpointError(0, `${method} ${server}${path}: no answer (${error})`, method);
  });
  const text = await response.text();
  let answer: { detail?: string } = {};
  try {
    answer = JSON.parse(text) as { detail?: string };
  } catch {
    // Not JSON: nothing to read from it.
  }
  if (!response.ok) throw new EndpointError(response.status, answer.detail ?? "", method);
  return answer as T;
}

/** The server's public key, with which a subscription is made. */
export async function serverKey(server: string, app: string): Promise<string> {
  const path = `/v1/webpush/key?app=${encodeURIComponent(app)}`;
  return (await call<{ public_key: string }>(server, "GET", path)).public_key;
}

/** Whether an endpoint that was created is gone on the server: it forgot it, or the token is no longer good. */
function isGone(error: unknown): boolean {
  return error instanceof EndpointError && [401, 403, 404, 410].includes(error.status);
}

const endpointPath = (kept: Kept) =>
  `/v1/endpoints/${encodeURIComponent(kept.id ?? "")}?app=${encodeURIComponent(kept.app)}`;

/** Whether the server knows the endpoint and would send to it. */
async function known(kept: Kept): Promise<boolean> {
  try {
    const e = await call<{ status?: string }>(kept.server, "GET", endpointPath(kept), undefined, kept.manageToken);
    return e.status !== "disabled";
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
}

/**
 * Tells the server of a subscription and keeps what it answers. An endpoint that the server knows keeps its tags and
 * gets the new address. A client's token names the recipient.
 */
export async function register(kept: Kept, subscription: PushSubscription, token?: string): Promise<void> {
  if (token || !kept.id || !(await known(kept))) {
    await create(kept, subscription, token);
    return;
  }
  if (subscription.endpoint !== kept.address) await change(kept, { address: subscription.toJSON() });
  await save({ ...kept, address: subscription.endpoint, checkedAt: Date.now() });
}

async function create(kept: Kept, subscription: PushSubscription, token?: string): Promise<void> {
  const made = await call<{ id: string; manage_token?: string }>(
    kept.server,
    "POST",
    `/v1/endpoints?app=${encodeURIComponent(kept.app)}`,
    {
      channel: "webpush",
      address: subscription.toJSON(),
      tags: kept.tags,
      attributes: kept.attributes,
      locale: navigator.language,
      timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    },
    token,
  );
  const next: Kept = { ...kept, id: made.id, address: subscription.endpoint, checkedAt: Date.now() };
  if (made.manage_token) next.manageToken = made.manage_token;
  await save(next);
}

/** Changes tags or attributes on the server. */
export async function change(kept: Kept, fields: Record<string, unknown>): Promise<void> {
  await call(kept.server, "PATCH", endpointPath(kept), fields, kept.manageToken);
}

/** Makes the server forget the endpoint. That it has already is fine. */
export async function remove(kept: Kept): Promise<void> {
  if (!kept.id) return;
  try {
    await call(kept.server, "DELETE", endpointPath(kept), undefined, kept.manageToken);
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

/** The bytes of base64url text, as pushManager.subscribe takes them. */
export function keyBytes(text: string): Uint8Array<ArrayBuffer> {
  const standard = text.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(standard), (c) => c.charCodeAt(0));
}
