// The fleet's panel: what it is coloured and grouped by, the picture with its tip and legend, and the same as a table.

import { drawCell, prepare } from "./cell.js";
import { onThemeChange, severityColour, viridis, waitingColour } from "./colour.js";
import { h, render } from "./dom.js";
import { STATE } from "./fleetdata.js";
import { fleetTable } from "./fleettable.js";
import { GROUPS, ORDERS, blocksOf, litCells } from "./grouping.js";
import { MEASURES, colouring, measureLabel, otherMetrics } from "./measures.js";
import { Picture } from "./picture.js";
import { Pointer } from "./pointer.js";
import { nodePath, open } from "./route.js";
import { t } from "./say.js";
import { changed, jobName, nodesOf, racksOf, state } from "./state.js";
import { bare, cellWords, metricName, number, plural, quantity } from "./words.js";

const view = { measure: "activity", group: "rack", order: "name" };
let [picture, pointer, tip] = [null, null, null];

export function renderFleet(container) {
  const { board } = state;
  const others = otherMetrics().filter((name) => !OWN.has(name));
  render(
    container,
    h("div", { class: "panel-head", key: "head" },
      h("h2", { id: "fleet-title" }, t("fleet-title")),
      choose("measure", t("fleet-colour"), [
        ...[...Object.keys(MEASURES), "findings"].map((name) => [name, measureLabel(name)]),
        ...others.map((name) => [name, metricName(name)]),
      ]),
      choose("group", t("fleet-group"), GROUPS.map((name) => [name, t(`fleet-group-${name}`)])),
      choose("order", t("fleet-order"), ORDERS.map((name) => [name, t(`fleet-order-${name}`)])),
      h("div", { class: "zoom", key: "zoom", "data-keep": true, keep: true, mount: zoomButtons, refresh: zoomButtons })),
    h("div", { class: "blind", key: "blind", hidden: !board?.blind.length },
      (board?.blind || []).map((sentence) => h("p", {}, sentence))),
    h("div", { class: "fleet-box", key: "box", "data-keep": true, keep: true, mount: mountBox, refresh: draw }),
    h("div", { class: "highlighted", key: "lit" }, highlightWords()),
    legend(),
    fleetTable(blocksOf(state.fleet, view.group, view.order), view.group));
}

/** Metrics that the board has itself, under other names. */
const OWN = new Set(["sm_active_ratio", "temperature_celsius", "power_watts", "sm_clock_hertz", "up"]);

function choose(what, label, options) {
  const on = {
    change(event) {
      view[what] = event.target.value;
      changed();
    },
  };
  return h("select", { "aria-label": label, on, key: what },
    options.map(([name, text]) => h("option", { value: name, selected: name === view[what] }, text)));
}

function highlightWords() {
  const job = state.lookups?.jobs.get(state.hoverJob || (state.path.view === "job" ? state.path.id : null));
  if (!job || !job.cells.length) return "";
  return t("fleet-highlighted", {
    job: job.name,
    gpus: plural(job.cells.length, "gpus"),
    nodes: plural(nodesOf(job).length, "nodes"),
    racks: plural(racksOf(job).size, "racks"),
  });
}

function mountBox(box) {
  const base = h("canvas", { "aria-hidden": "true" });
  const overlay = h("canvas", {
    class: "overlay", tabindex: "0", role: "application", "aria-describedby": "fleet-keys",
  });
  tip = h("div", { class: "tip", hidden: true, "aria-live": "polite", role: "status" });
  box.append(base, overlay, tip, h("p", { id: "fleet-keys", class: "spoken" }));
  picture = new Picture(base, overlay);
  pointer = new Pointer(overlay, picture, { onPoint, onOpen, onView: () => redraw() });
  new ResizeObserver(() => draw(box)).observe(box);
  onThemeChange(() => draw(box));
  draw(box);
}

function draw(box) {
  const { board, fleet, lookups } = state;
  const width = box.clientWidth;
  if (!board || !width) return;
  const [overlay, keys] = [box.querySelector(".overlay"), box.querySelector("#fleet-keys")];
  overlay.setAttribute("aria-label", t("fleet-picture"));
  overlay.setAttribute("aria-roledescription", t("fleet-picture-kind"));
  keys.textContent = t("fleet-keys");
  const heightWanted = innerWidth < 900 ? 1200 : Math.max(260, Math.min(innerHeight - 430, 560));
  const blocks = blocksOf(fleet, view.group, view.order);
  picture.take({ fleet, blocks, colouring: colouring(view.measure), waiting: lookups.waiting, width, heightWanted });
  if (pointer.cursor && !picture.blocks[pointer.cursor.block]?.rows[pointer.cursor.row]) pointer.point(null, false);
  redraw();
}

