/**
 * The looks of what the prompt draws at once: the bell. A page changes them with the custom properties --godwit-accent,
 * --godwit-on-accent, --godwit-surface, --godwit-text, --godwit-radius and --godwit-font on its root element.
 */
export const style = `
:host { all: initial; position: fixed; z-index: 2147483000; color-scheme: light dark; --a: #0b57d0; --oa: #fff; --s: #fff; --t: #1f2328; }
@media (prefers-color-scheme: dark) { :host { --a: #a8c7fa; --oa: #062e6f; --s: #24272b; --t: #e6e8eb; } }
@media print { :host { display: none; } }
button { border: 0; cursor: pointer; }
button:hover { filter: brightness(1.08); }
:focus-visible { outline: 3px solid var(--godwit-accent, var(--a)); outline-offset: 2px; }
.bell, .yes { background: var(--godwit-accent, var(--a)); color: var(--godwit-on-accent, var(--oa)); }
.bell { position: fixed; bottom: max(20px, env(safe-area-inset-bottom)); right: 20px; width: 52px; height: 52px; padding: 14px;
  border-radius: 50%; box-shadow: 0 2px 10px #0005; }
.left .bell { right: auto; left: 20px; }
path { fill: currentColor; }
@media (forced-colors: active) { button { border: 1px solid; } }
`;
