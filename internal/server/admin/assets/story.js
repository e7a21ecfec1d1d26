// What became of a notification is shown anew each time it changes, until it has ended.
"use strict";

const story = document.querySelector("#story");

function say(text) {
  const line = document.querySelector("#line");
  line.textContent = text;
  line.hidden = text === "";
}

if (story.dataset.events) {
  const events = new EventSource(story.dataset.events);
  events.addEventListener("story", (e) => {
    story.innerHTML = e.data;
    htmx.process(story);
    localize(story);
    say("");
  });
  events.addEventListener("end", () => events.close());
  events.addEventListener("gone", () => {
    events.close();
    say(words.gone);
  });
  events.onerror = () => {
    say(events.readyState === EventSource.CLOSED
      ? words.told
      : words.meanwhile);
  };
  addEventListener("pagehide", () => events.close());
}
