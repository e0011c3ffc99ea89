// A job: where it sits rank by rank, what hits it, and why it waits.

import { MEASURES, drawCell, lookOf, prepare } from "./cell.js";
import { heading, part } from "./detail.js";
import { h, kept, link } from "./dom.js";
import { findingItem } from "./lists.js";
import { nodePath } from "./route.js";
import { state } from "./state.js";
import { ageAt, percent, plural, quantity, upper } from "./words.js";

const RANKS_SHOWN = 128;

export function jobView({ id }) {
  const { jobs } = state.lookups;
  const job = jobs.get(id) || [...jobs.values()].find((each) => each.name === id);
  if (!job) return [heading("", id), h("p", { class: "empty" }, `No job is called ${id} now. It may be over.`)];
  const findings = state.board.findings.filter((item) => item.finding.workloads_hit.includes(job.id) || item.finding.subject.workload === job.id);
  const ranks = ranksOf(job);
  return [
    heading("", job.name),
    h("p", { class: "lead" }, jobWords(job)),
    h("dl", { class: "facts-list" },
      fact("state", job.state),
      fact("size", `${plural(job.pods, "pod")} of ${plural(job.gpus_per_pod, "GPU")}`),
      fact("queue", job.queue || "none"),
      fact("priority", String(job.priority)),
      fact("last checkpoint", job.checkpoint_at ? `${ageAt(job.checkpoint_at, state.board.at)} ago` : "not known"),
      job.recommendation === null ? null : fact("recommended", link(`/r/${job.recommendation}`, {}, `R${job.recommendation}`))),
    findings.length ? part("What hits it", h("ul", { class: "rows" }, findings.map(findingItem))) : null,
    ranks.length ? part("Ranks", rankTable(ranks)) : null,
    ranks.length > RANKS_SHOWN ? h("p", { class: "dim" }, `and ${ranks.length - RANKS_SHOWN} more ranks`) : null,
  ];
}

function jobWords(job) {
  if (job.why) return upper(job.why);
  const racks = new Set(job.nodes.map((name) => state.lookups.nodes.get(name)?.rack));
  return `Runs on ${plural(job.gpus.length, "GPU")} of ${plural(new Set(job.nodes).size, "node")} in ${plural(racks.size, "rack")}.`;
}

function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}

/** One entry a pod, in the order of its GPUs. */
function ranksOf(job) {
  const owners = new Map();
  for (const name of new Set(job.nodes)) {
    const node = state.lookups.nodes.get(name);
    for (const cell of node?.cells || []) owners.set(cell.uuid, { node, cell });
  }
  const found = job.gpus.map((uuid) => owners.get(uuid)).filter(Boolean);
  const size = Math.max(job.gpus_per_pod, 1);
  const ranks = [];
  for (let i = 0; i < found.length; i += size) ranks.push(found.slice(i, i + size));
  return ranks;
}

function rankTable(ranks) {
  return h("table", { class: "numbers ranks" },
    h("thead", {}, h("tr", {}, ["rank", "node", "GPUs", "SM activity", "slowest clock", "hottest"].map((word) => h("th", {}, word)))),
    h("tbody", {}, ranks.slice(0, RANKS_SHOWN).map(rankRow)));
}

function rankRow(members, rank) {
  const { node } = members[0];
  const paint = (el) => {
    const ctx = prepare(el, members.length * 15, 13);
    members.forEach(({ cell }, i) => drawCell(ctx, i * 15, 0, 13, lookOf(cell, node, MEASURES.activity, state.lookups.waiting)));
  };
  const known = (field) => members.map(({ cell }) => cell[field]).filter((value) => value !== null);
  const activity = known("activity_ratio");
  const mean = activity.length ? percent(activity.reduce((a, b) => a + b, 0) / activity.length) : "not known";
  const edge = (field, unit, pick) => (known(field).length ? quantity(pick(...known(field)), unit) : "not known");
  return h("tr", { key: rank },
    h("td", {}, String(rank)),
    h("td", {}, link(nodePath(node.name), {}, node.name)),
    h("td", {}, kept("canvas", { role: "img", "aria-label": `${members.length} GPUs`, key: "cells" }, paint, paint)),
    h("td", {}, mean),
    h("td", {}, edge("sm_clock_hertz", "hertz", Math.min)),
    h("td", {}, edge("temperature_celsius", "celsius", Math.max)));
}
