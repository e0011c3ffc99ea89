// A finding: what is wrong, whom it hits, what it rests on, and what is recommended for it.

import { fetchOnce, findingOrAsk, heading, part } from "./detail.js";
import { h, link } from "./dom.js";
import { evidenceCharts, evidenceList } from "./evidence.js";
import { jobPath, nodePath, queuePath } from "./route.js";
import { incidentPart } from "./incidents.js";
import { t } from "./say.js";
import { isSeen, markSeen } from "./seen.js";
import { gpuName, jobName, state } from "./state.js";
import { actionWords, ageAt, bare, clock, full, number, ruleWords } from "./words.js";

export function findingView({ id }) {
  const item = findingOrAsk(id);
  if (!item) return [heading(`F${id}`, t("finding")), h("p", { class: "empty" }, fetchOnce("findings", id, `/api/v1/findings/${id}`))];
  if (!isSeen(item)) queueMicrotask(() => markSeen([item]));
  const { finding } = item;
  const { at } = state.board;
  const rows = state.board.commands.filter((row) => row.command.recommendation.findings.includes(id));
  const closed = item.state === "closed" ? t("finding-closed-view", { at: clock(item.closed_at, at), why: full(item.close_reason || t("finding-gone")) }) : null;
  return [
    heading(`F${id}`, bare(finding.sentence)),
    closed ? h("p", { class: "notice plain" }, closed) : null,
    isToldLater(item) ? h("p", { class: "notice warn" }, t("past-finding-later")) : null,
    incidentPart(item),
    finding.impact ? h("p", { class: "lead" }, full(finding.impact)) : null,
    h("dl", { class: "facts-list" },
      fact(t("finding-for"), t("finding-since", { age: ageAt(item.opened_at, item.closed_at || at), at: clock(finding.began_at || item.opened_at, at) })),
      fact(t("finding-action"), actionWords(finding.action)),
      finding.gpus_hit === 0 ? null : fact(t("finding-loss"), t("finding-loss-words", { loss: number(finding.loss_gpus), hit: number(finding.gpus_hit) })),
      fact(t("finding-where"), where(finding.subject)),
      fact(t("finding-sure"), t(finding.is_corroborated ? "finding-sure-yes" : "finding-sure-no")),
      fact(t("finding-rule"), ruleWords(finding.rule))),
    finding.advice ? part(t("finding-advice"), h("p", {}, full(finding.advice))) : null,
    rows.length ? part(t("finding-recommended"), h("ul", { class: "plain" }, rows.map((row) =>
      h("li", {}, link(`/r/${row.command.id}`, {}, row.name), ` ${full(row.command.recommendation.sentence)} `, h("span", { class: "dim" }, t(`command-${row.command.state}`)))))) : null,
    part(t("rests-on"), evidenceCharts(item), evidenceList(finding.evidence),
      finding.evidence.length ? null : h("p", { class: "dim" }, t("rests-on-sentence"))),
    finding.against.length ? part(t("against"), evidenceList(finding.against)) : null,
  ];
}

/** Whether the past is shown and some of this is only known as it was said later. */
function isToldLater({ id, finding }) {
  return Boolean(state.past?.board) && (Boolean(finding.facts?.told_later_at) || !state.lookups.findings.has(id));
}

function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}

function where({ node, gpu, workload, queue }) {
  const places = [];
  if (node) places.push(link(nodePath(node, gpu), {}, gpu ? `${node} ${gpuName(node, gpu)}` : node));
  if (workload) places.push(link(jobPath(workload), {}, jobName(workload)));
  if (queue) places.push(link(queuePath(queue), {}, t("queue-name", { queue })));
  return places.length ? places.flatMap((place, i) => (i ? [", ", place] : [place])) : t("the-cluster");
}
