/**
 * Parts that not every page needs: the prompt's dialogs, its texts in other languages, and the deduplication of live
 * and push. In the scripts that the server hands out, ../beside.ts takes the place of this.
 */
export const parts = {
  dialogs: () => import("./dialogs.js"),
  texts: () => import("./texts.js"),
  once: () => import("./once.js"),
};