/** Draw anew what the view shows: after a board, a zoom, a pan. */
function redraw() {
  if (picture.isEmpty) {
    prepare(picture.base, picture.width || 1, 1);
    prepare(picture.overlay, picture.width || 1, 1);
    return;
  }
  picture.draw();
  drawOver();
  // Under the pointer the numbers follow the beat; what was asked for by keys is not read out again and again.
  if (pointer.cursor && !pointer.isKeyed) showTip(pointer.cursor, picture.cellsAt(pointer.cursor));
  const zoom = document.querySelector("#fleet .zoom");
  if (zoom) zoomButtons(zoom);
}

function zoomButtons(box) {
  const isWhole = !picture || picture.zoom === 1;
  const button = (take, text, label, isOff) =>
    h("button", { class: "quiet", on: { click: take }, "aria-label": label, title: t("fleet-zoom-hint"), disabled: isOff, key: label }, text);
  render(box,
    isWhole ? null : button(() => pointer.whole(), t("fleet-whole"), t("fleet-whole"), false),
    button(() => pointer.zoomBy(0.5), "−", t("fleet-zoom-out"), isWhole),
    button(() => pointer.zoomBy(2), "+", t("fleet-zoom-in"), false));
}

function drawOver() {
  const cells = litCells();
  picture.drawOver(cells && { cells, isJob: Boolean(state.hoverJob || state.path.view === "job") }, pointer.cursor);
}

function onPoint(cursor) {
  const cells = cursor ? picture.cellsAt(cursor) : [];
  const { fleet } = state;
  const job = cells.length && picture.level === "gpu" && fleet.columns.state[cells[0]] !== STATE.stranded ? fleet.jobOf(cells[0]) : null;
  const isOther = state.hoverJob !== (job?.id ?? null);
  state.hoverJob = job?.id ?? null;
  drawOver();
  showTip(cursor, cells);
  const words = document.querySelector("#fleet .highlighted");
  if (isOther && words) words.textContent = highlightWords();
}

function onOpen(cursor) {
  const cells = picture.cellsAt(cursor);
  const [x, y, wide, tall] = picture.box(cursor);
  if (picture.level === "block") {
    picture.zoomAt(8, x + wide / 2, y + tall / 2);
    redraw();
    return;
  }
  const { fleet } = state;
  const node = fleet.names[fleet.owner[cells[0]]];
  open(nodePath(node, picture.level === "gpu" ? fleet.uuid(cells[0]) : null));
}

function showTip(cursor, cells) {
  tip.hidden = !cells.length;
  if (!cells.length) return;
  render(tip, ...(cells.length > 1 && picture.level !== "gpu" ? manyLines(cells) : cells.flatMap(cellLines)));
  const [x, y, wide, tall] = picture.box(cursor);
  const { width } = picture;
  tip.style.left = `${Math.max(Math.min(x + wide + 6, width - tip.offsetWidth), 0)}px`;
  const isLow = y > picture.laid.height / 2 && y > tip.offsetHeight;
  tip.style.top = `${isLow ? y - tip.offsetHeight - 6 : y + tall + 6}px`;
}

function cellLines(place) {
  const { fleet } = state;
  const node = fleet.nodeAt(fleet.owner[place]);
  const cell = fleet.cell(place);
  const name = cell.index === null ? node.name : `${node.name} GPU ${cell.index}`;
  const holder = !cell.workload ? "" : t(cell.state === "stranded" ? "tip-stranded-for" : "tip-held-by", { job: jobName(cell.workload) });
  const cordon = !node.is_cordoned ? "" : ` · ${node.cordoned_by ? t("cordoned-by", { who: node.cordoned_by }) : t("cordoned")}`;
  const values = Object.entries(MEASURES).filter(([, { field }]) => cell[field] !== null);
  const shown = colouring(view.measure);
  const other = MEASURES[view.measure] || shown.classOf ? null : shown.valueOf(place);
  return [
    h("strong", {}, name),
    h("div", {}, cellWords(cell.state), holder, cordon),
    values.length ? h("div", { class: "dim" }, values.map(([name_, m]) => `${measureLabel(name_)} ${quantity(cell[m.field], m.unit)}`).join(" · ")) : null,
    other === null ? null : h("div", {}, `${shown.label} ${quantity(other, shown.unit)}`),
    found([...cell.findings, ...node.findings]),
  ];
}

