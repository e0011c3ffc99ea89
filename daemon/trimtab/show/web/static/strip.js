// The strip of numbers: each with the day behind it and how it has changed since.

import { h, render } from "./dom.js";
import { t } from "./say.js";
import { changed, state } from "./state.js";
import { dayTrends } from "./trends.js";
import { clock, number, percent, plural } from "./words.js";

const SIZES = [1, 2, 4, 8];
const KNOWN_MIN = 12; // fewer steps of the day than this say less than what was seen since the page was opened

export function renderStrip(container) {
  const { board } = state;
  const s = board.strip;
  const { counts } = state.fleet;
  const of = (count) => (s.gpus_total ? percent(count / s.gpus_total, count && count / s.gpus_total < 0.1 ? 1 : 0) : "0 %");
  const stranded = s.stranded[state.size];
  const spare = s.gpus_spare ? t("strip-beside-spare", { n: number(s.gpus_spare) }) : "";
  const unknown = s.gpus_unknown ? `, ${t("strip-not-known", { n: number(s.gpus_unknown) })}` : "";
  const out = counts.outNodes.size ? plural(counts.outNodes.size, "nodes") : t("strip-none");
  const count = (value) => (value === null || value === undefined ? "–" : number(value));
  render(container,
    tile("working", t("strip-working"), number(s.gpus_working), t("strip-of-share", { total: number(s.gpus_total), share: of(s.gpus_working) }), "gpus_working", "green"),
    tile("idle", t("strip-idle"), number(s.gpus_held_idle), s.gpus_held_idle ? `${plural(counts.idleJobs.size, "jobs")} · ${of(s.gpus_held_idle)}` : t("strip-idle-none"), "gpus_held_idle", "dim"),
    tile("stranded", [t("strip-stranded"), " ", sizes()], count(stranded), `${t("strip-of-free", { n: number(s.gpus_free) })}${spare}`, `stranded/${state.size}`, "orange"),
    tile("out", t("strip-out"), number(s.gpus_out_of_service), `${out}${unknown}`, "gpus_out_of_service", "bad"),
    tile("goodput", t("strip-goodput"), s.goodput_ratio === null ? "–" : percent(s.goodput_ratio, 1), t(s.goodput_ratio === null ? "strip-nothing-held" : "strip-of-held"), "goodput_ratio", "sky"));
}

function sizes() {
  const on = {
    change(event) {
      state.size = Number(event.target.value);
      state.hasChosenSize = true;
      changed();
    },
  };
  return h("select", { "aria-label": t("strip-size"), on, key: `size-${state.hasChosenSize || state.size}` },
    SIZES.map((k) => h("option", { value: k, selected: k === state.size }, String(k))));
}

/** The number in the boards since the page was opened, by its name in the trends. */
function read(strip, name) {
  return name.startsWith("stranded/") ? strip.stranded[name.split("/")[1]] : strip[name];
}

function tile(key, label, value, words, name, colour) {
  const trends = dayTrends();
  const day = trends?.series[name];
  const known = day ? day.filter((one) => one !== null).length : 0;
  const isDay = known >= KNOWN_MIN || known > state.trail.length;
  const first = isDay ? day.findIndex((one) => one !== null) : 0;
  const values = isDay ? day.slice(first) : state.trail.map((each) => read(each.strip, name));
  const since = isDay ? trends.at_seconds[first] * 1000 : state.trail[0]?.at;
  return h("div", { class: "tile", key },
    h("div", { class: "tile-label" }, label),
    h("div", { class: "tile-value" }, value),
    h("div", { class: "tile-words" }, words, change(name, values, since)),
    sparkline(values, colour));
}

/** How far it is from where it began: a day ago, or when this page was opened. */
function change(name, values, since) {
  const first = values.find((value) => value !== null && value !== undefined);
  const now = read(state.board.strip, name);
  const isLater = new Date(since).getTime() >= Date.parse(state.board.at);
  if (first === undefined || isLater || values.length < 2 || now === null || now === undefined) return null;
  const isRatio = name.endsWith("_ratio");
  const diff = (now - first) * (isRatio ? 100 : 1);
  if (Math.abs(diff) < (isRatio ? 0.05 : 0.5)) return null;
  const text = `${diff > 0 ? "+" : "−"}${isRatio ? Math.abs(diff).toFixed(1) : number(Math.round(Math.abs(diff)))}`;
  return h("span", { class: "change" }, " · ", t("strip-change", { change: text, at: clock(since, state.board.at) }));
}

/** Its range is padded so that one GPU more is no mountain; a gap stays a gap. */
function sparkline(values, colour) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length < 2) return h("svg:svg", { class: "spark", "aria-hidden": "true", viewBox: "0 0 96 28" });
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const pad = Math.max((high - low) * 0.15, Math.abs(high) * 0.03, 0.005);
  const x = (i) => 1 + (94 * i) / (values.length - 1);
  const y = (v) => 26 - (24 * (v - low + pad)) / (high - low + 2 * pad);
  const runs = [[]];
  values.forEach((v, i) => {
    if (v === null || v === undefined) runs.push([]);
    else runs.at(-1).push(`${x(i).toFixed(1)},${y(v).toFixed(1)}`);
  });
  return h("svg:svg", { class: `spark ${colour}`, "aria-hidden": "true", viewBox: "0 0 96 28" },
    runs.filter((run) => run.length).map((run) => h("svg:polyline", { points: run.join(" ") })));
}
