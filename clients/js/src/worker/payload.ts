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
  track?: string;
  server?: string;
  recall?: boolean;
  extra?: { url_to_open?: string };
}

/** Reads a message. Text that is no JSON object is shown as it is: a browser insists that something is. */
export function readPayload(text: string): Payload {
  try {
    const p: unknown = JSON.parse(text);
    if (typeof p === "object" && p !== null && !Array.isArray(p)) return p as Payload;
  } catch {
    // It is plain text.
  }
  return { title: text };
}

/** The address that a click on the notification, or on one of its actions, opens. Only web addresses are. */
export function target(p: Payload, action: string, base: string): string | undefined {
  const chosen = p.actions?.find((a) => a.action === action && action !== "");
  const address = chosen?.url || p.url || p.extra?.url_to_open;
  if (!address) return undefined;
  try {
    const url = new URL(address, base);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** Options beyond those that the types of every browser know. */
export type ShowOptions = NotificationOptions & {
  image?: string;
  actions?: { action: string; title: string; icon?: string }[];
};

/** How a message is shown. */
export function options(p: Payload): ShowOptions {
  const o: ShowOptions = { data: { ...p, godwit: true } satisfies Payload };
  if (p.body) o.body = p.body;
  if (p.icon) o.icon = p.icon;
  if (p.image) o.image = p.image;
  if (p.tag) o.tag = p.tag;
  if (p.require_interaction) o.requireInteraction = true;
  if (p.actions) {
    o.actions = p.actions.map(({ action, title, icon }) => (icon ? { action, title, icon } : { action, title }));
  }
  return o;
}
