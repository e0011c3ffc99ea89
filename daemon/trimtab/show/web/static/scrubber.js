// The scrubber: a day or a week with what happened in it. Dragged, every part of the page shows that moment.

import { severityColour, theme } from "./colour.js";
import { prepare } from "./cell.js";
import { h, kept, render } from "./dom.js";
import { get } from "./live.js";
import { t } from "./say.js";
import { changed, leavePast, state, takePast } from "./state.js";
import { trendsOver } from "./trends.js";
import { clock, dayClock, weekday } from "./words.js";

const SPANS = { 10800: 60, 86400: 300, 604800: 1800 }; // seconds shown -> seconds of one step
const ASK_AFTER_MS = 120;
const HEIGHT = 46;
const LANE = 13; // of the marks, under the curve
const MARK_REACH = 6;
const view = { span: 86400, isChosen: false, seconds: null, timer: 0, aborter: null };

/** The end of the shown stretch, as Unix seconds: the last board's moment. */
const nowSeconds = () => Math.floor(Date.parse(state.live?.board.at || new Date()) / 1000);

/** Open the moment that the address names (`?at=`). */
export function startPast() {
  const look = () => {
    const at = new URLSearchParams(location.search).get("at");
    const seconds = at ? Date.parse(at) / 1000 : NaN;
    if (!at) {
      if (state.past) forget();
    } else if (Number.isNaN(seconds)) refuse(at);
    else if (state.past?.at !== iso(seconds)) {
      state.past = { ...(state.past || {}), isBlank: true };
      go(seconds, 0);
    }
  };
  addEventListener("popstate", look);
  look();
}

/** An address whose moment cannot be read shows neither then nor now. */
function refuse(at) {
  forget();
  state.past = { at, isBlank: true, error: t("past-no-moment", { at: at.slice(0, 40), example: iso(Date.now() / 1000) }) };
  changed();
}

const iso = (seconds) => new Date(seconds * 1000).toISOString().replace(/\.\d+Z$/, "Z");

/** The address with this moment in it, or without one. */
function address(at) {
  const url = new URL(location.href);
  if (at) url.searchParams.set("at", at);
  else url.searchParams.delete("at");
  history.replaceState(history.state, "", url);
}

function go(seconds, afterMs = ASK_AFTER_MS) {
  const at = iso(Math.round(seconds));
  view.seconds = seconds;
  if (state.live && seconds >= nowSeconds() - 1) {
    leave();
    return;
  }
  state.past = { ...(state.past || {}), at, isAsking: true, error: null };
  changed();
  clearTimeout(view.timer);
  view.aborter?.abort();
  view.timer = setTimeout(() => ask(at), afterMs);
}

async function ask(at) {
  address(at);
  const aborter = new AbortController();
  view.aborter = aborter;
  try {
    const board = await get(`/api/v1/board?at=${encodeURIComponent(at)}`, aborter.signal);
    if (!aborter.signal.aborted && state.past) takePast(at, board);
  } catch (error) {
    if (error.name === "AbortError" || !state.past) return;
    state.past = { at, isBlank: true, error: error.message };
    changed();
  }
}

function forget() {
  clearTimeout(view.timer);
  view.aborter?.abort();
  view.seconds = null;
  leavePast();
}

/** Back to now. */
export function leave() {
  address(null);
  forget();
}

export function renderScrubber(container) {
  const { trends, error } = trendsOver(view.span);
  zoomToKept(trends);
  const until = nowSeconds();
  const value = view.seconds ?? until;
  render(container,
    h("div", { class: "scrub-controls", key: "controls" },
      h("select", { "aria-label": t("scrubber-span"), on: { change: (event) => choose(event) }, key: "span" },
        Object.keys(SPANS).map((span) => h("option", { value: span, selected: Number(span) === view.span }, t(`scrubber-span-${span}`)))),
      h("output", { key: "at" }, state.past ? dayClock(value * 1000) : t("scrubber-now"))),
    h("div", { class: "scrub-track", key: "track" },
      kept("canvas", { key: "canvas", "aria-hidden": "true" }, mountTrack, draw),
      slider(until, value),
      h("div", { class: "tip scrub-tip", key: "tip", hidden: true, "data-keep": true, keep: true, mount: () => {}, refresh: () => {} })),
    h("p", { class: "spoken", key: "words", role: "status" }, error || marksWords(trends)));
}

