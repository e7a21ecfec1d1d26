import type { parts as package_ } from "./live/parts.js";

/** The name of the file, with a mark of its content: a copy in a cache is good for as long as the name stays. */
declare const WEBTRANSPORT: string;

export const parts: typeof package_ = {
  webTransport: () => import(new URL(WEBTRANSPORT, import.meta.url).href), // it lies beside this script
};
