import type { InboxItem } from "./types.js";

/**
 * Puts a site's own picture of an item into the item's slot: what its function draws, or a copy of its
 * <template slot="row">, in which an element with data-inbox="title" (body, category, id) gets that text. It is part of the
 * page, whose style sheets apply.
 */
export function slotted(
  host: HTMLElement,
  item: InboxItem,
  draw: ((item: InboxItem) => Node | undefined) | undefined,
): { update(item: InboxItem): void; remove(): void } | undefined {
  const template = host.querySelector<HTMLTemplateElement>(':scope > template[slot="row"]');
  if (!draw && !template) return undefined;
  const box = document.createElement("div");
  box.slot = `row-${item.id}`;
  const update = (now: InboxItem) => {
    const drawn = draw?.(now) ?? (template && copy(template, now));
    if (drawn) box.replaceChildren(drawn);
    else box.remove();
    if (drawn && !box.isConnected) host.append(box);
    box.toggleAttribute("data-unread", !now.readAt);
  };
  return { update, remove: () => box.remove() };
}

function copy(template: HTMLTemplateElement, item: InboxItem): Node {
  const fragment = document.importNode(template.content, true);
  for (const e of fragment.querySelectorAll<HTMLElement>("[data-inbox]")) {
    const name = e.dataset.inbox as "title" | "body" | "category" | "id";
    e.textContent = String(item[name] ?? "");
    e.dir ||= "auto";
  }
  return fragment;
}
