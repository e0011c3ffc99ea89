// Making and updating elements. All text is set as text: nothing that the API says is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";
const OWN = new Set(["key", "on", "keep", "mount", "refresh", "css"]);

/** An element. `on` = listeners, `css` = style properties (set one by one, as the page's policy asks), `key` =
 * identity in a list, `keep` = its inside is its own: `mount(el)` once, `refresh(el)` at each later render. */
export function h(tag, props, ...children) {
  const isSvg = tag.startsWith("svg:");
  const el = isSvg ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (OWN.has(name) || value === null || value === undefined || value === false) continue;
    el.setAttribute(name, value === true ? "" : String(value));
  }
  el._own = props || {};
  for (const [name, value] of Object.entries(el._own.css || {})) el.style.setProperty(name, value);
  for (const type of Object.keys(el._own.on || {})) listen(el, type);
  append(el, children);
  return el;
}

function append(el, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    el.append(child instanceof Node ? child : String(child));
  }
}

function listen(el, type) {
  el._heard = el._heard || new Set();
  if (el._heard.has(type)) return;
  el._heard.add(type);
  el.addEventListener(type, (event) => el._own.on?.[type]?.(event));
}

/** Make the container show these children; what stays keeps its focus, selection and typed text. */
export function render(container, ...children) {
  const fresh = document.createElement(container.nodeName);
  append(fresh, children);
  morphChildren(container, fresh);
  for (const el of container.querySelectorAll("[data-keep]")) {
    if (el._isMounted) el._own.refresh?.(el);
    else {
      el._isMounted = true;
      el._own.mount?.(el);
    }
  }
}

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) if (child._own?.key !== undefined) keyed.set(child._own.key, child);
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = next._own?.key;
    const match = key !== undefined ? keyed.get(key) : place && place._own?.key === undefined ? place : null;
    if (!match || !isSame(match, next)) {
      old.insertBefore(next, place);
      continue;
    }
    if (match === place) place = place.nextSibling;
    else old.insertBefore(match, place);
    morph(match, next);
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

function isSame(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && old._own?.key === fresh._own?.key;
}

function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    const isOurs = name === "style" || (name === "open" && old.nodeName === "DETAILS");
    if (!isOurs && !fresh.hasAttribute(name) && !old._own?.keep) old.removeAttribute(name);
  }
  old._own = fresh._own;
  for (const [name, value] of Object.entries(fresh._own?.css || {})) old.style.setProperty(name, value);
  for (const type of Object.keys(fresh._own?.on || {})) listen(old, type);
  if (!fresh._own?.keep) morphChildren(old, fresh);
}

/** An element whose inside is drawn by `paint(el)`, first when it is in the page and again at each render. */
export function kept(tag, props, paint, repaint = paint) {
  return h(tag, { ...props, "data-keep": true, keep: true, mount: paint, refresh: repaint });
}

/** A link inside the page. */
export function link(href, props, ...children) {
  return h("a", { ...props, href }, ...children);
}
