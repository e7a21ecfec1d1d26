// Times are stored and sent in UTC. This script shows them, and reads them, in the reader's time zone and language, and numbers
// likewise. Without this script the pages say UTC and 1,234.5.
"use strict";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const shown = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const calendar = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const amounts = new Intl.NumberFormat();
const two = (n) => String(n).padStart(2, "0");

function localize(root) {
  for (const t of root.querySelectorAll("time[datetime]")) {
    if (t.title) continue;
    t.title = t.textContent;
    const format = "day" in t.dataset ? calendar : "seconds" in t.dataset ? exact : shown;
    t.textContent = format.format(new Date(t.dateTime));
  }
  for (const n of root.querySelectorAll("data[value]")) n.textContent = amounts.format(n.value);
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

// htmx tells of the page itself and of each part that it puts in.
document.addEventListener("htmx:load", (e) => localize(e.detail.elt.parentElement ?? document));

// The question before a campaign starts has the figures of the preview. Where the preview shows mistakes nothing is asked: the answer lists
// them.
document.addEventListener("htmx:confirm", (e) => {
  const preview = e.detail.elt.dataset.asks && document.querySelector(e.detail.elt.dataset.asks);
  if (!preview) return;
  e.preventDefault();
  const question = preview.querySelector("[data-question]")?.dataset.question ?? e.detail.question;
  if (preview.querySelector(".notice") || confirm(question)) e.detail.issueRequest(true);
});

// The bytes of an upload show how far it is: the server reads the file as it comes. htmx reports the bytes of the answer by the same
// event; an answer is shorter than its file.
const megabytes = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
document.addEventListener("htmx:xhr:progress", (e) => {
  const form = e.target.closest("form");
  const file = form?.querySelector("input[type=file]")?.files[0];
  const { loaded, total } = e.detail;
  if (!file || total < file.size) return;
  const [bar, text] = form.querySelectorAll("[data-sent]");
  bar.hidden = false;
  bar.max = total;
  bar.value = loaded;
  text.textContent = `${megabytes.format(loaded / 1e6)} of ${megabytes.format(total / 1e6)} MB sent`;
});
document.addEventListener("htmx:afterRequest", (e) => {
  for (const part of e.target.querySelectorAll?.("[data-sent]") ?? []) {
    part.hidden = part.tagName === "PROGRESS";
    if (!part.hidden) part.textContent = "";
  }
});
