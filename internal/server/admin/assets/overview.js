// The charts of the overview: lines over the last hour, followed by an event stream.
"use strict";

const holder = document.querySelector("[data-events]");
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const amount = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const kept = 720; // points: an hour
let known = { at: [], values: {} };
let charts = [];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function lines(names) {
  return [known.at, ...names.map((name) => known.values[name] ?? [])];
}

function draw(el) {
  const names = el.dataset.series.split(",");
  const labels = el.dataset.labels.split(",");
  const colours = el.dataset.colours.split(",");
  const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  const value = (_, v) => (v == null ? "–" : amount.format(v));
  el.closest("section").hidden = false;
  el.replaceChildren();
  const plot = new uPlot({
    width: el.clientWidth,
    height: 170,
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [Math.min(low ?? 0, 0), Math.max(high ?? 0, 1)] } },
    series: [
      { label: "at", value: (_, s) => (s == null ? "–" : clock.format(s * 1000)) },
      ...names.map((_, i) => ({ label: labels[i], stroke: colour(colours[i]), width: 1.5, value, spanGaps: true, points: { size: 4 }, dash: i % 3 === 1 ? [6, 3] : i % 3 === 2 ? [2, 2] : undefined })),
    ],
    axes: [
      { ...axis, values: (_, splits) => splits.map((s) => clock.format(s * 1000)) },
      { ...axis, size: 60, values: (_, splits) => splits.map((v) => amount.format(v)) },
    ],
  }, lines(names), el);
  return { el, names, plot };
}

function drawAll() {
  for (const c of charts) c.plot.destroy();
  charts = [...holder.querySelectorAll(".plot")].map(draw);
}

function take(more) {
  known.at = known.at.concat(more.at).slice(-kept);
  for (const [name, values] of Object.entries(more.values ?? {})) {
    known.values[name] = (known.values[name] ?? []).concat(values).slice(-kept);
  }
  for (const c of charts) c.plot.setData(lines(c.names));
}

function say(text) {
  const line = document.querySelector("#line");
  line.textContent = text;
  line.hidden = text === "";
}

function put(id, html) {
  const part = document.querySelector(id);
  part.innerHTML = html;
  localize(part);
}

const events = new EventSource(holder.dataset.events);
events.addEventListener("history", (e) => {
  known = JSON.parse(e.data);
  known.values ??= {};
  say("");
  drawAll();
});
events.addEventListener("points", (e) => take(JSON.parse(e.data)));
events.addEventListener("figures", (e) => put("#figures", e.data));
events.addEventListener("advice", (e) => put("#advice", e.data));
events.addEventListener("gone", () => {
  events.close();
  say("You are not signed in any more. Load the page anew to sign in.");
});
events.onerror = () => {
  say(events.readyState === EventSource.CLOSED
    ? "The server sends no figures any more. Load the page anew."
    : "The connection to the server is lost. The figures stand still until it is back.");
};
addEventListener("pagehide", () => events.close());

new ResizeObserver(() => {
  for (const c of charts) {
    if (c.el.clientWidth > 0 && c.el.clientWidth !== c.plot.width) c.plot.setSize({ width: c.el.clientWidth, height: 170 });
  }
}).observe(holder);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
