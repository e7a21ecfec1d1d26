/** Parts that not every page needs. In the script that the server hands out, ../inboxbeside.ts takes the place of this. */
export const parts = {
  texts: () => import("./texts.js"),
  preferences: () => import("./preferences.js"),
};
