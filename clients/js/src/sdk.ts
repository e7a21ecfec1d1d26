// /sdk/godwit.js: everything a page needs, as the global Godwit. A script element with data-app starts by itself:
// <script src="https://push.example.org/sdk/godwit.js" data-app="news" async></script>

import { script, server } from "./beside.js";
import { complain } from "./push/failure.js";
import { Prompt, type PromptOptions } from "./push/prompt.js";
import { Push, type PushOptions } from "./push/subscriber.js";

/** Options of a page; the server is the one the script came from, unless it says otherwise. */
type StartOptions = Omit<PushOptions, "server"> & { server?: string; prompt?: PromptOptions };

/** Draws the prompt and keeps a subscriber subscribed. */
async function start(o: StartOptions): Promise<Push> {
  used = true;
  const push = new Push({ server, ...o });
  await new Prompt(push, o.prompt).start();
  return push;
}

/** Attributes of the script element are the options, by the same names. */
function fromAttributes({ app, server: own, serviceWorker, scope, tags, ...d }: DOMStringMap): StartOptions {
  const flag = (text = "false") => text !== "false";
  let texts: Record<string, string> | undefined;
  for (const [name, text] of Object.entries(d)) {
    // data-text-opt-in is the text optIn.
    const key = name === "title" && text ? name : /^text(.+)/.exec(name)?.[1];
    if (key) texts = { ...texts, [key[0]?.toLowerCase() + key.slice(1)]: text as string };
  }
  return {
    app,
    server: own || server,
    serviceWorker: serviceWorker || undefined,
    scope: scope || undefined,
    tags: tags?.split(",").map((t) => t.trim()),
    removeConflicts: flag(d.removeConflicts),
    prompt: {
      ask: d.ask,
      bell: d.bell !== "none" && d.bell,
      hideBell: flag(d.hideBell),
      visits: Number(d.visits ?? 1),
      icon: d.icon,
      texts,
    },
  } as StartOptions;
}

/** Whether the page has made use of this. */
let used = false;

const Godwit = {
  get Push() {
    used = true;
    return Push;
  },
  Prompt,
  start,
};

declare global {
  interface Window {
    Godwit: typeof Godwit;
  }
}

window.Godwit = Godwit;

if (script?.dataset.app) {
  const own = fromAttributes(script.dataset);
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
