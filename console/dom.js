// Elements, and how a tree of them becomes the next one without losing focus, scroll or selection. Text is only ever text:
// nothing here makes markup of it.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Functions are handlers, `style` is an object, what is null, undefined or false is left out. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of a picture. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "key") element.key = value;
    else if (name === "style") setStyle(element, value);
    else if (name === "value") element.value = value;
    else if (typeof value === "function") (element.handlers ??= {})[name] = element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

function setStyle(element, style) {
  // By the object model: the policy of the page allows no style in an attribute.
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, String(value));
}

function flat(children) {
  const given = (child) => child !== null && child !== undefined && child !== false;
  return children.flat(Infinity).filter(given).map((child) => (child instanceof Node ? child : String(child)));
}

/** Makes the children of an element be those given, keeping every element that can stay. */
export function show(parent, ...children) {
  patchChildren(parent, flat(children).map((it) => (typeof it === "string" ? document.createTextNode(it) : it)));
}

function patchChildren(parent, wanted) {
  const byKey = new Map();
  for (const child of parent.childNodes) if (child.key !== undefined) byKey.set(child.key, child);
  const staying = new Set(wanted.filter((node) => node.parentNode === parent));
  let at = parent.firstChild;
  for (const node of wanted) {
    let match = null;
    if (node.parentNode === parent) match = node;
    else if (node.key !== undefined) match = byKey.get(node.key) ?? null;
    else if (at && at.key === undefined && !staying.has(at) && alike(at, node)) match = at;
    if (match && match !== node && !alike(match, node)) match = null;
    if (!match) {
      parent.insertBefore(node, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else parent.insertBefore(match, at);
    if (match !== node) patch(match, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.type === b.type;
}

function patch(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const name of old.getAttributeNames()) {
    if (name !== "style" && !next.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const name of next.getAttributeNames()) {
    if (name === "style") continue;
    const value = next.getAttribute(name);
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
  for (const name of Object.keys(old.handlers ?? {})) if (!next.handlers?.[name]) old[name] = null;
  for (const [name, handler] of Object.entries(next.handlers ?? {})) old[name] = handler;
  old.handlers = next.handlers;
  old.key = next.key;
  // What somebody is typing is theirs.
  if ("value" in next && old !== document.activeElement && old.value !== next.value) old.value = next.value;
  patchChildren(old, [...next.childNodes]);
}

let saidAt = 0;
let shownUntil = 0;

/** For those who listen, and if it is `shown` for those who look. */
export function say(text, { shown = false } = {}) {
  const said = document.getElementById("said");
  // The same words twice are news too.
  said.textContent = saidAt++ % 2 ? text : `${text}\u00a0`;
  said.classList.toggle("shown", shown);
  clearTimeout(shownUntil);
  if (shown) shownUntil = setTimeout(() => said.classList.remove("shown"), 6000);
}