/** A daemon that is young has three hours to show rather than an empty day, until somebody chooses. */
function zoomToKept(trends) {
  const kept = trends?.kept?.since;
  if (view.isChosen || !kept || view.span !== 86400 || nowSeconds() - Date.parse(kept) / 1000 > 10800) return;
  view.span = 10800;
  changed();
}

function choose(event) {
  view.span = Number(event.target.value);
  view.isChosen = true;
  changed();
}

function slider(until, value) {
  const step = SPANS[view.span];
  const low = until - view.span;
  const on = {
    input: (event) => go(Number(event.target.value)),
    keydown: onKey,
    pointermove: (event) => tell(event),
    pointerleave: () => tell(null),
    click: (event) => toMark(event),
  };
  const paint = (el) => {
    Object.assign(el, { min: low, max: until, step });
    const wanted = String(Math.min(Math.max(value, low), until));
    if (el.value !== wanted) el.value = wanted;
    el.setAttribute("aria-valuetext", state.past ? dayClock(value * 1000) : t("scrubber-now"));
    el.setAttribute("aria-label", t("scrubber-slider"));
  };
  return h("input", { type: "range", key: "slider", on, "data-keep": true, keep: true, mount: paint, refresh: paint });
}

/** Page keys go from mark to mark, End and Escape to now. */
function onKey(event) {
  if (event.key === "End" || event.key === "Escape") {
    if (!state.past) return;
    event.preventDefault();
    event.stopPropagation();
    leave();
  } else if (event.key === "PageUp" || event.key === "PageDown") {
    event.preventDefault();
    const mark = nextMark(event.key === "PageUp" ? 1 : -1);
    if (mark) go(mark.at_seconds, 0);
    else if (event.key === "PageUp" && state.past) leave();
  }
}

function nextMark(direction) {
  const here = view.seconds ?? nowSeconds();
  const marks = shownMarks().filter((mark) => (mark.at_seconds - here) * direction > 1);
  return direction > 0 ? marks[0] : marks.at(-1);
}

function shownMarks() {
  const low = nowSeconds() - view.span;
  return (trendsOver(view.span).trends?.marks || []).filter((mark) => mark.at_seconds >= low && mark.kind !== "finding_closed");
}

function marksWords(trends) {
  if (!trends) return t("scrubber-asking");
  const marks = shownMarks();
  const findings = marks.filter((mark) => mark.kind === "finding_opened").length;
  return t("scrubber-marks", { findings: String(findings), commands: String(marks.length - findings) });
}

/** A click on the lane of marks goes to the mark. */
function toMark(event) {
  const mark = markAt(event);
  if (mark) go(mark.at_seconds, 0);
}

function markAt(event) {
  const box = event.target.getBoundingClientRect();
  if (event.clientY - box.top < HEIGHT - LANE - 6) return null;
  const low = nowSeconds() - view.span;
  const x = (mark) => ((mark.at_seconds - low) / view.span) * box.width;
  const near = shownMarks().map((mark) => [Math.abs(x(mark) - (event.clientX - box.left)), mark]);
  near.sort((a, b) => a[0] - b[0]);
  return near.length && near[0][0] <= MARK_REACH ? near[0][1] : null;
}

/** What is under the pointer: the moment, and the mark there. */
function tell(event) {
  const tip = document.querySelector(".scrub-tip");
  if (!tip) return;
  tip.hidden = !event;
  if (!event) return;
  const box = event.target.getBoundingClientRect();
  const x = event.clientX - box.left;
  const mark = markAt(event);
  const moment = (nowSeconds() - view.span + (x / box.width) * view.span) * 1000;
  render(tip, mark ? [h("strong", {}, `${mark.name} `), mark.text, h("div", { class: "dim" }, `${clock(mark.at_seconds * 1000, moment)} ${mark.state}`)] : dayClock(moment));
  tip.style.left = `${Math.min(Math.max(x - tip.offsetWidth / 2, 0), box.width - tip.offsetWidth)}px`;
}

