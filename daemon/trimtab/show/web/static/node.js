// A node and its GPUs: the last values, and an hour (or a day) of each.

import { drawCell, lookOf, prepare } from "./cell.js";
import { chartBox } from "./chart.js";
import { heading, part } from "./detail.js";
import { h, kept, link } from "./dom.js";
import { findingItem } from "./lists.js";
import { MEASURES, measureLabel } from "./measures.js";
import { jobPath, nodePath } from "./route.js";
import { t } from "./say.js";
import { changed, jobName, state } from "./state.js";
import { age, ageAt, cellWords, metricName, quantity } from "./words.js";

const CHARTS = ["sm_active_ratio", "power_watts", "temperature_celsius", "sm_clock_hertz"];
const SPANS = [900, 3600, 21600, 86400];
let span = 3600;

export function nodeView({ name, gpu }) {
  const node = state.lookups.nodes.get(name);
  if (!node) return [heading("", name), h("p", { class: "empty" }, t("node-unknown", { node: name }))];
  const cell = node.cells.find((each) => gpu && each.uuid === gpu) || node.cells.find((each) => each.findings.length) || node.cells[0];
  const findings = state.board.findings.filter((item) => item.finding.subject.node === name);
  const title = cell && cell.index !== null ? `${name} GPU ${cell.index}` : name;
  return [
    heading("", title),
    h("p", { class: "lead" }, nodeWords(node)),
    h("div", { class: "gpu-row", role: "group", "aria-label": t("node-gpus", { node: name }) }, node.cells.map((each) => gpuLink(node, each, each === cell))),
    cell ? values(cell) : h("p", { class: "empty" }, t("node-no-gpu")),
    findings.length ? part(t("findings"), h("ul", { class: "rows" }, findings.map(findingItem))) : null,
    cell ? part([t("node-history"), " ", spans()], h("div", { class: "charts" }, CHARTS.map((metric) => history(node, cell, metric, findings)))) : null,
  ];
}

function nodeWords(node) {
  const parts = [
    node.rack ? t("node-rack", { rack: node.rack.replace(/^rack[-_ ]?/i, "") }) : t("node-rack-unknown"),
    node.model,
    node.is_cordoned ? (node.cordoned_by ? t("cordoned-by", { who: node.cordoned_by }) : t("cordoned")) : null,
    node.is_ready ? null : t("node-not-ready"),
    node.is_spare ? t("node-spare") : null,
    node.last_report_at ? t("node-last-report", { age: ageAt(node.last_report_at, state.board.at) }) : t("node-no-report"),
  ];
  return `${parts.filter(Boolean).join(" · ")}${node.is_silent ? `. ${t("node-silent")}` : ""}`;
}

function gpuLink(node, cell, isChosen) {
  const paint = (el) => drawCell(prepare(el, 18, 18), 0, 0, 18, lookOf(cell, node, MEASURES.activity, state.lookups.waiting));
  return link(nodePath(node.name, cell.uuid), { key: cell.place, class: "gpu", "aria-current": isChosen ? "true" : null, title: cell.uuid },
    kept("canvas", { "aria-hidden": "true", key: "cell" }, paint, paint),
    h("span", {}, cell.index === null ? "?" : `GPU ${cell.index}`));
}

function values(cell) {
  const holder = cell.workload ? link(jobPath(cell.workload), {}, jobName(cell.workload)) : t("node-held-by-nobody");
  const isFor = cell.state === "stranded";
  return h("dl", { class: "facts-list" },
    h("dt", {}, t("node-state")), h("dd", {}, cellWords(cell.state)),
    h("dt", {}, t(isFor ? "node-no-use-to" : "node-held-by")), h("dd", {}, holder),
    Object.entries(MEASURES).map(([name, { field, unit }]) => [h("dt", {}, measureLabel(name)), h("dd", {}, quantity(cell[field], unit))]),
    h("dt", {}, "UUID"), h("dd", {}, h("code", {}, cell.uuid)));
}

function spans() {
  const on = {
    change(event) {
      span = Number(event.target.value);
      changed();
    },
  };
  return h("select", { "aria-label": t("how-far-back"), on, key: "span" }, SPANS.map((s) => h("option", { value: s, selected: s === span }, age(s))));
}

function history(node, cell, metric, findings) {
  const marks = findings
    .filter((item) => !item.finding.subject.gpu || item.finding.subject.gpu === cell.uuid)
    .map((item) => ({ at: Date.parse(item.finding.began_at || item.opened_at) / 1000, text: `F${item.id}` }));
  return chartBox({ key: `${node.name}/${cell.uuid}/${metric}`, title: metricName(metric), metric, node: node.name, gpu: cell.uuid, seconds: span, threshold: null, marks });
}
