import type { parts as package_ } from "./push/parts.js";

/** The element that this script was loaded by; one of a module has to be looked for. */
export const script = (document.currentScript ??
  document.querySelector('[src*="/sdk/godwit.js"]')) as HTMLScriptElement | null;

/** What is loaded later lies beside it. */
const home = new URL(script?.src || "/sdk/", location.href);

/** The server lies where /sdk/godwit.js does, also below a path. */
export const server = home.origin + home.pathname.replace(/\/sdk\/[^/]*$/, "");

/** The names of the files, each with a mark of what is in it: a copy in a cache is good for as long as the name stays. */
declare const DIALOGS: string;
declare const TEXTS: string;
declare const ONCE: string;

const load = (file: string) =>
  import(new URL(file, home).href).catch((cause) => {
    throw new Error(`${file} cannot be loaded: ${cause}. Is the server up, and in the page's script-src?`, { cause });
  });

export const parts: typeof package_ = {
  dialogs: () => load(DIALOGS),
  texts: () => load(TEXTS),
  once: () => load(ONCE),
};
