// A job's ranks × time as a heat strip: the one that is slow, hot or silent stands out as a line.

import { prepare } from "./cell.js";
import { onThemeChange, theme, viridis } from "./colour.js";
import { h, kept, link, render } from "./dom.js";
import { get } from "./live.js";
import { nodePath } from "./route.js";
import { t } from "./say.js";
import { changed, state } from "./state.js";
import { age, clock, full, quantity } from "./words.js";

const METRICS = {
  activity_ratio: "ratio",
  sm_clock_hertz: "hertz",
  power_watts: "watts",
  temperature_celsius: "celsius",
  nvlink_bytes_per_second: "bytes_per_second",
  pcie_bytes_per_second: "bytes_per_second",
  dram_active_ratio: "ratio",
};
const BY_RULE = { hotspot: "sm_clock_hertz", straggler: "sm_clock_hertz" };
const SPANS = [900, 3600, 21600, 86400];
const AGAIN_MS = 15_000;
const ROWS_TALL_MAX = 420;
const LABEL = 92;
const view = { metric: "activity_ratio", chosenFor: null, settledFor: null, span: 3600, job: null, said: null, error: "", askedMs: -Infinity, askedFor: "", at: null };

/** The strip with its choices; asks for what it shows, and again while it is open. */
export function heatStrip(job, open) {
  if (view.chosenFor !== job.id && (view.settledFor !== job.id || open.length)) {
    view.metric = metricFor(open);
    view.settledFor = job.id;
  }
  want(job);
  return [
    h("div", { class: "heat-head" },
      choose("metric", t("heat-metric"), Object.keys(METRICS).map((name) => [name, t(`heat-${name}`)])),
      choose("span", t("how-far-back"), SPANS.map((span) => [span, age(span)]))),
    view.error ? h("p", { class: "dim" }, view.error) : null,
    view.said ? strip(view.said) : view.error ? null : h("p", { class: "dim" }, t("asking")),
  ];
}

/** What its findings are seen in: their detector's own series, else what the rule is about; else how busy it is. */
function metricFor(open) {
  const judged = open.flatMap(({ finding }) => [...(finding.facts?.series || "").split(" "), BY_RULE[finding.rule]]);
  return judged.find((name) => METRICS[name]) || "activity_ratio";
}

function choose(what, label, options) {
  const on = {
    change(event) {
      view[what] = what === "span" ? Number(event.target.value) : event.target.value;
      if (what === "metric") view.chosenFor = view.job;
      view.askedMs = -Infinity;
      changed();
    },
  };
  return h("select", { "aria-label": label, on, key: `heat-${what}` },
    options.map(([value, text]) => h("option", { value, selected: value === view[what] }, text)));
}

function want(job) {
  const at = state.past?.board ? state.past.at : "";
  const wanted = `${job.id}/${view.metric}/${view.span}/${at}`;
  const isOther = wanted !== view.askedFor;
  if (!isOther && (at || performance.now() - view.askedMs < AGAIN_MS)) return;
  if (isOther && view.job !== job.id) view.said = null;
  Object.assign(view, { askedFor: wanted, askedMs: performance.now(), job: job.id, error: "" });
  const query = new URLSearchParams({ metric: view.metric, since_seconds: String(view.span), points: "120" });
  if (at) {
    query.set("until", at);
    query.set("since", new Date(Date.parse(at) - view.span * 1000).toISOString());
  }
  const path = job.id.split("/").map(encodeURIComponent).join("/");
  get(`/api/v1/jobs/${path}/ranks?${query}`).then(
    (said) => {
      if (view.askedFor !== wanted) return;
      view.said = said;
      changed();
    },
    (error) => {
      if (view.askedFor !== wanted) return;
      Object.assign(view, { said: null, error: error.message });
      changed();
    },
  );
}

