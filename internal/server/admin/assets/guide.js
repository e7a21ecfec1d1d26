// A guide is drawn anew when a step is done, wherever that happened. While somebody types into it, it waits.
"use strict";

// guideComes shows a guide that a stream of events has sent.
const guideComes = (() => {
  const guide = document.querySelector("#guide");
  let waiting = null;

  function show() {
    const at = document.activeElement;
    if (waiting === null || (guide.contains(at) && at.matches("input, textarea") && at.value !== "")) return;
    const focused = guide.contains(at) ? at.id : "";
    guide.innerHTML = waiting;
    waiting = null;
    htmx.process(guide);
    localize(guide);
    if (focused) document.getElementById(focused)?.focus();
  }

  guide?.addEventListener("focusout", () => setTimeout(show));
  return (html) => {
    waiting = html;
    if (guide) show();
  };
})();

// followGuide follows the guide of a page that has no other stream.
(() => {
  const path = document.querySelector("#guide")?.dataset.events;
  if (!path) return;
  const line = document.querySelector("#line");
  const say = (text) => {
    line.textContent = text;
    line.hidden = text === "";
  };
  const events = new EventSource(path);
  events.addEventListener("guide", (e) => {
    say("");
    guideComes(e.data);
  });
  events.addEventListener("gone", () => {
    events.close();
    say(words.gone);
  });
  events.onopen = () => say("");
  events.onerror = () => {
    say(events.readyState === EventSource.CLOSED
      ? words.told
      : words.away);
  };
  addEventListener("pagehide", () => events.close());
})();
