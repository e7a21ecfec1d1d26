/** The inbox in React: the element as a component, and the inbox without a picture as a hook. */

import { createElement, type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { define, type GodwitInbox, type InboxCategory } from "./element.js";
import { createInbox, type Inbox } from "./inbox.js";
import type { InboxAction, InboxItem, InboxOptions, InboxState } from "./types.js";
import type { InboxTexts } from "./words.js";

export interface GodwitInboxProps {
  app?: string;
  recipient?: string;
  token?: InboxOptions["token"];
  url?: string;
  category?: string;
  view?: "popover" | "page";
  theme?: "light" | "dark" | "auto";
  className?: string;
  texts?: Partial<InboxTexts>;
  row?: (item: InboxItem) => Node | undefined;
  categories?: readonly InboxCategory[];
  channels?: readonly string[];
  /** preventDefault leaves to the page what a click on an item does. */
  onOpen?: (event: CustomEvent<{ item: InboxItem }>) => void;
  onAction?: (event: CustomEvent<{ item: InboxItem; action: InboxAction }>) => void;
  onChange?: (event: CustomEvent<{ unseen: number; unread: number }>) => void;
  onError?: (event: CustomEvent<{ error: unknown }>) => void;
  /** Elements for the element's slots. */
  children?: ReactNode;
}

/** <godwit-inbox> with its properties and events. On a server it is an empty element. */
export function GodwitInboxElement(props: GodwitInboxProps): ReactNode {
  const { token, texts, row, categories, channels, onOpen, onAction, onChange, onError, children, className, ...more } =
    props;
  const element = useRef<GodwitInbox>(null);
  const on = useRef({ onOpen, onAction, onChange, onError });
  on.current = { onOpen, onAction, onChange, onError };
  useEffect(define, []);
  useEffect(() => {
    if (element.current) Object.assign(element.current, { token, texts, row, categories, channels });
  }, [token, texts, row, categories, channels]);
  useEffect(() => {
    const e = element.current;
    const listen = (name: string, key: keyof typeof on.current) => {
      const call = (event: Event) => (on.current[key] as ((event: Event) => void) | undefined)?.(event);
      e?.addEventListener(name, call);
      return () => e?.removeEventListener(name, call);
    };
    const ends = [
      listen("godwit-open", "onOpen"),
      listen("godwit-action", "onAction"),
      listen("godwit-change", "onChange"),
      listen("godwit-error", "onError"),
    ];
    return () => ends.forEach((end) => void end());
  }, []);
  return createElement("godwit-inbox", { ...more, class: className, ref: element }, children);
}

/** The inbox of a recipient, and its state; other options than those of the first time are passed over. */
export function useInbox(options: InboxOptions): { inbox: Inbox; state: InboxState } {
  const [inbox] = useState(() => createInbox(options));
  return { inbox, state: useSyncExternalStore(inbox.subscribe, inbox.getState, inbox.getState) };
}
