// Addresses: /r/11, /f/31, /node/gpu-07?gpu=UUID, /job/research/llama-70b, /queue/research; `?at=` names a moment of
// the past and stays while it is looked at. Links work without leaving the page.

import { changed, state } from "./state.js";

export function read(location) {
  const [, kind, ...rest] = location.pathname.split("/").map(decodeURIComponent);
  const name = rest.join("/");
  if (kind === "r" && /^R?\d+$/i.test(name)) return { view: "command", id: Number(name.replace(/^R/i, "")) };
  if (kind === "f" && /^F?\d+$/i.test(name)) return { view: "finding", id: Number(name.replace(/^F/i, "")) };
  if (kind === "node" && name) return { view: "node", name, gpu: new URLSearchParams(location.search).get("gpu") };
  if (kind === "job" && name) return { view: "job", id: name };
  if (kind === "queue" && name) return { view: "queue", name };
  return { view: "start" };
}

export function jobPath(id) {
  return `/job/${id.split("/").map(encodeURIComponent).join("/")}`;
}

export function queuePath(name) {
  return `/queue/${name.split("/").map(encodeURIComponent).join("/")}`;
}

export function nodePath(name, gpu) {
  return `/node/${encodeURIComponent(name)}${gpu ? `?gpu=${encodeURIComponent(gpu)}` : ""}`;
}

/** The same address in the moment of the past that is shown. */
function inPast(path) {
  if (!state.past) return path;
  const url = new URL(path, location.href);
  url.searchParams.set("at", state.past.at);
  return url.pathname + url.search;
}

let returnTo = null;

export function open(path) {
  if (state.path.view === "start") returnTo = document.activeElement;
  history.pushState(null, "", inPast(path));
  go(true);
}

export function close() {
  history.pushState(null, "", inPast("/"));
  go(false);
  returnTo?.focus?.();
  returnTo = null;
}

function go(isOpened) {
  state.path = read(window.location);
  state.hoverJob = null;
  state.wantsFocus = isOpened && state.path.view !== "start";
  changed();
}

function onClick(event) {
  const anchor = event.target.closest?.("a[href]");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!anchor || !isPlain || event.defaultPrevented || anchor.origin !== window.location.origin) return;
  if (anchor.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  if (anchor.getAttribute("href") === "/") close();
  else open(anchor.getAttribute("href"));
}

export function start() {
  state.path = read(window.location);
  document.addEventListener("click", onClick);
  addEventListener("popstate", () => go(true));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.path.view !== "start" && !event.target.closest("form, .search, dialog, .popover")) close();
  });
}
