// Reasons why notifications cannot be turned on, each in two wordings: for the site's developer in the console, and for
// the visitor.

import { EndpointError } from "./endpoint.js";

/**
 * "app": the server has no such app, or it does not use Web Push; "origin": the app does not take pages of this origin;
 * "server": it does not answer; "worker": the service worker's file is missing or broken; "taken": the place is that of
 * somebody else's worker or subscription; "service": the browser's push service refuses.
 */
export type FailureReason = "app" | "origin" | "server" | "worker" | "taken" | "service";

/** Why this browser could not be subscribed. The message has the cause and what to do. */
export class PushError extends Error {
  override name = "PushError";

  constructor(
    readonly reason: FailureReason,
    message: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** What stands in the way of a browser that could do Web Push elsewhere: a page without https, or one not on the home screen. */
export type Obstacle = "insecure" | "homeScreen";

export function obstacle(): Obstacle | undefined {
  if (!isSecureContext) return "insecure";
  const phone = navigator as { standalone?: boolean }; // only iPhones and iPads say so
  return phone.standalone === false && !("PushManager" in globalThis) ? "homeScreen" : undefined;
}

/** Adds to what the server answered, or that it did not, what to do about it. */
export function explained(error: unknown, server: string, app: string): unknown {
  if (!(error instanceof EndpointError)) return error;
  const { status, message, method } = error;
  const asked = `app "${app}" of ${server}: ${message}. `;
  const make = (reason: FailureReason, todo: string) => {
    const e = new EndpointError(status, asked + todo, method);
    e.reason = reason;
    return e;
  };
  // The key may be read by any page, and was: a browser hides the answer from origins that may not register.
  if (status === 403 || (status === 0 && method === "POST")) {
    return make("origin", `Allow this page: godwit app allow-anonymous ${app} --origin ${location.origin}`);
  }
  if (status === 0) return make("server", "Is it running, reached by https, and in the page's connect-src?");
  if (status === 429 || status >= 500) return make("server", "Later it may work; the server's log says more");
  return make("app", "Does data-app name an app of this server (godwit app list) that uses Web Push?");
}

/** For whoever runs the site. */
export function complain(error: unknown): void {
  // biome-ignore lint/suspicious/noConsole: the page's owner has to know
  console.error("godwit:", error);
}
