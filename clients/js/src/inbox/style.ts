/**
 * The looks of the element. A page changes them with the custom properties that docs/guides/inbox-component.md lists, and
 * with ::part. Colours follow the page's color-scheme, and attribute theme.
 */
export const style = `
:host { --a: var(--godwit-accent, light-dark(#0b57d0, #a8c7fa)); --oa: var(--godwit-on-accent, light-dark(#fff, #062e6f));
  --s: var(--godwit-surface, light-dark(#fff, #24272b)); --t: var(--godwit-text, light-dark(#1f2328, #e6e8eb));
  --m: var(--godwit-muted, color-mix(in srgb, var(--t) 72%, var(--s))); --l: var(--godwit-line, color-mix(in srgb, var(--t) 16%, var(--s)));
  --h: color-mix(in srgb, var(--t) 6%, var(--s)); --u: color-mix(in srgb, var(--a) 9%, var(--s)); --r: var(--godwit-radius, 14px);
  --b: var(--godwit-badge, light-dark(#b3261e, #f2b8b5)); --ob: var(--godwit-on-badge, light-dark(#fff, #601410));
  display: inline-block; position: relative; color: inherit; font: 15px/1.45 var(--godwit-font, system-ui, sans-serif); text-align: start; }
:host([hidden]) { display: none; }
:host([theme=light]) { color-scheme: light; }
:host([theme=dark]) { color-scheme: dark; }
:host([theme=auto]) { color-scheme: light dark; }
:host([view=page]) { display: block; height: 100%; min-height: 240px; }
* { box-sizing: border-box; font: inherit; color: inherit; letter-spacing: normal; text-transform: none; }
[hidden] { display: none !important; }
h2, h3, p { margin: 0; }
button { border: 0; background: none; padding: 0; cursor: pointer; text-align: inherit; border-radius: 8px; }
:focus-visible { outline: 2px solid var(--a); outline-offset: -2px; }
svg { display: block; width: 20px; height: 20px; fill: currentColor; }
.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.bell { position: relative; display: grid; place-items: center; width: 44px; height: 44px; border-radius: 50%; }
.bell:hover { background: color-mix(in srgb, currentColor 10%, transparent); }
.bell svg { width: 24px; height: 24px; }
.badge { position: absolute; inset-block-start: 1px; inset-inline-end: 0; min-width: 19px; padding: 0 5px; border-radius: 10px; background: var(--b);
  color: var(--ob); font-size: 12px; line-height: 19px; font-weight: 600; text-align: center; pointer-events: none; }
.panel { display: none; flex-direction: column; background: var(--s); color: var(--t); border: 1px solid var(--l); padding: 0; margin: 0; overflow: hidden; }
.panel:popover-open, :host([view=page]) .panel { display: flex; }
.panel:popover-open { position: fixed; inset: auto; left: var(--x, 8px); top: var(--y, 8px); width: min(var(--godwit-inbox-width, 400px), calc(100vw - 16px));
  height: min(var(--godwit-inbox-height, 560px), var(--room, 90vh)); border-radius: var(--r); box-shadow: 0 1px 3px #0004, 0 8px 28px #0003; animation: in .16s ease-out; }
:host([view=page]) .panel { width: 100%; height: 100%; border-radius: var(--r); }
.head { display: flex; align-items: center; gap: 2px; padding-block: 10px 2px; padding-inline: 16px 8px; }
h2 { flex: 1; font-size: 18px; font-weight: 650; overflow-wrap: anywhere; }
.tool, .headtool { display: grid; place-items: center; flex: none; width: 36px; height: 36px; color: var(--m); }
.headtool { width: 44px; height: 44px; }
.tool:hover, .headtool:hover { background: var(--h); color: var(--t); }
.tabs { display: flex; gap: 4px; padding-inline: 10px; border-block-end: 1px solid var(--l); overflow-x: auto; flex: none; }
.tab { padding: 10px 8px; color: var(--m); border-radius: 8px 8px 0 0; border-block-end: 2px solid transparent; white-space: nowrap; min-height: 44px; }
.tab[aria-selected=true] { color: var(--t); font-weight: 600; border-block-end-color: var(--a); }
.note { display: flex; align-items: center; gap: 8px; padding: 8px 16px; background: var(--h); font-size: 14px; flex: none; }
.note p { flex: 1; }
.note button { color: var(--a); font-weight: 600; min-height: 32px; padding-inline: 8px; }
.list { flex: 1; min-height: 0; overflow: hidden auto; overscroll-behavior: contain; overflow-anchor: none; position: relative; }
.feed { position: relative; }
.rest { padding: 48px 24px; text-align: center; color: var(--m); }
.row { position: absolute; inset-inline: 0; top: 0; overflow: hidden; touch-action: pan-y; border-block-end: 1px solid var(--l); background: var(--s); cursor: pointer; }
.row.swiped { background: var(--h); }
.row.far.away { background: var(--m); }
.row.far.back { background: var(--a); }
.moving { display: grid; grid-template-columns: 1fr auto; gap: 2px 8px; padding-block: 12px 10px; padding-inline: 20px 12px; background: var(--s); position: relative; }
.unread .moving { background: var(--u); }
.unread .moving::before { content: ""; position: absolute; inset-inline-start: 7px; inset-block-start: 19px; width: 7px; height: 7px; border-radius: 50%; background: var(--a); }
.row:hover .moving { background: var(--h); }
h3 { font-weight: 500; overflow-wrap: anywhere; min-width: 0; }
.unread h3 { font-weight: 650; }
h3 > * { display: block; width: 100%; text-decoration: none; border-radius: 4px; text-align: -webkit-match-parent; text-align: match-parent; }
[part=row-body] { grid-column: 1 / -1; text-align: -webkit-match-parent; text-align: match-parent; color: var(--m); font-size: 14px; overflow-wrap: anywhere; white-space: pre-line; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 4; overflow: hidden; }
.aside { display: flex; gap: 4px; align-items: start; color: var(--m); font-size: 13px; white-space: nowrap; }
.pinned svg { width: 14px; height: 14px; margin-block-start: 2px; }
.actions { grid-column: 1; display: flex; flex-wrap: wrap; gap: 8px; margin-block-start: 6px; }
.action { min-height: 34px; padding-inline: 14px; border-radius: 999px; border: 1px solid var(--l); background: var(--s); color: var(--a); font-weight: 600; font-size: 14px; }
.action:first-child { background: var(--a); border-color: var(--a); color: var(--oa); }
.answer { display: flex; gap: 4px; color: var(--m); font-size: 14px; }
.answer svg { width: 16px; height: 16px; margin-block-start: 2px; }
.tools { display: flex; position: absolute; inset-block-end: 4px; inset-inline-end: 6px; border-radius: 10px; background: var(--s); opacity: 0; }
.row:hover .tools, .row:focus-within .tools { opacity: 1; }
@media (hover: none) { .tools { position: static; opacity: 1; background: none; grid-column: 1 / -1; justify-content: end; } .tool { width: 44px; height: 36px; } }
@keyframes in { from { opacity: 0; translate: 0 -6px; } }
@media (max-width: 480px) { .panel:popover-open { inset: 0; width: 100%; height: 100dvh; max-width: none; max-height: none; border: 0; border-radius: 0;
  padding-block-end: env(safe-area-inset-bottom); } }
@media (min-width: 481px) { .close { display: none; } }
:host([view=page]) .close { display: none; }
@media (prefers-reduced-motion: reduce) { .panel:popover-open { animation: none; } }
@media (prefers-reduced-motion: no-preference) { .moving { transition: translate .12s; } .swiped .moving { transition: none; } }
@media (forced-colors: active) { .badge, .action, .tab[aria-selected=true] { border: 1px solid; } .unread .moving::before { background: CanvasText; forced-color-adjust: none; } }
@media print { :host(:not([view=page])) { display: none; } }
`;
