// Which findings the person has seen; remembered by the browser.

import { changed, state } from "./state.js";

const KEY = "trimtab.seen";
const KEPT_MAX = 2000;

function read() {
  try {
    return new Set(JSON.parse(localStorage.getItem(KEY) || "[]"));
  } catch {
    return new Set();
  }
}

const seen = read();

function keyOf(item) {
  return `${state.board?.cluster}:${item.id}:${item.opened_at}`;
}

export function isSeen(item) {
  return seen.has(keyOf(item));
}

export function markSeen(items) {
  const before = seen.size;
  for (const item of items) seen.add(keyOf(item));
  if (seen.size === before) return;
  try {
    localStorage.setItem(KEY, JSON.stringify([...seen].slice(-KEPT_MAX)));
  } catch {
    // Storage may be off; then "new" is remembered for this page alone.
  }
  changed();
}
