// The chart of the audience: endpoints gained and lost by the day, from the rows of the table below it.
"use strict";

const el = document.querySelector("#days .plot"); // absent where nothing changed
const rows = [...document.querySelectorAll("#days tbody tr")].reverse(); // the table begins with today
const date = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone: "UTC" });
const short = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", timeZone: "UTC" });
const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
let plot;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const values = (name) => rows.map((row) => Number(row.dataset[name]));

function draw() {
  const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  const value = (_, v) => (v == null ? "–" : whole.format(v));
  plot?.destroy();
  el.hidden = false;
  plot = new uPlot({
    width: el.clientWidth,
    height: 170,
    tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "Etc/UTC"),
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1)] } },
    series: [
      { label: words.day, value: (_, s) => (s == null ? "–" : date.format(s * 1000)) },
      { label: words.gained, stroke: colour("good"), width: 1.5, value, points: { size: 4 } },
      { label: words.lost, stroke: colour("bad"), width: 1.5, value, points: { size: 4 }, dash: [6, 3] },
    ],
    axes: [
      { ...axis, space: 90, values: (_, splits) => splits.map((s) => short.format(s * 1000)) },
      { ...axis, size: 60, incrs: [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5, 6, 7].map((e) => n * 10 ** e)).sort((a, b) => a - b), values: (_, splits) => splits.map((v) => whole.format(v)) },
    ],
  }, [values("at"), values("gained"), values("lost")], el);
}

if (el) {
  draw();
  new ResizeObserver(() => {
    if (el.clientWidth > 0 && el.clientWidth !== plot.width) plot.setSize({ width: el.clientWidth, height: 170 });
  }).observe(el.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
