// The strip's numbers over a day or a week, with what happened meanwhile; asked for anew each minute.

import { get } from "./live.js";
import { changed, state } from "./state.js";

const AGAIN_MS = 60_000;
const POINTS = { 10800: 180, 86400: 288, 604800: 336 };
const kept = new Map(); // seconds -> { trends, askedMs, error }

/** The trends over so long, or null until they have come. */
export function trendsOver(seconds) {
  const now = performance.now();
  const one = kept.get(seconds) || { trends: null, askedMs: -Infinity, error: "" };
  kept.set(seconds, one);
  if (state.live && now - one.askedMs > AGAIN_MS) {
    one.askedMs = now;
    get(`/api/v1/trends?since_seconds=${seconds}&points=${POINTS[seconds]}`).then(
      (trends) => {
        Object.assign(one, { trends, error: "" });
        changed();
      },
      (error) => {
        one.error = error.message;
        changed();
      },
    );
  }
  return one;
}

export function dayTrends() {
  return trendsOver(86400).trends;
}
