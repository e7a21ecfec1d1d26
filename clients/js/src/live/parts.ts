/** The part that only clients with WebTransport need. In the script that the server hands out, ../livebeside.ts takes the place of this. */
export const parts = {
  webTransport: () => import("./webtransport.js"),
};
