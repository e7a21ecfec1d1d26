/** An inbox without a picture of it; "godwit/inbox/element" defines the element <godwit-inbox>. */
export { createInbox, Inbox } from "./inbox.js";
export { target } from "./read.js";
export type {
  InboxAction,
  InboxChange,
  InboxItem,
  InboxOptions,
  InboxPreferences,
  InboxState,
  InboxTab,
  InboxUndo,
} from "./types.js";
