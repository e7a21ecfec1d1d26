/**
 * The prompt's looks. A page changes them with the custom properties --godwit-accent, --godwit-on-accent,
 * --godwit-surface, --godwit-text, --godwit-radius and --godwit-font on its root element.
 */
export const style = `
:host { all: initial; position: fixed; z-index: 2147483000; color-scheme: light dark; --a: var(--godwit-accent, #0b57d0); --oa: var(--godwit-on-accent, #fff); --s: var(--godwit-surface, #fff); --t: var(--godwit-text, #1f2328);
  font: 16px/1.45 var(--godwit-font, system-ui, sans-serif); color: var(--t); }
@media (prefers-color-scheme: dark) {
  :host { --a: var(--godwit-accent, #a8c7fa); --oa: var(--godwit-on-accent, #062e6f); --s: var(--godwit-surface, #24272b); --t: var(--godwit-text, #e6e8eb); }
}
* { box-sizing: border-box; font: inherit; }
[hidden] { display: none !important; }
.box { position: fixed; background: var(--s); color: var(--t); border-radius: var(--godwit-radius, 14px);
  box-shadow: 0 1px 3px #0004, 0 8px 28px #0003; border: 1px solid color-mix(in srgb, var(--t) 14%, transparent); animation: in .22s ease-out; }
.ask { top: max(12px, env(safe-area-inset-top)); left: 50%; transform: translateX(-50%); width: min(440px, calc(100vw - 24px)); padding: 18px 20px;
  display: grid; grid-template-columns: auto 1fr; gap: 14px; align-items: start; }
.ask img { width: 48px; height: 48px; border-radius: 10px; object-fit: cover; }
.text { grid-column: 2; align-self: center; }
.ask:not(.pic) .text { grid-column: 1 / -1; }
h2 { margin: 0; font-weight: 600; font-size: 17px; }
p { margin: 4px 0 0; font-size: 15px; }
.row { grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: 10px; justify-content: flex-end; }
button { min-height: 44px; padding: 0 18px; border: 0; border-radius: 999px; background: transparent; color: var(--a); font-weight: 600; cursor: pointer; }
button.yes { background: var(--a); color: var(--oa); }
button:hover { filter: brightness(1.08); }
button:focus-visible, input:focus-visible { outline: 3px solid var(--a); outline-offset: 2px; }
.bell { position: fixed; bottom: max(20px, env(safe-area-inset-bottom)); right: 20px; width: 52px; height: 52px; padding: 0; display: grid;
  place-items: center; border-radius: 50%; background: var(--a); color: var(--oa); box-shadow: 0 2px 10px #0005; }
.bell svg { width: 24px; height: 24px; fill: currentColor; }
.panel { bottom: 84px; right: 20px; width: min(320px, calc(100vw - 40px)); padding: 18px 20px; }
label { display: flex; gap: 12px; align-items: center; min-height: 44px; margin-top: 8px; cursor: pointer; font-size: 15px; }
input { width: 22px; height: 22px; accent-color: var(--a); flex: none; }
.note { min-height: 1.4em; font-size: 14px; }
.left .bell, .left .panel { right: auto; left: 20px; }
@keyframes in { from { opacity: 0; translate: 0 -8px; } }
@media (prefers-reduced-motion: reduce) { .box { animation: none; } }
@media (forced-colors: active) { .box, button { border: 1px solid; } }
@media print { :host { display: none; } }
`;
