// The page of preferences, loaded when somebody opens it.

import { h, say } from "./dom.js";
import type { Inbox } from "./inbox.js";
import { preferenceStyle } from "./preferencestyle.js";
import type { InboxPreferences } from "./types.js";
import type { InboxTexts } from "./words.js";

/** All that a category may use; a category that may use all of them has no list. */
const all = ["webpush", "fcm", "apns", "telegram", "webhook"] as const;

/** The category that stands for all that are not named. */
const others = "*";

interface Host {
  readonly texts: InboxTexts;
  readonly categories: readonly { id: string; label: string }[];
  readonly channels: readonly string[];
}

/** Draws a person's preferences and stores what is changed at once. */
export function preferencesPage(inbox: Inbox, host: Host, root: ShadowRoot): { element: HTMLElement } {
  const { texts } = host;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(preferenceStyle);
  root.adoptedStyleSheets = [...root.adoptedStyleSheets.slice(0, 1), sheet];
  const said = h("p", { class: "said", role: "status" });
  const element = h("div", { part: "preferences", class: "prefs" }, said);
  let stored: InboxPreferences = {};
  let saving = Promise.resolve();

  say(said, texts.loading);
  const fill = () =>
    inbox.preferences().then(
      (p) => {
        stored = p ?? {};
        say(said, "");
        element.replaceChildren(table(), quiet(), said);
      },
      () => say(said, texts.failed),
    );
  void fill();

  /** Stores the preferences, one version after the other. What cannot be stored is shown as it was. */
  const save = (change: (p: InboxPreferences) => void): void => {
    saving = saving.then(async () => {
      const next = structuredClone(stored);
      change(next);
      try {
        await inbox.setPreferences(next);
        stored = next;
        say(said, "");
        say(said, texts.saved);
      } catch {
        element.replaceChildren(table(), quiet(), said);
        say(said, texts.failed);
      }
    });
  };

  const allowed = (category: string, channel: string): boolean => {
    const choice = stored.categories?.[category] ?? stored.categories?.[others];
    return choice?.channels?.includes(channel) ?? true;
  };

  const choose = (category: string, channel: string, on: boolean): void =>
    save((p) => {
      const of = p.categories?.[category] ?? p.categories?.[others];
      const now = new Set<string>(of?.channels ?? all);
      if (on) now.add(channel);
      else now.delete(channel);
      const channels = all.filter((each) => now.has(each));
      p.categories = { ...p.categories, [category]: channels.length === all.length ? {} : { channels } };
    });

  function table(): HTMLElement {
    const channels = all.filter((c) => host.channels.includes(c));
    const rows = [...host.categories];
    for (const id of Object.keys(stored.categories ?? {})) {
      if (id !== others && !rows.some((r) => r.id === id)) rows.push({ id, label: id });
    }
    rows.push({ id: others, label: texts.rest });
    const head = h("tr", {}, h("th", { scope: "col" }, texts.category));
    for (const c of channels) head.append(h("th", { scope: "col" }, texts[c]));
    const body = rows.map(({ id, label }) => {
      const line = h("tr", {}, h("th", { scope: "row", dir: "auto" }, label));
      for (const c of channels) line.append(h("td", {}, h("label", {}, box(id, c, `${label}: ${texts[c]}`))));
      return line;
    });
    const drawn = h("table", { "aria-label": texts.channels }, h("thead", {}, head), h("tbody", {}, ...body));
    return h("div", {}, h("h3", {}, texts.channels), drawn);
  }

  function box(category: string, channel: string, name: string): HTMLElement {
    const b = h("input", { type: "checkbox", "aria-label": name });
    b.checked = allowed(category, channel);
    b.addEventListener("change", () => choose(category, channel, b.checked));
    return b;
  }

  function quiet(): HTMLElement {
    const hours = stored.quiet_hours;
    const on = h("input", { type: "checkbox" });
    const from = h("input", { type: "time" });
    const to = h("input", { type: "time" });
    on.checked = hours !== undefined;
    from.value = hours?.from ?? "22:00";
    to.value = hours?.to ?? "08:00";
    const times = h("div", {}, h("label", {}, texts.from, from), h("label", {}, texts.to, to));
    times.hidden = !on.checked;
    const store = () => {
      times.hidden = !on.checked;
      if (on.checked && !(from.value && to.value)) return; // half a time is none
      const chosen = on.checked ? { from: from.value, to: to.value } : undefined;
      save((p) => {
        delete p.quiet_hours;
        if (!chosen) return;
        p.quiet_hours = chosen;
        p.timezone ??= Intl.DateTimeFormat().resolvedOptions().timeZone;
      });
    };
    for (const input of [on, from, to]) input.addEventListener("change", store);
    return h("div", {}, h("h3", {}, texts.quiet), h("label", {}, on, texts.quietOn), times);
  }

  return { element };
}
