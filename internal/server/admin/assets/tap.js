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
  button.textContent = "Watch";
  button.setAttribute("aria-pressed", "false");
}

function watch() {
  const list = document.querySelector("#arrivals");
  const button = document.querySelector("#watch");
  button.textContent = "Stop";
  button.setAttribute("aria-pressed", "true");
  tapSays("Connecting…");
  arriving = new EventSource(tap.dataset.events);
  arriving.addEventListener("arrivals", (e) => {
    tapSays("Waiting for what comes. Nothing is acknowledged by that.");
    list.insertAdjacentHTML("beforeend", e.data);
    localize(list);
    while (list.childElementCount > most) list.firstElementChild.remove();
  });
  arriving.addEventListener("gone", () => {
    stop();
    tapSays("You are not signed in any more. Load the page anew to sign in.");
  });
  arriving.onerror = () => {
    if (arriving.readyState === EventSource.CLOSED) {
      stop();
      tapSays("The server does not tell what comes. Try again in a moment.");
      return;
    }
    tapSays("The connection to the server is lost. What comes meanwhile is not shown.");
  };
}

tap.hidden = false;
document.querySelector("#watch").addEventListener("click", () => {
  if (!arriving) {
    watch();
    return;
  }
  stop();
  tapSays("Stopped.");
});
addEventListener("pagehide", stop);
