// What a finding rests on and what speaks against it: as a list, and as charts of the GPU's history.

import { chartBox } from "./chart.js";
import { h } from "./dom.js";
import { t } from "./say.js";
import { gpuName, nodesOf, state } from "./state.js";
import { ageAt, clockSeconds, full, metricName, quantity, unitOf } from "./words.js";

/** One line per fact: source, time, what was seen, the value against its threshold. */
export function evidenceList(items) {
  return h("ul", { class: "evidence" }, items.map((one) =>
    h("li", {},
      h("span", { class: "source" }, one.source),
      h("span", {}, full(one.text), " ", amount(one)),
      h("span", { class: "dim nowrap", title: one.at || "" }, one.at ? t("at-ago", { at: clockSeconds(one.at), age: ageAt(one.at, state.board.at) }) : ""))));
}

function amount(one) {
  if (one.value === null) return null;
  const value = h("b", {}, quantity(one.value, one.unit));
  if (one.threshold === null) return value;
  return [value, h("span", { class: "dim" }, ` ${t("against-threshold", { value: quantity(one.threshold, one.unit) })}`)];
}

const BY_RULE = {
  device_fault: ["sm_active_ratio", "power_watts"],
  hotspot: ["temperature_celsius", "sm_clock_hertz"],
  straggler: ["sm_clock_hertz", "temperature_celsius"],
  idle_gpu: ["sm_active_ratio"],
  node_silent: ["sm_active_ratio"],
};
const CHARTABLE = new Set(["sm_active_ratio", "graphics_engine_active_ratio", "utilization_ratio", "temperature_celsius", "power_watts", "sm_clock_hertz", "memory_temperature_celsius"]);

/** What to draw for a finding: the series that its detector judged, else what its rule is usually seen in. */
function metricsOf(item) {
  const usual = BY_RULE[item.finding.rule] || ["sm_active_ratio", "power_watts"];
  const judged = (item.finding.facts.series || "").split(" ").filter((name) => CHARTABLE.has(name));
  return [...new Set([...judged.slice(0, 1), ...usual])].slice(0, 2);
}

/** Charts of the GPU that a finding is about, its node's other GPUs as a band behind it. */
export function evidenceCharts(item) {
  const target = targetOf(item);
  if (!target) return null;
  const began = item.finding.began_at || item.opened_at;
  const seconds = Math.max((Date.parse(state.board.at) - Date.parse(began)) / 1000, 0);
  const span = Math.min(Math.max(seconds * 2, 900), 86400);
  return h("div", { class: "charts" }, metricsOf(item).map((metric) =>
    chartBox({
      key: `${item.id}/${metric}`,
      title: target.gpu ? t("chart-of-gpu", { metric: metricName(metric), where: `${target.node} ${gpuName(target.node, target.gpu)}` }) : t("chart-of-node", { metric: metricName(metric), where: target.node }),
      metric,
      ...target,
      seconds: span,
      threshold: thresholdOf(item, metric),
      marks: [{ at: Date.parse(began) / 1000, text: `F${item.id}` }],
    })));
}

function thresholdOf(item, metric) {
  const unit = unitOf(metric);
  const proof = item.finding.evidence.find((one) => one.threshold !== null && one.unit === unit && !isShareOfPeers(one));
  return proof ? { value: proof.threshold, text: t("chart-limit", { value: quantity(proof.threshold, unit) }) } : null;
}

const isShareOfPeers = (one) => one.source === "peers" && one.unit === "ratio";

function targetOf(item) {
  const { node, gpu, workload } = item.finding.subject;
  if (node) return { node, gpu };
  const job = state.lookups.jobs.get(workload);
  if (!job?.cells.length || item.finding.rule !== "idle_gpu") return null;
  return { node: nodesOf(job)[0], gpu: state.fleet.uuid(job.cells[0]) };
}
