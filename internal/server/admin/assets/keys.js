// Keys: / searches, g and a letter goes to a page, ? lists all of them. The list turns them off for those whom single keys disturb.
"use strict";

(() => {
  const list = document.querySelector("#shortcuts");
  if (!list) return; // nobody is signed in
  const on = list.querySelector("input");
  const stored = "godwit-keys";
  on.checked = localStorage.getItem(stored) !== "off";
  on.addEventListener("change", () => {
    if (on.checked) localStorage.removeItem(stored);
    else localStorage.setItem(stored, "off");
  });
  const places = new Map([...list.querySelectorAll("a[data-key]")].map((a) => [a.dataset.key, a.href]));
  let went = 0; // when g was pressed

  function search() {
    const field = document.querySelector("main [data-search]");
    if (field) {
      field.focus();
      field.select();
    } else location.href = "/ui/find";
  }

  document.querySelector("#keys-open")?.addEventListener("click", () => list.showModal());

  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || e.target.closest?.("input, textarea, select, [contenteditable]")) return;
    if (e.key === "?") {
      e.preventDefault();
      if (list.open) list.close();
      else list.showModal();
      return;
    }
    if (!on.checked || list.open) return;
    const follows = Date.now() - went < 1500;
    went = 0;
    if (follows && places.has(e.key)) location.href = places.get(e.key);
    else if (e.key === "g") went = Date.now();
    else if (e.key === "/") {
      e.preventDefault();
      search();
    }
  });
})();
