// Charts of one GPU's history with uPlot: the line, its threshold, event marks, and its peers as a band behind it.

import { onThemeChange, theme } from "./colour.js";
import { kept, h } from "./dom.js";
import { get } from "./live.js";
import { t } from "./say.js";
import { state } from "./state.js";
import { metricName, quantity, unitOf } from "./words.js";

const HEIGHT = 116;
const FETCH_EVERY_MS = 5000;
const live = new Set();
let loading = null;

/** uPlot with its style sheet, fetched when the first chart is opened: half of what the whole page weighs. */
function library() {
  const part = (tag, props) =>
    new Promise((done, failed) => {
      const el = document.createElement(tag);
      Object.assign(el, props, { onload: done, onerror: () => failed(new Error(t("chart-no-library"))) });
      document.head.append(el);
    });
  const address = (name) => new URL(`vendor/${name}`, import.meta.url).href;
  loading ??= Promise.all([
    part("script", { src: address("uplot.js") }),
    part("link", { rel: "stylesheet", href: address("uplot.css") }),
  ]);
  return loading;
}

onThemeChange(() => live.forEach((chart) => chart.draw(true)));
new ResizeObserver(() => live.forEach((chart) => chart.fit())).observe(document.documentElement);

/** `{ key, title, metric, node, gpu (null = all of the node), seconds, threshold, marks, hasPeers }`. */
export function chartBox(wanted) {
  return h("figure", { class: "chart", key: wanted.key },
    h("figcaption", {},
      h("span", {}, wanted.title, wanted.gpu ? h("i", { class: "band-key" }, t("chart-peers")) : null)),
    kept("div", { class: "plot", key: "plot" }, (box) => {
      forgetGone();
      box._chart = new Chart(box, wanted);
      live.add(box._chart);
    }, (box) => box._chart.want(wanted)));
}

function forgetGone() {
  for (const chart of live) {
    if (chart.box.isConnected) continue;
    chart.plot?.destroy();
    live.delete(chart);
  }
}

class Chart {
  constructor(box, wanted) {
    this.box = box;
    this.plot = null;
    this.askedMs = -Infinity;
    this.note = h("p", { class: "dim chart-note" }, t("chart-asking"));
    this.box.append(this.note);
    this.want(wanted);
  }

  want(wanted) {
    if (this.wanted && this.wanted.seconds !== wanted.seconds) {
      const isCloser = Math.abs(Math.log(wanted.seconds / this.wanted.seconds)) > 0.3;
      if (isCloser) this.askedMs = -Infinity;
      else wanted = { ...wanted, seconds: this.wanted.seconds };
    }
    this.wanted = wanted;
    if (performance.now() - this.askedMs >= FETCH_EVERY_MS) this.ask();
  }

  async ask() {
    this.askedMs = performance.now();
    const { node, gpu, metric, seconds } = this.wanted;
    const cells = state.lookups.nodes.get(node)?.cells || [];
    const one = gpu || cells[0]?.uuid;
    if (!one) return;
    const query = new URLSearchParams({ node, gpu: one, metric, since_seconds: Math.round(seconds), peers: "node" });
    if (state.past?.board) {
      query.set("until", state.past.at);
      query.set("since", new Date(Date.parse(state.past.at) - seconds * 1000).toISOString());
    }
    if (!gpu) query.set("also", cells.slice(1).map((cell) => `${node}/${cell.uuid}`).join(","));
    try {
      const [said] = await Promise.all([get(`/api/v1/history?${query}`), library()]);
      this.series = [said.series[metric] || [], ...(said.others || []).map((other) => other.series[metric] || [])];
      this.band = gpu ? said.bands?.[metric]?.points || [] : [];
      this.draw();
    } catch (error) {
      this.say(error.message);
    }
  }

  say(sentence) {
    this.note.textContent = sentence;
    this.note.hidden = !sentence;
  }

  /** Show what was fetched; `isAnew` where colours have changed and the plot must be made again. */
  draw(isAnew = false) {
    if (!this.series || !this.box.isConnected || !this.box.clientWidth) return;
    const { gpu, metric } = this.wanted;
    const data = gpu ? withBand(this.series[0], this.band) : joined(this.series);
    const isEmpty = !data[0].length || data.slice(1).every((values) => values.every((v) => v === null));
    this.say(isEmpty ? t("chart-empty", { metric: metricName(metric) }) : "");
    if (this.plot && !isAnew && !isEmpty && this.plot.series.length === data.length) {
      this.plot.setData(data);
      return;
    }
    this.plot?.destroy();
    this.plot = null;
    if (!isEmpty) this.plot = new window.uPlot(this.options(data), data, this.box);
  }

  fit() {
    if (this.box.isConnected && this.box.clientWidth) this.plot?.setSize({ width: this.box.clientWidth, height: HEIGHT });
  }

