/**
 * What not every page needs: the prompt's dialogs, its words in other languages, and how what comes live and by push is
 * one. In the scripts that the server hands out, ../beside.ts takes the place of this.
 */
export const parts = {
  dialogs: () => import("./dialogs.js"),
  texts: () => import("./texts.js"),
  once: () => import("./once.js"),
};