let track = null;

function mountTrack(canvas) {
  track = canvas;
  new ResizeObserver(() => draw()).observe(canvas.parentElement);
  draw();
}

function draw() {
  const width = track?.parentElement.clientWidth;
  if (!width) return;
  const ctx = prepare(track, width, HEIGHT);
  const colours = theme();
  const until = nowSeconds();
  const x = (seconds) => ((seconds - until + view.span) / view.span) * width;
  const { trends } = trendsOver(view.span);
  drawTimes(ctx, x, until, colours);
  if (trends) drawCurve(ctx, x, trends, colours, width);
  for (const mark of shownMarks()) drawMark(ctx, x(mark.at_seconds), mark, colours);
  const here = x(view.seconds ?? until);
  ctx.fillStyle = state.past ? colours.orange : colours.sky;
  ctx.fillRect(Math.min(here - 1, width - 2), 0, 2, HEIGHT);
}

function drawTimes(ctx, x, until, colours) {
  const step = { 10800: 1800, 86400: 10800, 604800: 86400 }[view.span];
  const offset = new Date(until * 1000).getTimezoneOffset() * 60;
  ctx.font = `10.5px ${colours.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  for (let at = Math.ceil((until - view.span - offset) / step) * step + offset; at < until; at += step) {
    ctx.fillStyle = colours.line;
    ctx.fillRect(Math.round(x(at)), 0, 1, HEIGHT);
    ctx.fillStyle = colours.dim;
    ctx.fillText(step === 86400 ? weekday(at * 1000) : clock(at * 1000), x(at) + 4, 1);
  }
}

/** GPUs that work as a share of all, and under them what nothing is known of, hatched. */
function drawCurve(ctx, x, trends, colours, width) {
  const { at_seconds: times, series, bucket_seconds: step } = trends;
  const [base, tall] = [HEIGHT - LANE - 2, HEIGHT - LANE - 16];
  ctx.beginPath();
  let isDown = false;
  times.forEach((at, i) => {
    const [working, all] = [series.gpus_working?.[i], series.gpus_total?.[i]];
    const isKnown = working !== null && working !== undefined && all;
    if (!isKnown) hatch(ctx, x(at), x(at + step), base - tall, tall, colours);
    else {
      const y = base - (working / all) * tall;
      if (isDown) ctx.lineTo(x(at + step / 2), y);
      else ctx.moveTo(x(at + step / 2), y);
    }
    isDown = Boolean(isKnown);
  });
  ctx.strokeStyle = colours.green;
  ctx.lineWidth = 1.5;
  ctx.stroke();
  if (times.length && x(times[0]) > 4) hatch(ctx, 0, Math.min(x(times[0]), width), base - tall, tall, colours);
}

function hatch(ctx, from, to, y, tall, colours) {
  ctx.fillStyle = colours.faint;
  for (let at = Math.ceil(from / 5) * 5; at < to; at += 5) ctx.fillRect(at, y + tall - 3, 2, 2);
}

function drawMark(ctx, x, mark, colours) {
  const y = HEIGHT - LANE / 2 - 1;
  ctx.beginPath();
  if (mark.kind === "command") {
    ctx.fillStyle = colours.sky;
    ctx.moveTo(x, y - 5);
    ctx.lineTo(x + 5, y);
    ctx.lineTo(x, y + 5);
    ctx.lineTo(x - 5, y);
  } else {
    ctx.fillStyle = severityColour(mark.severity);
    if (mark.severity === "critical") ctx.arc(x, y, 4.5, 0, 2 * Math.PI);
    else ctx.rect(x - 4, y - 4, 8, 8);
  }
  ctx.closePath();
  ctx.fill();
}
