/** How far a finger has to go before it is a swipe, and which part of the row it has to go. */
const slack = 10;
const enough = 0.35;

/**
 * Lets a finger push a row aside: towards the end of the line (in Arabic, to the left) puts it away, the other way does
 * what `back` does. Up and down scrolls, as ever.
 */
export function swipes(row: HTMLElement, moving: HTMLElement, does: { away: () => void; back: () => void }): void {
  let start: { id: number; x: number; y: number } | undefined;
  let dx = 0;
  let sideways = false;
  let swiped = false; // the click that follows is none

  const rest = () => {
    start = undefined;
    sideways = false;
    dx = 0;
    moving.style.translate = "";
    row.classList.remove("swiped", "away", "back", "far");
  };

  const direction = () => (getComputedStyle(row).direction === "rtl" ? -1 : 1);
  const far = () => Math.abs(dx) > row.clientWidth * enough;

  row.addEventListener("pointerdown", (e) => {
    if (e.pointerType === "mouse" || !e.isPrimary) return;
    swiped = false;
    start = { id: e.pointerId, x: e.clientX, y: e.clientY };
  });
  row.addEventListener("pointermove", (e) => {
    if (!start || e.pointerId !== start.id) return;
    dx = e.clientX - start.x;
    if (!sideways) {
      if (Math.abs(dx) < slack || Math.abs(dx) < Math.abs(e.clientY - start.y)) return;
      sideways = true;
      row.setPointerCapture(e.pointerId);
    }
    moving.style.translate = `${dx}px`;
    const away = dx * direction() > 0;
    row.classList.add("swiped");
    row.classList.toggle("away", away);
    row.classList.toggle("back", !away);
    row.classList.toggle("far", far());
  });
  row.addEventListener("pointerup", (e) => {
    if (e.pointerId !== start?.id) return;
    const done = sideways && far();
    const away = dx * direction() > 0;
    swiped = sideways;
    rest();
    if (done) (away ? does.away : does.back)();
  });
  row.addEventListener("pointercancel", rest);
  const click = (e: Event) => {
    if (swiped) e.stopImmediatePropagation();
    if (swiped) e.preventDefault();
    swiped = false;
  };
  row.addEventListener("click", click, { capture: true });
}
