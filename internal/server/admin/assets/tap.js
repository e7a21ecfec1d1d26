// Shows the notifications that come for a recipient while the page is open and somebody wants to see them.
"use strict";

const tap = document.querySelector("#tap");
const most = 200; // lines that are kept
let arriving = null;

function tapSays(text) {
  document.querySelector("#watching").textContent = text;
}

function stop() {
  arriving?.close();
  arriving = null;
  const button = document.querySelector("#watch");
  button.textContent = words.watch;
  button.setAttribute("aria-pressed", "false");
}

function watch() {
  const list = document.querySelector("#arrivals");
  const button = document.querySelector("#watch");
  button.textContent = words.stop;
  button.setAttribute("aria-pressed", "true");
  tapSays(words.connecting);
  arriving = new EventSource(tap.dataset.events);
  arriving.addEventListener("arrivals", (e) => {
    tapSays(words.waiting);
    list.insertAdjacentHTML("beforeend", e.data);
    localize(list);
    while (list.childElementCount > most) list.firstElementChild.remove();
  });
  arriving.addEventListener("gone", () => {
    stop();
    tapSays(words.gone);
  });
  arriving.onerror = () => {
    if (arriving.readyState === EventSource.CLOSED) {
      stop();
      tapSays(words.later);
      return;
    }
    tapSays(words.unseen);
  };
}

tap.hidden = false;
document.querySelector("#watch").addEventListener("click", () => {
  if (!arriving) {
    watch();
    return;
  }
  stop();
  tapSays(words.stopped);
});
addEventListener("pagehide", stop);