  options(data) {
    const { gpu, metric } = this.wanted;
    const unit = unitOf(metric);
    const colours = theme();
    const axis = { stroke: colours.dim, font: `11px ${colours.font}`, grid: { stroke: colours.line, width: 1 }, ticks: { show: false } };
    const series = gpu && data.length === 4
      ? [{}, line(colours.faint, 1), line(colours.faint, 1), line(colours.sky, 1.75)]
      : [{}, ...data.slice(1).map(() => line(colours.sky, data.length > 2 ? 1 : 1.75))];
    return {
      width: this.box.clientWidth,
      height: HEIGHT,
      padding: [10, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false } },
      scales: { x: { range: (plot) => this.span(plot.data[0]) }, y: { range: (_, low, high) => range(low, high, this.wanted.threshold, unit) } },
      bands: series.length === 4 && gpu ? [{ series: [2, 1], fill: `${colours.dim}44` }] : [],
      series,
      axes: [
        { ...axis, size: 24, space: 56, values: (_, ticks) => ticks.map((tick) => timeOf(tick)) },
        { ...axis, size: 62, space: 22, values: (_, ticks) => ticks.map((tick) => quantity(tick, unit)) },
      ],
      hooks: { draw: [(plot) => this.drawMarks(plot)], setCursor: [(plot) => this.tell(plot, unit)] },
    };
  }

  /** From when to when: what was asked for, less the time before anything was known. */
  span(times) {
    const until = Date.parse(state.past?.board ? state.past.at : state.board.at) / 1000;
    const { seconds } = this.wanted;
    return [Math.max(until - seconds, (times[0] ?? 0) - seconds * 0.02), Math.max(until, times.at(-1) ?? 0)];
  }

  drawMarks(plot) {
    const { threshold, marks = [] } = this.wanted;
    const colours = theme();
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.font = `${11 * ratio}px ${colours.font}`;
    if (threshold) {
      const y = Math.round(plot.valToPos(threshold.value, "y", true));
      rule(ctx, colours.orange, [bbox.left, y, bbox.left + bbox.width, y], [5 * ratio, 4 * ratio]);
      write(ctx, threshold.text, bbox.left + 4 * ratio, y - 4 * ratio, "left", colours.orange);
    }
    for (const mark of marks) {
      const x = Math.round(plot.valToPos(mark.at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      rule(ctx, colours.bad, [x, bbox.top, x, bbox.top + bbox.height], []);
      const isRight = x > bbox.left + bbox.width - 40 * ratio;
      write(ctx, mark.text, x + (isRight ? -4 : 4) * ratio, bbox.top + 10 * ratio, isRight ? "right" : "left", colours.bad);
    }
    ctx.restore();
  }

  tell(plot, unit) {
    const { data } = plot;
    const { idx } = plot.cursor;
    const caption = this.box.parentElement.querySelector("figcaption");
    const value = idx === null || idx === undefined ? null : data.at(-1)[idx];
    caption.dataset.now = value === null || value === undefined ? "" : t("chart-now", { value: quantity(value, unit), at: timeOf(data[0][idx], true) });
  }
}

function rule(ctx, colour, [x1, y1, x2, y2], dash) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio || 1;
  ctx.setLineDash(dash);
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
  ctx.setLineDash([]);
}

function write(ctx, text, x, y, align, colour) {
  ctx.textAlign = align;
  ctx.textBaseline = "alphabetic";
  ctx.lineWidth = 4;
  ctx.strokeStyle = theme().panel;
  ctx.strokeText(text, x, y);
  ctx.fillStyle = colour;
  ctx.fillText(text, x, y);
}

function line(colour, width) {
  return { stroke: colour, width, spanGaps: false, points: { show: false } };
}

/** A range that holds the threshold, and is wide enough that noise looks like noise. */
function range(low, high, threshold, unit) {
  if (unit === "ratio") return [0, Math.max(1, high ?? 1)];
  const values = [low, high, threshold?.value].filter((v) => v !== null && v !== undefined);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const pad = Math.max((most - least) * 0.15, most * 0.05, 1e-9);
  return [Math.max(least - pad, 0), most + pad];
}

function columns(series) {
  return [series.map(([at]) => at), series.map(([, value]) => value)];
}

function joined(all) {
  const tables = all.filter((series) => series.length).map(columns);
  if (!tables.length) return [[], []];
  return tables.length > 1 ? window.uPlot.join(tables) : tables[0];
}

/** `[times, least of the peers, most of them, the suspect]`; without peers, the suspect alone. */
function withBand(own, band) {
  if (!band.length) return joined([own]);
  const edge = (place) => [band.map((point) => point[0]), band.map((point) => point[place])];
  const suspect = own.length ? columns(own) : [[band[0][0]], [null]];
  return filled(window.uPlot.join([edge(1), edge(3), suspect]), [1, 2]);
}

/** The band has fewer points than the line: between two of them it goes on as it was. */
function filled(table, places) {
  for (const place of places) {
    let last = null;
    table[place] = table[place].map((value) => (value === null || value === undefined ? last : (last = value)));
  }
  return table;
}

function timeOf(seconds, hasSeconds = false) {
  const options = { hour: "2-digit", minute: "2-digit", ...(hasSeconds ? { second: "2-digit" } : {}) };
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", options);
}
