import type { parts as package_ } from "./inbox/parts.js";

/** The element that this script was loaded by; one of a module has to be looked for. */
const script = (document.currentScript ?? document.querySelector('[src*="/sdk/inbox.js"]')) as HTMLScriptElement | null;

/** What is loaded later lies beside it. */
const home = new URL(script?.src || "/sdk/", location.href);

/** The server lies where /sdk/inbox.js does, also below a path. */
export const server = home.origin + home.pathname.replace(/\/sdk\/[^/]*$/, "");

/** The names of the files, each with a mark of what is in it: a copy in a cache is good for as long as the name stays. */
declare const INBOX_TEXTS: string;
declare const INBOX_PREFERENCES: string;

const load = (file: string) =>
  import(new URL(file, home).href).catch((cause) => {
    throw new Error(`${file} cannot be loaded: ${cause}. Is the server up, and in the page's script-src?`, { cause });
  });

export const parts: typeof package_ = {
  texts: () => load(INBOX_TEXTS),
  preferences: () => load(INBOX_PREFERENCES),
};