function found(ids) {
  const items = [...new Set(ids)].map((id) => state.lookups.findings.get(id)).filter(Boolean);
  return items.slice(0, 3).map((item) => h("div", { class: "bad-text" }, `F${item.id} ${bare(item.finding.sentence)}`));
}

/** A node or a block as one cell: what is in it, and the mean of what it is coloured by. */
function manyLines(cells) {
  const { fleet } = state;
  const counts = {};
  for (const cell of cells) counts[fleet.stateOf(cell)] = (counts[fleet.stateOf(cell)] || 0) + 1;
  const nodes = new Set(cells.map((cell) => fleet.owner[cell]));
  const first = [...nodes][0];
  const name = nodes.size > 1 ? `${t("group-rack", { name: fleet.racks[first] || "?" })}, ${plural(nodes.size, "nodes")}` : fleet.names[first];
  const shown = colouring(view.measure);
  const values = shown.classOf ? [] : cells.map(shown.valueOf).filter((value) => value !== null);
  const jobs = [...new Set(cells.map((cell) => fleet.jobOf(cell)?.name).filter(Boolean))];
  return [
    h("strong", {}, name),
    h("div", {}, Object.entries(counts).map(([form, count]) => `${number(count)} ${cellWords(form)}`).join(" · ")),
    values.length ? h("div", { class: "dim" }, t("tip-mean", { what: shown.label, value: quantity(values.reduce((a, b) => a + b, 0) / values.length, shown.unit) })) : null,
    jobs.length ? h("div", { class: "dim" }, jobs.slice(0, 3).join(", "), jobs.length > 3 ? " …" : "") : null,
    found([...nodes].flatMap((node) => fleet.nodeFindings.get(node) || [])),
  ];
}

const FORMS = ["free", "stranded", "spare", "held_idle", "lost", "cordoned", "silent", "unknown", "unusable"];

function legend() {
  const shown = colouring(view.measure);
  const { counts, jobs } = state.fleet;
  const forms = FORMS.filter((form) => (form === "cordoned" ? counts.hasCordon : counts.states[STATE[form]]));
  const stranded = [...counts.strandedFor].map((job) => jobs[job]?.name).filter(Boolean);
  const words = (form) => (form === "stranded" && stranded.length ? t("legend-stranded-for", { jobs: stranded.join(", ") }) : form === "cordoned" ? t("cordoned") : cellWords(form));
  const waits = state.lookups.waiting.length;
  return h("div", { class: "legend", key: "legend" },
    shown.classOf ? severities() : scale(shown),
    shown.note ? h("span", { class: "warn-text" }, shown.note) : null,
    forms.map((form) => h("span", { key: form }, sample(form), words(form))),
    waits > 4 ? h("span", { class: "dim" }, t("legend-waits", { n: number(waits) })) : null);
}

function scale(shown) {
  return h("span", { class: "scale", key: "scale" },
    h("span", {}, quantity(shown.low, shown.unit).replace("0 %", "0")),
    h("canvas", { "data-keep": true, keep: true, mount: drawScale, width: "100", height: "10", "aria-hidden": "true" }),
    h("span", {}, quantity(shown.high, shown.unit)));
}

function severities() {
  return ["critical", "warning", "info", null].map((severity) => {
    const paint = (el) => {
      const ctx = prepare(el, 12, 12);
      ctx.fillStyle = severityColour(severity);
      ctx.fillRect(0, 0, 12, 12);
    };
    return h("span", { key: `severity-${severity}` },
      h("canvas", { "data-keep": true, keep: true, mount: paint, refresh: paint, "aria-hidden": "true" }),
      severity ? t(`severity-${severity}`) : t("legend-no-finding"));
  });
}

function sample(form) {
  const paint = (el) => drawForm(el, form);
  return h("canvas", { "data-keep": true, keep: true, mount: paint, refresh: paint, "aria-hidden": "true" });
}

function drawScale(el) {
  const ctx = prepare(el, 100, 10);
  for (let i = 0; i < 10; i += 1) {
    ctx.fillStyle = viridis(i / 9);
    ctx.fillRect(i * 10, 0, 9, 10);
  }
}

function drawForm(el, form) {
  const ctx = prepare(el, 12, 12);
  const job = state.fleet.jobs[[...state.fleet.counts.strandedFor][0]];
  const ring = waitingColour(job ? state.lookups.waiting.indexOf(job.id) : 0);
  const isCordon = form === "cordoned";
  drawCell(ctx, 0, 0, 12, { form: isCordon ? "unusable" : form, fill: viridis(0.8), ring, isHatched: isCordon });
}
