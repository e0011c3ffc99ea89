// A finding: what is wrong, whom it hits, what it rests on, and what is recommended for it.

import { fetchOnce, findingOrAsk, heading, part } from "./detail.js";
import { h, link } from "./dom.js";
import { evidenceCharts, evidenceList } from "./evidence.js";
import { jobPath, nodePath } from "./route.js";
import { gpuName, isSeen, jobName, markSeen, state } from "./state.js";
import { ACTION_WORDS, ageAt, bare, clock, full, number } from "./words.js";

export function findingView({ id }) {
  const item = findingOrAsk(id);
  if (!item) return [heading(`F${id}`, "finding"), h("p", { class: "empty" }, fetchOnce("findings", id, `/api/v1/findings/${id}`))];
  if (!isSeen(item)) queueMicrotask(() => markSeen([item]));
  const { finding } = item;
  const { at } = state.board;
  const rows = state.board.commands.filter((row) => row.command.recommendation.findings.includes(id));
  const closed = item.state === "closed" ? `Closed at ${clock(item.closed_at, at)}: ${full(item.close_reason || "it no longer holds")}` : null;
  return [
    heading(`F${id}`, bare(finding.sentence)),
    closed ? h("p", { class: "notice plain" }, closed) : null,
    finding.impact ? h("p", { class: "lead" }, full(finding.impact)) : null,
    h("dl", { class: "facts-list" },
      fact("for", `${ageAt(item.opened_at, item.closed_at || at)}, since ${clock(finding.began_at || item.opened_at, at)}`),
      fact("to do", ACTION_WORDS[finding.action] || finding.action),
      finding.gpus_hit === 0 ? null : fact("lost while open", `${number(finding.loss_gpus)} GPUs' worth of work, ${number(finding.gpus_hit)} GPUs hit`),
      fact("where", where(finding.subject)),
      fact("sure", finding.is_corroborated ? "yes: two signs, or one that is enough" : "not yet: nothing is moved on it"),
      fact("rule", finding.rule)),
    finding.advice ? part("Advice", h("p", {}, full(finding.advice))) : null,
    rows.length ? part("Recommended", h("ul", { class: "plain" }, rows.map((row) =>
      h("li", {}, link(`/r/${row.command.id}`, {}, row.name), ` ${full(row.command.recommendation.sentence)} `, h("span", { class: "dim" }, row.command.state))))) : null,
    part("What it rests on", evidenceCharts(item), evidenceList(finding.evidence),
      finding.evidence.length ? null : h("p", { class: "dim" }, "Its sentence says all that is known.")),
    finding.against.length ? part("What speaks against it", evidenceList(finding.against)) : null,
  ];
}

function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}

function where({ node, gpu, workload, queue }) {
  const places = [];
  if (node) places.push(link(nodePath(node, gpu), {}, gpu ? `${node} ${gpuName(node, gpu)}` : node));
  if (workload) places.push(link(jobPath(workload), {}, jobName(workload)));
  if (queue) places.push(`queue ${queue}`);
  return places.length ? places.flatMap((place, i) => (i ? [", ", place] : [place])) : "the cluster";
}
