// Elements from code. Text only ever arrives as text nodes and attributes, so nothing in a record can become markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** Flags, which break at their hyphens, and figures with their units; no longer than a line of a phone. */
const WHOLE = /(?<![\w-])--?[A-Za-z][^\s,;:()'"]{0,24}|\d[\d.,]{0,20}(?:\/\d{1,9})? (?:B|ns|us|ms|s|%)(?![\w%])/g;
/** Elements that hold text alone. */
const PLAIN = new Set(["option", "title", "textarea"]);

/** A text of which no line ends within a flag or between a figure and its unit. The text itself is as it was, to be copied and searched. */
export function unbroken(text: string): (Node | string)[] {
  const parts: (Node | string)[] = [];
  let from = 0;
  for (const match of text.matchAll(WHOLE)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    const whole = document.createElement("span");
    whole.className = "whole";
    whole.append(match[0]);
    parts.push(whole);
    from = match.index + match[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

/** A text as one child, since its parts would be things of their own where children stand side by side. */
function together(text: string): Node | string {
  const parts = unbroken(text);
  return parts.every((part) => typeof part === "string") ? text : fill(document.createElement("span"), {}, parts);
}

/** An HTML element; an attribute with a function as value is a listener. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const whole = PLAIN.has(tag) ? children : children.map((child) => (typeof child === "string" ? together(child) : child));
  return fill(document.createElement(tag), attributes, whole);
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], attributes, children);
}

let live: HTMLElement | null = null;

/** Says something to a screen reader. */
export function announce(text: string): void {
  if (!live) {
    live = h("div", { class: "spoken", role: "status", "aria-live": "polite" });
    document.body.append(live);
  }
  live.textContent = text;
}

/** Puts text on the clipboard; true if that worked. A page from disk may be refused the newer way, so the older is tried too. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const before = document.activeElement;
    const area = h("textarea", { class: "spoken", "aria-hidden": "true", tabindex: -1 });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (before instanceof HTMLElement) before.focus();
    return done;
  }
}

/** A button that copies what `text` gives at that moment, and says so. */
export function copyButton(label: string, about: string, text: () => string): HTMLButtonElement {
  const button = h("button", { type: "button", class: "copy", "aria-label": `${label}: ${about}` }, label);
  let back = 0;
  button.addEventListener("click", async () => {
    const done = await copy(text());
    const said = done ? "copied" : "not allowed here";
    button.textContent = said;
    announce(`${about}: ${said}`);
    window.clearTimeout(back);
    back = window.setTimeout(() => (button.textContent = label), 1500);
  });
  return button;
}
