type Child = Node | string | undefined | false;

/** Makes an element. Texts become text nodes, whatever is in them. */
export function h<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Record<string, string | boolean | undefined> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) set(e, key, value);
  for (const child of children) if (child) e.append(child);
  return e;
}

/** Sets an attribute, or takes it away. */
export function set(e: Element, name: string, value: string | boolean | undefined): void {
  if (value === undefined || value === false) e.removeAttribute(name);
  else if (e.getAttribute(name) !== String(value)) e.setAttribute(name, value === true ? "" : value);
}

/** Writes a text where it is another one: a screen reader repeats what is written again. */
export function say(e: Element, text: string): void {
  if (e.textContent !== text) e.textContent = text;
}

/** A button without a form. */
export function button(part: string, text: string, click: () => void, ...children: Child[]): HTMLButtonElement {
  const b = h("button", { type: "button", part, class: part }, ...children);
  if (children.length === 0) b.textContent = text;
  else label(b, text);
  b.addEventListener("click", click);
  return b;
}

/** Names a button that shows a picture. */
export function label(b: Element, text: string): void {
  set(b, "aria-label", text);
  set(b, "title", text);
}

const shapes = {
  bell: "M12 2a2 2 0 0 0-2 2 7 7 0 0 0-5 7v4l-1 2v1h16v-1l-1-2v-4a7 7 0 0 0-5-7 2 2 0 0 0-2-2M9 20a3 3 0 0 0 6 0",
  archive: "M3 4h18v4H3zm1 5h16v11H4zm5 2v2h6v-2z",
  restore: "M12 4 5 11h4v6h6v-6h4zM5 19h14v2H5z",
  read: "m9 16.2-4.2-4.2-1.4 1.4L9 19 21 7l-1.4-1.4z",
  unread: "M12 6a6 6 0 1 0 0 12 6 6 0 0 0 0-12",
  pin: "M16 3H8v2h1v6l-3 3v2h5v5l1 1 1-1v-5h5v-2l-3-3V5h1z",
  readAll: "m1 13.4 1.4-1.4 4.2 4.2L5.2 17.6zM10 16.2 5.8 12 4.4 13.4 10 19 22 7l-1.4-1.4z",
  settings: "M3 6h10v2H3zm14 0h4v2h-4zm-3-2h2v6h-2zM3 16h4v2H3zm8 0h10v2H11zm-3-2h2v6H8z",
  back: "M20 11H7.8l5.6-5.6L12 4l-8 8 8 8 1.4-1.4L7.8 13H20z",
  close: "m19 6.4-1.4-1.4L12 10.6 6.4 5 5 6.4l5.6 5.6L5 17.6 6.4 19l5.6-5.6 5.6 5.6 1.4-1.4-5.6-5.6z",
};

export type Shape = keyof typeof shapes;

/** Draws a picture node by node: pages that demand trusted types refuse markup. */
export function icon(shape: Shape): SVGElement {
  const draw = (name: string) => document.createElementNS("http://www.w3.org/2000/svg", name);
  const svg = draw("svg") as SVGElement;
  const path = draw("path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", shapes[shape]);
  svg.append(path);
  return svg;
}
