/** What the person reads. {n} stands for a number, {title} for the title of an item. */
export interface InboxTexts {
  title: string;
  /** The name of the bell while there is something new. */
  news: string;
  all: string;
  unread: string;
  archived: string;
  readAll: string;
  settings: string;
  back: string;
  close: string;
  open: string;
  archive: string;
  restore: string;
  read: string;
  keepUnread: string;
  pin: string;
  unpin: string;
  pinned: string;
  undo: string;
  didArchive: string;
  didRestore: string;
  didRead: string;
  emptyAll: string;
  emptyUnread: string;
  emptyArchived: string;
  loading: string;
  offline: string;
  failed: string;
  refused: string;
  retry: string;
  came: string;
  answered: string;
  channels: string;
  category: string;
  rest: string;
  quiet: string;
  quietOn: string;
  from: string;
  to: string;
  saved: string;
  webpush: string;
  fcm: string;
  apns: string;
  telegram: string;
  webhook: string;
}

export const english: InboxTexts = {
  title: "Notifications",
  news: "Notifications, {n} new",
  all: "All",
  unread: "Unread",
  archived: "Archived",
  readAll: "Mark all as read",
  settings: "Settings",
  back: "Back to the notifications",
  close: "Close",
  open: "Open",
  archive: "Archive",
  restore: "Take out of the archive",
  read: "Mark as read",
  keepUnread: "Mark as unread",
  pin: "Pin",
  unpin: "Unpin",
  pinned: "Pinned",
  undo: "Undo",
  didArchive: "Archived",
  didRestore: "Taken out of the archive",
  didRead: "Marked as read: {n}",
  emptyAll: "There are no notifications yet.",
  emptyUnread: "You have read everything.",
  emptyArchived: "Nothing is archived.",
  loading: "Loading …",
  offline: "You are offline. What you do here is kept until you are back.",
  failed: "That did not work. Please try again.",
  refused: "Your notifications cannot be shown. Please sign in again.",
  retry: "Try again",
  came: "New notifications: {n}",
  answered: "Answered",
  channels: "How you are told",
  category: "About",
  rest: "Everything else",
  quiet: "Quiet hours",
  quietOn: "Do not disturb me between these times",
  from: "From",
  to: "To",
  saved: "Saved",
  webpush: "Browser",
  fcm: "Android",
  apns: "iPhone",
  telegram: "Telegram",
  webhook: "Webhook",
};

/** A text with its places filled in. */
export const filled = (text: string, values: Record<string, string | number>): string =>
  text.replace(/\{(\w+)\}/g, (all, name: string) => String(values[name] ?? all));