function strip(said) {
  if (!said.rows.length) return h("p", { class: "dim" }, t("heat-nothing"));
  const unit = said.unit || METRICS[said.metric];
  const nobody = t("heat-nobody", { what: t(`heat-${said.metric}`) });
  const label = t("heat-label", { what: t(`heat-${said.metric}`), rows: String(said.rows.length), suspect: said.suspect_text || nobody });
  return h("figure", { class: "heat", key: `heat-${said.metric}` },
    said.suspect_text ? h("p", { class: "suspect" }, h("span", { class: "suspect-mark", "aria-hidden": "true" }, "▶"), " ", full(said.suspect_text)) : h("p", { class: "dim" }, nobody),
    h("div", { class: "heat-box" },
      kept("canvas", { key: "heat", tabindex: "0", role: "img", "aria-label": label, on: { pointermove: onMove, pointerleave: () => tell(null), keydown: onKey, blur: () => tell(null), click: openRank } }, mount, draw),
      h("div", { class: "tip", key: "tip", hidden: true, "data-keep": true, keep: true, role: "status", mount: () => {}, refresh: () => {} })),
    h("figcaption", { class: "legend" },
      h("span", { class: "scale" }, h("span", {}, quantity(said.low, unit)), kept("canvas", { key: "scale", "aria-hidden": "true" }, drawScale, drawScale), h("span", {}, quantity(said.high, unit))),
      h("span", {}, h("span", { class: "hatched", "aria-hidden": "true" }), " ", t("heat-unknown")),
      said.rows_left_out ? h("span", { class: "dim" }, t("and-more", { n: String(said.rows_left_out) })) : null),
    rankTable(said, unit));
}

/** The same as a table, folded: rank, where, mean, and against the others. */
function rankTable(said, unit) {
  const rows = [...said.rows].sort((a, b) => b.is_suspect - a.is_suspect).slice(0, 128);
  return h("details", { key: "ranks" },
    h("summary", {}, t("heat-table")),
    h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": t("heat-table") },
      h("table", { class: "numbers ranks" },
        h("thead", {}, h("tr", {}, ["rank", "where", "mean", "median"].map((word) => h("th", { scope: "col" }, t(`heat-col-${word}`))))),
        h("tbody", {}, rows.map((row, i) => h("tr", { key: i, class: row.is_suspect ? "is-suspect" : null },
          h("td", {}, row.is_suspect ? "▶ " : "", row.rank === null ? "–" : String(row.rank)),
          h("td", {}, link(nodePath(row.node, row.gpu), {}, nameOf(row))),
          h("td", {}, quantity(row.mean, unit)),
          h("td", {}, row.to_median_ratio === null ? "–" : `× ${row.to_median_ratio.toFixed(2)}`)))))));
}

const nameOf = (row) => (row.index === null ? `${row.node} ${row.gpu}` : `${row.node} GPU ${row.index}`);

let canvas = null;

function mount(el) {
  canvas = el;
  new ResizeObserver(() => draw()).observe(el.parentElement);
  draw();
}

onThemeChange(() => canvas?.isConnected && draw());

function rowTall() {
  return Math.min(Math.max(Math.floor(ROWS_TALL_MAX / view.said.rows.length), 1), 14);
}

function draw() {
  const width = canvas?.parentElement?.clientWidth;
  if (!width || !view.said) return;
  const { rows, at_seconds: times, low, high } = view.said;
  const tall = rowTall();
  const ctx = prepare(canvas, width, rows.length * tall + 18);
  const colours = theme();
  const wide = (width - LABEL) / Math.max(times.length, 1);
  rows.forEach((row, r) => {
    const y = r * tall;
    row.values.forEach((value, k) => {
      const x = LABEL + k * wide;
      if (value === null) {
        ctx.fillStyle = colours.faint;
        for (let at = x + ((r * tall) % 4); at < x + wide; at += 4) ctx.fillRect(at, y, 1, tall - (tall > 3));
        return;
      }
      ctx.fillStyle = viridis((value - low) / (high - low || 1));
      ctx.fillRect(x, y, wide + 0.5, tall - (tall > 3));
    });
    if (row.is_suspect) {
      ctx.strokeStyle = colours.bad;
      ctx.lineWidth = 2;
      ctx.strokeRect(LABEL + 1, y - 0.5, width - LABEL - 2, Math.max(tall, 3));
    }
    label(ctx, row, r, y, tall, colours);
  });
  drawTimes(ctx, times, wide, rows.length * tall, colours);
  if (view.at) cursor(ctx, wide, tall, colours);
}

