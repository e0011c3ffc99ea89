// A node and its GPUs: the last values, and an hour (or a day) of each.

import { MEASURES, drawCell, lookOf, prepare } from "./cell.js";
import { chartBox } from "./chart.js";
import { heading, part } from "./detail.js";
import { h, kept, link } from "./dom.js";
import { findingItem } from "./lists.js";
import { jobPath, nodePath } from "./route.js";
import { changed, jobName, state } from "./state.js";
import { CELL_WORDS, age, ageAt, metricName, quantity } from "./words.js";

const CHARTS = ["sm_active_ratio", "power_watts", "temperature_celsius", "sm_clock_hertz"];
const SPANS = [900, 3600, 21600, 86400];
let span = 3600;

export function nodeView({ name, gpu }) {
  const node = state.lookups.nodes.get(name);
  if (!node) return [heading("", name), h("p", { class: "empty" }, `No node is called ${name} now. It may have been let go.`)];
  const cell = node.cells.find((each) => each.uuid === gpu) || node.cells.find((each) => each.findings.length) || node.cells[0];
  const findings = state.board.findings.filter((item) => item.finding.subject.node === name);
  const title = cell && cell.index !== null ? `${name} GPU ${cell.index}` : name;
  return [
    heading("", title),
    h("p", { class: "lead" }, nodeWords(node)),
    h("div", { class: "gpu-row", role: "group", "aria-label": `GPUs of ${name}` }, node.cells.map((each) => gpuLink(node, each, each === cell))),
    cell ? values(cell) : h("p", { class: "empty" }, "No GPU of it is known."),
    findings.length ? part("Findings", h("ul", { class: "rows" }, findings.map(findingItem))) : null,
    cell ? part(["History of the last ", spans()], h("div", { class: "charts" }, CHARTS.map((metric) => history(node, cell, metric, findings)))) : null,
  ];
}

function nodeWords(node) {
  const parts = [
    node.rack ? `Rack ${node.rack.replace(/^rack[-_ ]?/i, "")}` : "Rack not known",
    node.is_cordoned ? `cordoned${node.cordoned_by ? ` by ${node.cordoned_by}` : ""}` : null,
    node.is_ready ? null : "not ready for its scheduler",
    node.is_spare ? "kept as a spare" : null,
    node.last_report_at ? `last report ${ageAt(node.last_report_at, state.board.at)} ago` : "no report yet",
  ];
  return `${parts.filter(Boolean).join(", ")}.${node.is_silent ? " It is silent: nothing is claimed about its GPUs." : ""}`;
}

function gpuLink(node, cell, isChosen) {
  const paint = (el) => drawCell(prepare(el, 18, 18), 0, 0, 18, lookOf(cell, node, MEASURES.activity, state.lookups.waiting));
  return link(nodePath(node.name, cell.uuid), { key: cell.uuid, class: "gpu", "aria-current": isChosen ? "true" : null, title: cell.uuid },
    kept("canvas", { "aria-hidden": "true", key: "cell" }, paint, paint),
    h("span", {}, cell.index === null ? "?" : `GPU ${cell.index}`));
}

function values(cell) {
  const holder = cell.workload ? link(jobPath(cell.workload), {}, jobName(cell.workload)) : "nobody";
  const isFor = cell.state === "stranded";
  return h("dl", { class: "facts-list" },
    h("dt", {}, "state"), h("dd", {}, CELL_WORDS[cell.state]),
    h("dt", {}, isFor ? "no use to" : "held by"), h("dd", {}, holder),
    Object.values(MEASURES).map(({ label, field, unit }) => [h("dt", {}, label), h("dd", {}, quantity(cell[field], unit))]),
    h("dt", {}, "UUID"), h("dd", {}, h("code", {}, cell.uuid)));
}

function spans() {
  const on = {
    change(event) {
      span = Number(event.target.value);
      changed();
    },
  };
  return h("select", { "aria-label": "How far back", on, key: "span" }, SPANS.map((s) => h("option", { value: s, selected: s === span }, age(s).replace("60 min", "hour"))));
}

function history(node, cell, metric, findings) {
  const marks = findings
    .filter((item) => !item.finding.subject.gpu || item.finding.subject.gpu === cell.uuid)
    .map((item) => ({ at: Date.parse(item.finding.began_at || item.opened_at) / 1000, text: `F${item.id}` }));
  return chartBox({ key: `${node.name}/${cell.uuid}/${metric}`, title: metricName(metric), metric, node: node.name, gpu: cell.uuid, seconds: span, threshold: null, marks });
}
