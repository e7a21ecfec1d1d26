/** The looks of the dialogs, beside those of the bell. */
export const dialogStyle = `
:host { font: 16px/1.45 var(--godwit-font, system-ui, sans-serif); }
* { box-sizing: border-box; font: inherit; }
[hidden] { display: none !important; }
.box { position: fixed; background: var(--godwit-surface, var(--s)); color: var(--godwit-text, var(--t)); border-radius: var(--godwit-radius, 14px);
  box-shadow: 0 1px 3px #0004, 0 8px 28px #0003; border: 1px solid color-mix(in srgb, currentColor 14%, transparent); animation: in .22s ease-out; }
.ask { top: max(12px, env(safe-area-inset-top)); left: 50%; transform: translateX(-50%); width: min(440px, calc(100vw - 24px)); padding: 18px 20px;
  display: grid; grid-template-columns: auto 1fr; gap: 14px; align-items: start; }
.ask img { width: 48px; height: 48px; border-radius: 10px; object-fit: cover; }
.text { grid-column: 2; align-self: center; }
.ask:not(.pic) .text { grid-column: 1 / -1; }
h2 { margin: 0; font-weight: 600; font-size: 17px; }
p { margin: 4px 0 0; font-size: 15px; }
.row { grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: 10px; justify-content: flex-end; }
.row button { min-height: 44px; padding: 0 18px; border-radius: 999px; font-weight: 600; }
.row button:not(.yes) { background: transparent; color: var(--godwit-accent, var(--a)); }
.panel { bottom: 84px; right: 20px; width: min(320px, calc(100vw - 40px)); padding: 18px 20px; }
.left .panel { right: auto; left: 20px; }
label { display: flex; gap: 12px; align-items: center; min-height: 44px; margin-top: 8px; cursor: pointer; font-size: 15px; }
input { width: 22px; height: 22px; accent-color: var(--godwit-accent, var(--a)); flex: none; }
.note { min-height: 1.4em; font-size: 14px; }
@keyframes in { from { opacity: 0; translate: 0 -8px; } }
@media (prefers-reduced-motion: reduce) { .box { animation: none; } }
@media (forced-colors: active) { .box { border: 1px solid; } }
`;