/** Names where there is room; the suspect's always. */
function label(ctx, row, r, y, tall, colours) {
  const every = Math.ceil(12 / tall);
  if (r % every && !row.is_suspect) return;
  const isNear = view.said.rows.some((one, i) => one.is_suspect && i !== r && Math.abs(i - r) < every);
  if (isNear && !row.is_suspect) return;
  ctx.font = `${row.is_suspect ? "600 " : ""}10.5px ${colours.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillStyle = row.is_suspect ? colours.bad : colours.dim;
  const rank = row.rank === null ? "" : `${row.rank} `;
  ctx.fillText(`${row.is_suspect ? "▶ " : ""}${rank}${row.node}${row.index === null ? "" : `/${row.index}`}`, 0, y + tall / 2, LABEL - 6);
}

function drawTimes(ctx, times, wide, y, colours) {
  if (!times.length) return;
  ctx.font = `10.5px ${colours.font}`;
  ctx.fillStyle = colours.dim;
  ctx.textBaseline = "top";
  for (const [share, align] of [[0, "left"], [0.5, "center"], [1, "right"]]) {
    const place = Math.round(share * (times.length - 1));
    ctx.textAlign = align;
    ctx.fillText(clock(times[place] * 1000), LABEL + (place + share) * wide, y + 5);
  }
}

function cursor(ctx, wide, tall, colours) {
  ctx.strokeStyle = colours.text;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(LABEL + view.at.step * wide - 1, view.at.row * tall - 1, wide + 2, tall + 2);
}

function onMove(event) {
  const box = canvas.getBoundingClientRect();
  const step = Math.floor(((event.clientX - box.left - LABEL) / (box.width - LABEL)) * view.said.at_seconds.length);
  const row = Math.floor((event.clientY - box.top) / rowTall());
  tell(row < view.said.rows.length && row >= 0 ? { row, step: Math.max(step, 0) } : null);
}

function onKey(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (event.key === "Enter" && view.at) openRank();
  if (!step) return;
  event.preventDefault();
  const at = view.at || { row: view.said.suspect ?? 0, step: view.said.at_seconds.length - 1 };
  const clamp = (value, most) => Math.min(Math.max(value, 0), most);
  tell(view.at ? { row: clamp(at.row + step[0], view.said.rows.length - 1), step: clamp(at.step + step[1], view.said.at_seconds.length - 1) } : at);
}

function tell(at) {
  view.at = at;
  draw();
  const tip = canvas.parentElement.querySelector(".tip");
  const row = at && view.said.rows[at.row];
  tip.hidden = !row;
  if (!row) return;
  const unit = view.said.unit || METRICS[view.said.metric];
  const value = row.values[at.step];
  render(tip,
    h("strong", {}, row.rank === null ? "" : `${t("heat-col-rank")} ${row.rank} · `, nameOf(row)),
    h("div", {}, `${clock(view.said.at_seconds[at.step] * 1000)}: ${value === null || value === undefined ? t("heat-unknown") : quantity(value, unit)}`),
    row.to_median_ratio === null ? null : h("div", { class: "dim" }, t("heat-to-median", { ratio: row.to_median_ratio.toFixed(2) })));
  const wide = (canvas.clientWidth - LABEL) / view.said.at_seconds.length;
  tip.style.left = `${Math.min(LABEL + at.step * wide + 10, canvas.clientWidth - tip.offsetWidth)}px`;
  tip.style.top = `${(at.row + 1) * rowTall() + 6}px`;
}

async function openRank() {
  const row = view.at && view.said.rows[view.at.row];
  if (row) (await import("./route.js")).open(nodePath(row.node, row.gpu));
}

function drawScale(el) {
  const ctx = prepare(el, 100, 10);
  for (let i = 0; i < 10; i += 1) {
    ctx.fillStyle = viridis(i / 9);
    ctx.fillRect(i * 10, 0, 9, 10);
  }
}
