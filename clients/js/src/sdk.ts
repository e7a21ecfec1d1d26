// /sdk/godwit.js: everything a page needs, as the global Godwit. A script element with data-app starts by itself:
// <script src="https://push.example.org/sdk/godwit.js" data-app="news" async></script>

import { complain } from "./push/failure.js";
import { Prompt, type PromptOptions, type PromptTexts, type Translations } from "./push/prompt.js";
import { Push, type PushOptions } from "./push/subscriber.js";

const script = document.currentScript as HTMLScriptElement | null;
const home = script?.src ? new URL(script.src) : undefined;

/** Options of a page; the server is the one the script came from, unless it says otherwise. */
type StartOptions = Omit<PushOptions, "server"> & { server?: string; prompt?: PromptOptions };

let used = false;

/** A Push of which it is known that the page made one. */
class PagePush extends Push {
  constructor(o: PushOptions) {
    super(o);
    used = true;
  }
}

/** Other languages lie beside the script. */
class LocalPrompt extends Prompt {
  constructor(push: Push, o?: PromptOptions) {
    super(push, o, () => import(new URL("texts.js", home).href) as Promise<Translations>);
  }
}

/** Draws the prompt and keeps a subscriber subscribed. */
async function start(o: StartOptions): Promise<Push> {
  const push = new PagePush({ server: home ? serverOf(home) : location.origin, ...o });
  await new LocalPrompt(push, o.prompt).start();
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
  const texts: Partial<PromptTexts> = d.title ? { title: d.title } : {};
  // data-text-opt-in is the text optIn.
  for (const [name, value = ""] of Object.entries(d)) {
    if (name.startsWith("text") && name !== "text")
      texts[(name.charAt(4).toLowerCase() + name.slice(5)) as keyof PromptTexts] = value;
  }
  if (Object.keys(texts).length > 0) prompt.texts = texts;
  o.prompt = prompt;
  return o;
}

const Godwit = { Push: PagePush, Prompt: LocalPrompt, start };

declare global {
  interface Window {
    Godwit: typeof Godwit;
  }
}

window.Godwit = Godwit;

const own = script && fromAttributes(script.dataset);
if (own) {
  const begin = () => void start(own).catch(complain);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
} else {
  // Modules and what waits for the page have run by then.
  const look = () => {
    if (!used)
      complain(
        'nothing was started: put data-app="NAME" into the script element, or call Godwit.start({ app: "NAME" })',
      );
  };
  if (document.readyState === "complete") look();
  else window.addEventListener("load", () => setTimeout(look));
}
