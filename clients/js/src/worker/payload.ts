/** What a message says; docs/reference/webpush-payload.md is the reference. */
export interface Payload {
  /** Set on what is shown: a site's own worker may show notifications, too. */
  godwit?: boolean;
  id?: string;
  godwit_id?: string;
  /** Acknowledges the notification, without anything else. */
  godwit_ack?: string;
  /** "shown": to be shown is enough. */
  godwit_settle?: string;
  title?: string;
  body?: string;
  icon?: string;
  image?: string;
  url?: string;
  category?: string;
  data?: unknown;
  actions?: { action: string; title: string; icon?: string; url?: string }[];
  require_interaction?: boolean;
  tag?: string;
  /** Of what is shown for the browser's sake alone. */
  silent?: boolean;
  track?: string;
  server?: string;
  recall?: boolean;
  extra?: { url_to_open?: string };
}

/** Reads a message. Text that is no JSON object is shown as it is: a browser insists that something is. */
export const readPayload = (text = ""): Payload => {
  try {
    if (text[0] === "{") return JSON.parse(text);
  } catch {
    // It is plain text.
  }
  return { title: text };
};

/** The address that a click on the notification, or on one of its actions, opens. Only web addresses are. */
export const target = (p: Payload, action: string, base: string): string | undefined => {
  const chosen = action && p.actions?.find((a) => a.action === action)?.url;
  try {
    const { href } = new URL(chosen || p.url || p.extra?.url_to_open || "no:", base);
    if (/^https?:/.test(href)) return href;
  } catch {
    // It is no address.
  }
  return undefined;
};

/**
 * How a message is shown: its fields are named as the browser's options are, which passes over the others. A message
 * that replaces another of its tag makes a sound too, unless the same message was shown before.
 */
export const options = (p: Payload, again?: unknown): object => ({
  ...p,
  renotify: !!p.tag && !again, // without a tag browsers refuse it
  requireInteraction: p.require_interaction,
  data: { ...p, godwit: true },
});
