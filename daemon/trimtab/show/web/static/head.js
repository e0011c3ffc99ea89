// The head (cluster, beat, mode, pause, person), the notices under it, and the strip of numbers.

import { notice, standingNotices } from "./around.js";
import { pauseControl } from "./decide.js";
import { h, render } from "./dom.js";
import { changed, state } from "./state.js";
import { age, clock, number, percent, plural } from "./words.js";

const WORRY_SECONDS = 30;
const MODE_WORDS = {
  observe: "Watches and says what is wrong; recommends nothing.",
  recommend: "Recommends; nothing is carried out, so nothing can be approved.",
  approve: "Carries out what a person approves.",
  act: "Carries out what its settings allow by itself; the rest when a person approves.",
};

const byId = (id) => document.getElementById(id);

export function renderHead() {
  const { board, trouble } = state;
  document.title = board ? `${openCount(board)}${board.cluster} · trimtab` : "trimtab";
  render(byId("cluster"), board?.cluster || "");
  const mode = byId("mode");
  mode.hidden = !board;
  if (board) {
    mode.title = MODE_WORDS[board.mode];
    render(mode, h("span", { class: "dim" }, "mode "), board.mode);
  }
  render(byId("pause"), board ? pauseControl() : null);
  const isOut = trouble?.status === 401;
  render(byId("person"), board || trouble ? (isOut ? "signed out" : "signed in") : "");
  tickBeat();
}

function openCount(board) {
  const open = board.findings.filter((item) => item.state === "open" && item.finding.severity !== "info").length;
  return open ? `(${open}) ` : "";
}

/** The age of the beat, each second; and what to say when nothing comes. */
export function tickBeat() {
  const beat = byId("beat");
  const seconds = state.board ? (performance.now() - state.receivedMs) / 1000 : 0;
  if (state.board) render(beat, `beat ${age(seconds)} ago`);
  beat.classList.toggle("late", seconds > WORRY_SECONDS);
  render(byId("notices"), ...notices(seconds));
}

function notices(seconds) {
  const { board, trouble } = state;
  const made = [];
  if (!board && !trouble) made.push(notice("line", "plain", "Asking the daemon for its first board."));
  if (trouble?.status === 401) {
    made.push(notice("line", "bad", "You are signed out; what is shown is old. Make a new link on the daemon's host: ", h("code", {}, "trimtab link")));
  } else if (trouble && !board) {
    made.push(notice("line", trouble.status === 503 ? "plain" : "bad", trouble.sentence));
  } else if (board && (trouble || seconds > WORRY_SECONDS)) {
    const shown = clock(board.at);
    made.push(notice("line", "bad", `No word from the daemon for ${age(seconds)}. What is shown is of ${shown}; trying again.`));
  }
  return board ? [...made, ...standingNotices(board)] : made;
}

const SIZES = [1, 2, 4, 8];

export function renderStrip() {
  const { board } = state;
  if (!board) return;
  const s = board.strip;
  const of = (count) => (s.gpus_total ? percent(count / s.gpus_total, count && count / s.gpus_total < 0.1 ? 1 : 0) : "0 %");
  const idleJobs = new Set(board.nodes.flatMap((n) => n.cells.filter((c) => c.state === "held_idle").map((c) => c.workload)));
  const outNodes = board.nodes.filter((n) => n.cells.some((c) => c.state === "lost" || c.state === "unusable")).length;
  const stranded = s.stranded[state.size];
  const spare = s.gpus_spare ? `, beside ${number(s.gpus_spare)} spare` : "";
  const unknown = s.gpus_unknown ? `, ${number(s.gpus_unknown)} not known` : "";
  render(byId("strip"),
    tile("working", "GPUs working", number(s.gpus_working), `of ${number(s.gpus_total)} · ${of(s.gpus_working)}`, (t) => t.gpus_working, "green"),
    tile("idle", "held but idle", number(s.gpus_held_idle), s.gpus_held_idle ? `${plural(idleJobs.size, "job")} · ${of(s.gpus_held_idle)}` : "nobody holds what it does not use", (t) => t.gpus_held_idle, "dim"),
    tile("stranded", ["stranded for k = ", sizes()], stranded === undefined ? "–" : number(stranded), `of ${number(s.gpus_free)} free${spare}`, (t) => t.stranded[state.size], "orange"),
    tile("out", "out of service", number(s.gpus_out_of_service), `${outNodes ? plural(outNodes, "node") : "none"}${unknown}`, (t) => t.gpus_out_of_service, "bad"),
    tile("goodput", "goodput", s.goodput_ratio === null ? "–" : percent(s.goodput_ratio, 1), goodputWords(s), (t) => t.goodput_ratio, "sky"));
}

function goodputWords(strip) {
  if (strip.goodput_ratio === null) return "nothing is held";
  const first = state.trail.find((each) => each.strip.goodput_ratio !== null);
  const change = (strip.goodput_ratio - first.strip.goodput_ratio) * 100;
  if (Math.abs(change) < 0.05) return "of the GPUs that are held";
  return `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(1)} since ${clock(first.at)}`;
}

function sizes() {
  const on = {
    change(event) {
      state.size = Number(event.target.value);
      state.hasChosenSize = true;
      changed();
    },
  };
  return h("select", { "aria-label": "GPUs together", on, key: `size-${state.hasChosenSize || state.size}` },
    SIZES.map((k) => h("option", { value: k, selected: k === state.size }, String(k))));
}

function tile(key, label, value, words, read, colour) {
  return h("div", { class: "tile", key },
    h("div", { class: "tile-label" }, label),
    h("div", { class: "tile-value" }, value),
    h("div", { class: "tile-words" }, words),
    sparkline(state.trail.map((each) => read(each.strip)), colour));
}

/** The numbers since the page was opened; its range is padded so that one GPU more is no mountain. */
function sparkline(values, colour) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length < 2) return h("svg:svg", { class: "spark", "aria-hidden": "true", viewBox: "0 0 96 28" });
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const pad = Math.max((high - low) * 0.15, Math.abs(high) * 0.03, 0.005);
  const x = (i) => 1 + (94 * i) / (values.length - 1);
  const y = (v) => 26 - (24 * (v - low + pad)) / (high - low + 2 * pad);
  const points = values.map((v, i) => (v === null || v === undefined ? null : `${x(i).toFixed(1)},${y(v).toFixed(1)}`));
  return h("svg:svg", { class: `spark ${colour}`, "aria-hidden": "true", viewBox: "0 0 96 28" },
    h("svg:polyline", { points: points.filter(Boolean).join(" ") }));
}
