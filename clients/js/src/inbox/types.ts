import type { SocketFactory } from "../live/socket.js";
import type { TokenSource } from "../token.js";

/** A button of an item: to press it answers the notification. */
export interface InboxAction {
  id: string;
  title: string;
  /** Where it leads, if anywhere. */
  url?: string;
}

/** One notification of an inbox. Its texts are plain text, never markup. */
export interface InboxItem {
  id: string;
  title: string;
  body: string;
  category: string;
  /** What was published with it; `data.url` is where a click leads. */
  data: unknown;
  actions: readonly InboxAction[];
  createdAt: Date;
  /** When a list with it was opened; undefined: none was. */
  seenAt: Date | undefined;
  readAt: Date | undefined;
  archivedAt: Date | undefined;
  pinned: boolean;
  /** The id of the action that was chosen, here or elsewhere. */
  answered: string | undefined;
}

/** Which items a list has: all that are not archived, those of them that are unread, or what is archived. */
export type InboxTab = "all" | "unread" | "archived";

export interface InboxChange {
  read?: boolean;
  archived?: boolean;
  pinned?: boolean;
  /** The id of an action, which answers the notification. */
  answered?: string;
}

/** What can be taken back. */
export interface InboxUndo {
  what: "archived" | "restored" | "read";
  count: number;
}

/** Everything that is to be shown. It is never changed: each change makes another one. */
export interface InboxState {
  /** How many items came since the list was last opened. */
  unseen: number;
  unread: number;
  tab: InboxTab;
  /** The only category in the list; "": all. */
  category: string;
  /** The newest first; before them, where the tab is "all", those that are pinned. */
  items: readonly InboxItem[];
  /** Whether there are items after the last one; `more` fetches them. */
  more: boolean;
  /** Whether the list, or more of it, is being fetched. */
  loading: boolean;
  /** Why the list, or a change, did not succeed; undefined once it has. */
  error: Error | undefined;
  /** "refused": the server does not let this client in, and trying again would not help. */
  connection: "connecting" | "live" | "offline" | "refused";
  undo: InboxUndo | undefined;
}

export interface InboxOptions {
  /** The server's http or https URL. */
  url: string | URL;
  /** Names the app, where the token does not say it and the server has several. */
  app?: string | undefined;
  /** May be left out where a token says it. */
  recipient?: string | undefined;
  /** A recipient's token, or a function that gets one. */
  token?: TokenSource | undefined;
  tab?: InboxTab | undefined;
  category?: string | undefined;
  /** How many items are fetched at once, 1 to 100; default 30. */
  pageSize?: number | undefined;
  fetch?: typeof fetch | undefined;
  webSocket?: SocketFactory | undefined;
}

/** Which channels may be used beyond the live connection; docs/guides/preferences.md has what it means. */
export interface InboxPreferences {
  categories?: { [category: string]: { channels?: string[] } };
  quiet_hours?: { from: string; to: string };
  timezone?: string;
  [more: string]: unknown;
}
