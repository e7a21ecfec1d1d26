// The charts of the overview: lines over the last hour, followed by an event stream.
"use strict";

const holder = document.querySelector(".charts[data-events]");
const minutes = new Intl.DateTimeFormat(locale, { timeStyle: "short" });
const seconds = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });
const amount = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
const kept = 720; // points: an hour
const every = 5; // seconds between two points
let known = { at: [], values: {} };
let charts = [];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// lines returns the curves of a chart. Where readings are missing, because the server stood still or this page slept, it adds an empty
// point, so that the gap is drawn as one.
function lines(names) {
  const data = [[], ...names.map(() => [])];
  known.at.forEach((at, i) => {
    if (i > 0 && at - known.at[i - 1] > 2.5 * every) {
      data[0].push(known.at[i - 1] + every);
      names.forEach((_, n) => data[n + 1].push(null));
    }
    data[0].push(at);
    names.forEach((name, n) => data[n + 1].push(known.values[name]?.[i] ?? null));
  });
  return data;
}

// The legend has the newest values while the pointer is elsewhere.
const newest = (plot) => plot.setLegend({ idx: plot.data[0].length - 1 }, false);

// alone returns the readings without neighbours, which have no line.
function alone(plot, series) {
  const v = plot.data[series];
  return v.flatMap((now, i) => (now != null && v[i - 1] == null && v[i + 1] == null ? [i] : []));
}

function draw(el) {
  const names = el.dataset.series.split(",");
  const labels = el.dataset.labels.split("|");
  const colours = el.dataset.colours.split(",");
  const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  const value = (_, v) => (v == null ? "–" : amount.format(v));
  const section = el.closest("section");
  section.hidden = false;
  el.hidden = false;
  el.replaceChildren();
  const plot = new uPlot({
    width: el.clientWidth,
    height: 170,
    padding: [10, 26, 0, 0],
    cursor: { drag: { x: false, y: false }, points: { size: 7 } },
    scales: { y: { range: (_, low, high) => [Math.min(low ?? 0, 0), Math.max((high ?? 0) * 1.1, 1)] } },
    hooks: { setCursor: [(u) => { if (u.cursor.idx == null) newest(u); }] },
    series: [
      { label: words.time, value: (_, s) => (s == null ? "" : seconds.format(s * 1000)) },
      ...names.map((_, i) => ({ label: labels[i], stroke: colour(colours[i]), width: 2, value, spanGaps: false, points: { size: 4, filter: alone }, dash: i % 3 === 1 ? [6, 3] : i % 3 === 2 ? [2, 2] : undefined })),
    ],
    axes: [
      { ...axis, space: 90, values: (u, splits) => splits.map((s) => (u.scales.x.max - u.scales.x.min < 180 ? seconds : minutes).format(s * 1000)) },
      { ...axis, size: 52, values: (_, splits) => splits.map((v) => amount.format(v)) },
    ],
  }, lines(names), el);
  const chart = { el, names, plot, empty: section.querySelector(".empty") };
  refresh(chart);
  return chart;
}

// refresh shows the newest values, or says what to do where there are none.
function refresh(chart) {
  const some = chart.names.some((name) => known.values[name]?.some((v) => v));
  chart.el.hidden = !some;
  chart.empty.hidden = some;
  if (some && chart.plot.cursor.idx == null) newest(chart.plot);
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
  for (const c of charts) {
    c.plot.setData(lines(c.names));
    refresh(c);
    fit(c);
  }
}

function fit(c) {
  if (c.el.clientWidth > 0 && c.el.clientWidth !== c.plot.width) c.plot.setSize({ width: c.el.clientWidth, height: 170 });
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
events.addEventListener("guide", (e) => guideComes(e.data));
events.addEventListener("gone", () => {
  events.close();
  say(words.gone);
});
events.onerror = () => {
  say(events.readyState === EventSource.CLOSED
    ? words.figures
    : words.still);
};
addEventListener("pagehide", () => events.close());

new ResizeObserver(() => {
  charts.forEach(fit);
}).observe(holder);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
