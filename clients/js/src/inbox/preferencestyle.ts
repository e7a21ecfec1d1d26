/** The looks of the page of preferences, beside those of the list. */
export const preferenceStyle = `
.prefs { flex: 1; min-height: 0; overflow: auto; padding: 8px 16px 20px; overscroll-behavior: contain; }
.prefs h3 { font-weight: 650; padding-block: 12px 6px; }
.prefs table { width: 100%; border-collapse: collapse; font-size: 14px; }
.prefs th, .prefs td { padding: 4px; text-align: center; font-weight: 400; border-block-end: 1px solid var(--l); }
.prefs th:first-child { text-align: start; overflow-wrap: anywhere; }
.prefs thead th { color: var(--m); font-size: 13px; }
.prefs label { display: inline-flex; gap: 8px; align-items: center; min-height: 44px; margin-inline-end: 16px; }
.prefs td label { margin: 0; justify-content: center; min-width: 44px; }
.prefs input { accent-color: var(--a); }
.prefs [type=checkbox] { width: 20px; height: 20px; margin: 0; }
.prefs [type=time] { padding: 6px; border: 1px solid var(--m); border-radius: 8px; background: var(--s); }
.prefs .said { min-height: 1.5em; color: var(--m); padding-block-start: 8px; }
`;
