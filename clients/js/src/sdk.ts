// /sdk/godwit.js: everything a page needs, as the global Godwit. A script element with data-app starts by itself:
// <script src="https://push.example.org/sdk/godwit.js" data-app="news" async></script>

import { Prompt, type PromptOptions } from "./push/prompt.js";
import { Push, type PushOptions } from "./push/subscriber.js";

const script = document.currentScript as HTMLScriptElement | null;
const home = script?.src ? new URL(script.src) : undefined;

/** Options of a page; the server is the one the script came from, unless it says otherwise. */
type StartOptions = Omit<PushOptions, "server"> & { server?: string; prompt?: PromptOptions };

/** Draws the prompt and keeps a subscriber subscribed. */
async function start(o: StartOptions): Promise<Push> {
  const push = new Push({ server: home ? serverOf(home) : location.origin, ...o });
  await new Prompt(push, o.prompt).start();
  return push;
}

/** The server lies where /sdk/godwit.js does, also below a path. */
const serverOf = (url: URL) => url.origin + url.pathname.replace(/\/sdk\/[^/]*$/, "");

function fromAttributes(d: DOMStringMap): StartOptions | undefined {
  if (!d.app) return undefined;
  const o: StartOptions = { app: d.app, prompt: {} };
  if (d.server) o.server = d.server;
  if (d.serviceWorker) o.serviceWorker = d.serviceWorker;
  if (d.scope) o.scope = d.scope;
  if (d.tags) o.tags = d.tags.split(",").map((t) => t.trim());
  if (d.removeConflicts !== undefined) o.removeConflicts = d.removeConflicts !== "false";
  const prompt: PromptOptions = {};
  if (d.ask === "dialog" || d.ask === "direct" || d.ask === "none") prompt.ask = d.ask;
  if (d.bell === "left" || d.bell === "right") prompt.bell = d.bell;
  if (d.bell === "none") prompt.bell = false;
  if (d.hideBell !== undefined) prompt.hideBell = d.hideBell !== "false";
  if (d.visits) prompt.visits = Number(d.visits);
  if (d.icon) prompt.icon = d.icon;
  if (d.title) prompt.texts = { title: d.title };
  o.prompt = prompt;
  return o;
}

const Godwit = { Push, Prompt, start };

declare global {
  interface Window {
    Godwit: typeof Godwit;
  }
}

window.Godwit = Godwit;

const own = script && fromAttributes(script.dataset);
if (own) {
  const begin = () => {
    start(own).catch((error: unknown) => {
      // biome-ignore lint/suspicious/noConsole: the page's owner has to know
      console.error("godwit:", error);
    });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
}
