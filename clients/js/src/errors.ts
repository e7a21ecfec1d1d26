/** What the server answered instead of doing what was asked: an RFC 9457 problem. */
export class GodwitError extends Error {
  override name = "GodwitError";

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** "/problems/mailbox-full": stable, for programs. */
    readonly type: string,
    readonly title: string,
    readonly detail: string,
    /** The field of the request that is to blame, where there is one. */
    readonly field: string | undefined,
    /** Milliseconds the server asked to wait; 0: it did not say. */
    readonly retryAfter: number,
  ) {
    super(`server answered ${status}: ${detail || title || "no reason given"}`);
  }

  /** Whether the same request may succeed later. */
  get temporary(): boolean {
    return [408, 429, 500, 502, 503, 504].includes(this.status);
  }
}

/**
 * The server does not let this client connect, or not any more, and trying again as it is would not help. The reason
 * is that of the server's goodbye: unauthenticated, forbidden, replaced, …
 */
export class RefusedError extends Error {
  override name = "RefusedError";

  constructor(
    readonly reason: string,
    detail?: string,
  ) {
    super(`server refused the session: ${detail ?? reason}`);
  }
}

/**
 * Something that the server sent cannot be read. It ends nothing: a notification is asked for again, an object is not
 * acknowledged, and anything else is passed over.
 */
export class UndecodableError extends Error {
  override name = "UndecodableError";

  constructor(
    /** Names the member at fault first: "data: is not JSON". */
    readonly reason: string,
    /** Of the notification; "": it was none, or its id cannot be read either. */
    readonly id = "",
    /** "group/object", where it was one. */
    readonly object = "",
  ) {
    const what = id ? `notification ${id}` : object ? `object ${object}` : "a frame of the server";
    super(`cannot read ${what}: ${reason}`);
  }
}

/** The server refused patterns for good: the token does not allow them, or a session may not have so many. */
export class SubscriptionError extends Error {
  override name = "SubscriptionError";

  constructor(
    readonly topics: string[],
    /** "forbidden" or "too_many_topics". */
    readonly code: string,
    message: string,
  ) {
    super(`server refused to subscribe: ${message} (${code})`);
  }
}

/** The server refused patterns of subjects for good: the token does not allow them, or a session has too many. */
export class ServeError extends Error {
  override name = "ServeError";

  constructor(
    readonly subjects: string[],
    /** "forbidden" or "too_many_subjects". */
    readonly code: string,
    message: string,
  ) {
    super(`server refused to serve: ${message} (${code})`);
  }
}

/**
 * Nobody was asked: nobody serves the subject, all who do are busy, or the recipient is not connected. Asking again is
 * harmless.
 */
export class NobodyServesError extends GodwitError {
  override name = "NobodyServesError";
}

/** The server could not be reached, or did not answer in time. Status 0; the cause is the platform's error. */
export class UnreachableError extends GodwitError {
  override name = "UnreachableError";

  constructor(
    method: string,
    /** What was asked for, without its query. */
    readonly url: string,
    cause: unknown,
  ) {
    const why = reasonOf(cause);
    super(0, "/problems/unreachable", "Server unreachable", why, undefined, 0);
    this.message = `${method} ${url}: no answer: ${why}. Is the server running, and is this its address?`;
    this.cause = cause;
  }

  override get temporary(): boolean {
    return true;
  }
}

/** Node says "fetch failed" and keeps what failed in the cause. */
function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: { message?: string; code?: string } };
  return cause?.message || cause?.code || (error instanceof Error ? error.message : String(error));
}

/** No answer came in time, or the worker's connection ended first. It may have done what it was asked. */
export class NoAnswerError extends GodwitError {
  override name = "NoAnswerError";
}

/** The reason of a handler's signal when its notification was settled elsewhere or withdrawn. */
export class RecalledError extends Error {
  override name = "RecalledError";

  constructor(readonly id: string) {
    super(`notification ${id} was recalled`);
  }
}

/** Thrown by a handler, asks for the notification again after a while. */
export class RedeliverAfter extends Error {
  override name = "RedeliverAfter";

  constructor(
    /** Milliseconds or "30s"; at most 24 h. */
    readonly after: number | string,
    readonly why?: string,
  ) {
    super(`redeliver after ${after}${why ? `: ${why}` : ""}`);
  }
}

interface Problem {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  field?: string;
}

const kinds: { [type: string]: typeof GodwitError } = {
  "/problems/nobody-serves": NobodyServesError,
  "/problems/workers-busy": NobodyServesError,
  "/problems/not-connected": NobodyServesError,
  "/problems/no-answer": NoAnswerError,
  "/problems/worker-gone": NoAnswerError,
};

export function problemError(p: Problem, status: number, retryAfter = 0): GodwitError {
  return new (kinds[p.type ?? ""] ?? GodwitError)(
    status,
    p.type ?? "",
    p.title ?? "",
    p.detail ?? "",
    p.field,
    retryAfter,
  );
}

/** Reads what a response that is no success says. */
export async function responseError(response: Response): Promise<GodwitError> {
  const text = await response.text().catch(() => "");
  let problem: Problem;
  try {
    problem = JSON.parse(text) as Problem;
  } catch {
    problem = { detail: text.slice(0, 200).trim() };
  }
  return problemError(problem, response.status, retryAfter(response.headers.get("Retry-After"), Date.now()));
}

/** Reads Retry-After (RFC 9110, section 10.2.3): seconds or a date. Milliseconds. */
export function retryAfter(header: string | null, now: number): number {
  if (!header) return 0;
  if (/^\d+$/.test(header)) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? 0 : Math.max(0, at - now);
}
