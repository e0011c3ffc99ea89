// A job: its ranks over time, why it is slow or waits, what was ruled out, and where it sits.

import { heading, part } from "./detail.js";
import { h, link } from "./dom.js";
import { heatStrip } from "./heat.js";
import { findingItem } from "./lists.js";
import { nodePath, queuePath } from "./route.js";
import { t } from "./say.js";
import { nodesOf, racksOf, state } from "./state.js";
import { ageAt, bare, gpuHours, number, plural, secondsBetween, upper } from "./words.js";

const NODES_SHOWN = 64;

export function jobView({ id }) {
  const { jobs } = state.lookups;
  const job = jobs.get(id) || [...jobs.values()].find((each) => each.name === id);
  if (!job) return [heading("", id), h("p", { class: "empty" }, t("job-unknown", { job: id }))];
  const findings = state.board.findings.filter((item) => item.finding.workloads_hit.includes(job.id) || item.finding.subject.workload === job.id);
  const open = findings.filter((item) => item.state === "open");
  return [
    heading("", job.name),
    h("p", { class: "lead" }, jobWords(job)),
    h("dl", { class: "facts-list" },
      fact("state", t(`job-${job.state}`)),
      fact("size", t("size-pods", { pods: number(job.pods), gpus: String(job.gpus_per_pod) })),
      fact("queue", job.queue ? link(queuePath(job.queue), {}, job.queue) : t("job-none")),
      fact("priority", String(job.priority)),
      fact("checkpoint", job.checkpoint_at ? t("age-ago", { age: ageAt(job.checkpoint_at, state.board.at) }) : t("not-known")),
      open.length ? fact("lost", lostWords(open)) : null,
      job.recommendation === null ? null : fact("recommended", link(`/r/${job.recommendation}`, {}, `R${job.recommendation}`))),
    part(t(job.cells.length ? "why-slow" : "why-waits"), causes(job, open)),
    findings.length ? part(t("job-hit"), h("ul", { class: "rows" }, findings.map(findingItem))) : null,
    job.cells.length ? part(t("job-ranks"), heatStrip(job, open)) : null,
    job.cells.length ? part(t("job-nodes"), nodeList(job)) : null,
    elsewhere(job),
  ];
}

function jobWords(job) {
  if (job.why) return upper(job.why);
  return t("job-runs", { gpus: plural(job.cells.length, "gpus"), nodes: plural(nodesOf(job).length, "nodes"), racks: plural(racksOf(job).size, "racks") });
}

function fact(name, value) {
  return [h("dt", {}, t(`job-fact-${name}`)), h("dd", {}, value)];
}

/** What open findings have cost it so far: the largest at each moment counts, since several tell of one loss. */
function lostWords(open) {
  const hours = open.map((item) => (item.finding.loss_gpus * secondsBetween(item.finding.began_at || item.opened_at, state.board.at)) / 3600);
  return gpuHours(Math.max(...hours, 0));
}

/** Which of the five causes a finding speaks for. */
const CAUSE_OF = {
  device_fault: "hardware",
  gpus_missing: "hardware",
  hotspot: "hardware",
  straggler: "hardware",
  contradiction: "hardware",
  hung_job: "code",
  idle_gpu: "code",
  fragmentation: "scheduling",
};
const CAUSES = ["scheduling", "network", "hardware", "host", "code"];

/** Each cause with what speaks for it, else what rules it out, else that nothing is known. */
function causes(job, open) {
  return h("dl", { class: "causes" }, CAUSES.map((cause) => {
    const proofs = open.filter((item) => CAUSE_OF[item.finding.rule] === cause);
    const [mark, words] = proofs.length ? ["yes", proofWords(proofs)] : ruledOut(cause, job, open);
    return [
      h("dt", { class: `cause ${mark}` }, h("span", { class: "cause-mark", "aria-hidden": "true" }, { yes: "●", no: "○", unknown: "?" }[mark]), " ", t(`cause-${cause}`)),
      h("dd", {}, words),
    ];
  }));
}

function proofWords(proofs) {
  return proofs.flatMap((item, i) => [i ? "; " : "", link(`/f/${item.id}`, {}, `F${item.id}`), ` ${bare(item.finding.sentence)}`]);
}

function ruledOut(cause, job, open) {
  const against = open.flatMap((item) => item.finding.against.map((one) => bare(one.text)));
  if (cause === "scheduling") return scheduling(job);
  if (!job.cells.length) return ["unknown", t("cause-not-running")];
  if (cause === "network") return ["unknown", t("cause-network-unread")];
  if (cause === "host") return ["unknown", t("cause-host-unread")];
  if (cause === "hardware") return isBlind(job) ? ["unknown", t("cause-blind")] : ["no", [t("cause-hardware-none"), against.length ? ` ${against.join("; ")}.` : ""]];
  const isOther = open.some((item) => ["hardware"].includes(CAUSE_OF[item.finding.rule]));
  return ["no", t(isOther ? "cause-code-other" : "cause-code-none")];
}

function isBlind(job) {
  const { fleet } = state;
  return job.cells.some((cell) => fleet.isSilent(fleet.owner[cell]));
}

/** Waiting is scheduling's; and so is work that lies in more racks than it needs. */
function scheduling(job) {
  if (job.why) return ["yes", upper(job.why)];
  const { fleet } = state;
  const sizes = new Map();
  for (const rack of fleet.racks) sizes.set(rack, (sizes.get(rack) || 0) + 1);
  const nodes = nodesOf(job).length;
  const racks = racksOf(job).size;
  const largest = Math.max(...sizes.values());
  const fewest = Math.max(Math.ceil(nodes / largest), 1);
  const words = { racks: plural(racks, "racks"), fewest: String(fewest) };
  return racks > fewest ? ["unknown", t("cause-spread", words)] : ["no", t("cause-together", words)];
}

function nodeList(job) {
  const names = nodesOf(job);
  const { fleet } = state;
  return [
    h("ul", { class: "node-list" }, names.slice(0, NODES_SHOWN).map((name) =>
      h("li", { key: name }, link(nodePath(name), {}, name), h("span", { class: "dim" }, ` ${fleet.racks[fleet.place.get(name)] || ""}`)))),
    names.length > NODES_SHOWN ? h("p", { class: "dim" }, t("and-more", { n: number(names.length - NODES_SHOWN) })) : null,
  ];
}

/** Where else it could run, and what that would give: what is recommended about it. */
function elsewhere(job) {
  const rows = state.board.commands.filter((row) => row.command.recommendation.moves.some((move) => move.workload === job.id));
  if (!rows.length) return null;
  return part(t("job-elsewhere"), h("ul", { class: "plain" }, rows.map(({ name, command }) =>
    h("li", { key: name }, link(`/r/${command.id}`, {}, name), ` ${bare(command.recommendation.sentence)}: `, h("b", { class: "gain" }, gpuHours(command.recommendation.gain.gpu_hours)), ` ${t("against-cost")} `, h("b", { class: "cost" }, gpuHours(command.recommendation.cost.gpu_hours))))));
}
