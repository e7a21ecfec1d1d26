// Times are stored and sent in UTC. This script shows them, and reads them, in the reader's time zone and language, and numbers
// likewise. Without this script the pages say UTC, and numbers as the language of the page usually has them.
"use strict";

// The texts of all scripts, in the language of the page.
const words = JSON.parse(document.body.dataset.words);

// The reader's own form of the page's language: a page in German has the numbers of Switzerland for somebody whose browser says so. Some
// browsers name languages that are none, like en-US@posix.
const locale = (() => {
  const page = document.documentElement.lang;
  const known = (l) => {
    try {
      return Intl.NumberFormat.supportedLocalesOf(l).length > 0;
    } catch {
      return false;
    }
  };
  return navigator.languages?.find((l) => l.split("-")[0] === page && known(l)) ?? page;
})();

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const shown = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const exact = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });
const hour = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });
const hover = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "long" });
const calendar = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", timeZone: "UTC" });
const ago = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" });
const amounts = new Intl.NumberFormat(locale);
const two = (n) => String(n).padStart(2, "0");

// A time that is a little ahead was stored by a server whose clock is; it is now.
const skew = 10;

// A time of the last week is said as its distance, like 2 min ago; the exact time, in the reader's zone, shows on hover.
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const recent = 7 * 86400;

function said(at) {
  let passed = (Date.now() - at) / 1000;
  if (passed < 0 && passed > -skew) passed = 0;
  if (passed < 0 || passed > recent) return shown.format(at);
  const [unit, length] = units.find(([, n]) => passed >= n) ?? units.at(-1);
  return ago.format(-Math.floor(passed / length), unit);
}

function localize(root) {
  for (const t of root.querySelectorAll("time[datetime]")) {
    if (t.title) continue;
    const at = new Date(t.dateTime);
    if ("day" in t.dataset) {
      t.title = t.textContent;
      t.textContent = calendar.format(at);
      continue;
    }
    t.title = hover.format(at);
    const form = "seconds" in t.dataset ? exact : "clock" in t.dataset ? hour : undefined;
    if (form) {
      t.textContent = form.format(at);
      continue;
    }
    t.dataset.ago = "";
    t.textContent = said(at);
  }
  for (const n of root.querySelectorAll("data[value]")) n.textContent = amounts.format(n.value);
  for (const b of root.querySelectorAll("button[data-copy]")) b.hidden = false;
  for (const field of root.querySelectorAll("input[data-utc]")) {
    if (!zone) continue;
    field.form.elements.timezone.value = zone;
    document.querySelector(`#${field.id}-zone`).textContent = zone;
    const utc = field.dataset.utc;
    if (utc) {
      const at = new Date(`${utc}Z`);
      field.value = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
    }
    field.removeAttribute("data-utc");
  }
}

setInterval(() => {
  for (const t of document.querySelectorAll("time[data-ago]")) {
    const text = said(new Date(t.dateTime));
    if (t.textContent !== text) t.textContent = text;
  }
}, 15_000);

// htmx tells of the page itself and of each part that it puts in.
document.addEventListener("htmx:load", (e) => localize(e.detail.elt.parentElement ?? document));

// Each request names the page's app: tabs share the login, and another tab may have signed in to another app.
const app = document.body.dataset.app;
if (app) {
  document.addEventListener("htmx:configRequest", (e) => { e.detail.headers["Godwit-App"] = app; });
  document.addEventListener("formdata", (e) => e.formData.set("signed-in-to", app));
}

// Long forms ask before somebody leaves them with unsaved text.
const long = "#compose, #settings";
let typed = false;
document.addEventListener("input", (e) => {
  if (e.target.closest(long)) typed = true;
});
document.addEventListener("submit", (e) => {
  if (!e.defaultPrevented && e.target.matches(`${long}, #delete`)) typed = false;
});
document.addEventListener("htmx:beforeOnLoad", (e) => {
  const { xhr } = e.detail;
  if (xhr.status < 400 && xhr.getResponseHeader("HX-Redirect")) typed = false;
});
document.addEventListener("htmx:afterSettle", () => {
  if (document.querySelector("main .done, #made")) typed = false;
});
addEventListener("beforeunload", (e) => {
  if (typed) e.preventDefault();
});

// The bytes of an upload show how far it is: the server reads the file as it comes. htmx reports the bytes of the answer by the same
// event; an answer is shorter than its file.
// A button may name its form, and may be replaced by the answer before the request has ended.
const formOf = (elt) => elt.form ?? elt.closest("form") ?? document.getElementById(elt.getAttribute("form") ?? "");
const megabytes = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
document.addEventListener("htmx:xhr:progress", (e) => {
  const form = formOf(e.target);
  const file = form?.querySelector("input[type=file]")?.files[0];
  const { loaded, total } = e.detail;
  if (!file || total < file.size) return;
  const [bar, text] = form.querySelectorAll("[data-sent]");
  bar.hidden = false;
  bar.max = total;
  bar.value = loaded;
  const sent = [loaded, total].map((n) => megabytes.format(n / 1e6));
  text.textContent = words.sent.replace("%[1]s", sent[0]).replace("%[2]s", sent[1]);
});
document.addEventListener("htmx:afterRequest", (e) => {
  for (const part of formOf(e.detail.requestConfig.elt)?.querySelectorAll("[data-sent]") ?? []) {
    part.hidden = part.tagName === "PROGRESS";
    if (!part.hidden) part.textContent = "";
  }
});

// Copies a snippet. Without https browsers have no clipboard for scripts: then the text is selected, to be copied by hand.
document.addEventListener("click", async (e) => {
  const button = e.target.closest?.("button[data-copy]");
  if (!button) return;
  const from = document.getElementById(button.dataset.copy);
  const label = (text) => {
    button.textContent = text;
    setTimeout(() => { button.textContent = words.copy; }, 2000);
  };
  try {
    await navigator.clipboard.writeText(from.textContent);
    label(words.copied);
  } catch {
    getSelection().selectAllChildren(from);
    label(document.execCommand("copy") ? words.copied : words.selected);
  }
});

// On a phone, a line of the navigation begins with the page that is open.
for (const here of document.querySelectorAll("header nav [aria-current]")) {
  const line = here.parentElement;
  line.scrollLeft = here.offsetLeft - line.offsetLeft - (line.clientWidth - here.offsetWidth) / 2;
}
