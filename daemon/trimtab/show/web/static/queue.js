// A queue: its quota and what is held of it, who runs in it, who waits and why.

import { heading, part } from "./detail.js";
import { h, link } from "./dom.js";
import { findingItem } from "./lists.js";
import { jobPath } from "./route.js";
import { t } from "./say.js";
import { state } from "./state.js";
import { ageAt, full, number, plural } from "./words.js";

const JOBS_SHOWN = 100;

export function queueView({ name }) {
  const queue = (state.board.queues || []).find((one) => one.name === name);
  const jobs = state.board.jobs.filter((job) => job.queue === name);
  const title = heading("", t("queue-name", { queue: name }));
  if (!queue && !jobs.length) return [title, h("p", { class: "empty" }, t("queue-unknown", { queue: name }))];
  const waiting = jobs.filter((job) => job.state === "waiting" || job.state === "suspended");
  const others = jobs.filter((job) => !waiting.includes(job));
  const findings = state.board.findings.filter((item) => item.finding.subject.queue === name);
  return [
    title,
    queue ? h("p", { class: "lead" }, queueWords(queue)) : null,
    queue ? quotaBar(queue) : null,
    findings.length ? part(t("findings"), h("ul", { class: "rows" }, findings.map(findingItem))) : null,
    part(t("queue-waiting"), waiting.length ? table(waiting, waitingCells, ["job", "size", "for", "why", "do"]) : h("p", { class: "dim" }, t("queue-nobody-waits"))),
    part(t("queue-running"), others.length ? table(others, runningCells, ["job", "size", "state", "priority"]) : h("p", { class: "dim" }, t("queue-nobody-runs"))),
  ];
}

function queueWords(queue) {
  const used = number(queue.gpus_used);
  const said = queue.gpus_quota === null ? t("queue-no-quota", { used }) : t("queue-quota", { used, quota: number(queue.gpus_quota) });
  const more = [
    queue.gpus_asked ? t("queue-asked", { gpus: number(queue.gpus_asked) }) : "",
    queue.cohort ? t("queue-cohort", { cohort: queue.cohort }) : "",
    queue.held_by ? t("queue-held", { who: queue.held_by }) : "",
  ];
  return [said, ...more].filter(Boolean).map(full).join(" ");
}

/** What is held and what is asked for, against the quota. */
function quotaBar(queue) {
  const { gpus_quota: quota, gpus_used: used, gpus_asked: asked } = queue;
  const most = Math.max(quota ?? 0, used + asked, 1);
  const share = (gpus) => `${(100 * gpus) / most}%`;
  return h("div", { class: "quota", role: "img", "aria-label": queueWords(queue) },
    h("span", { class: "quota-used", css: { width: share(used) } }),
    h("span", { class: "quota-asked", css: { width: share(asked) } }),
    quota === null ? null : h("span", { class: "quota-line", css: { left: share(quota) } }));
}

function table(jobs, cells, heads) {
  return [
    h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": t("queue-jobs") },
      h("table", { class: "numbers" },
        h("thead", {}, h("tr", {}, heads.map((word) => h("th", { scope: "col" }, t(`waits-${word}`))))),
        h("tbody", {}, jobs.slice(0, JOBS_SHOWN).map((job) => h("tr", { key: job.id }, cells(job).map((cell) => h("td", {}, cell))))))),
    jobs.length > JOBS_SHOWN ? h("p", { class: "dim" }, t("and-more", { n: number(jobs.length - JOBS_SHOWN) })) : null,
  ];
}

const name = (job) => link(jobPath(job.id), {}, job.name);
const size = (job) => t("size-pods", { pods: number(job.pods), gpus: String(job.gpus_per_pod) });

function waitingCells(job) {
  const todo = job.recommendation === null ? "–" : link(`/r/${job.recommendation}`, {}, `R${job.recommendation}`);
  return [name(job), size(job), job.waiting_since ? ageAt(job.waiting_since, state.board.at) : "", job.why, todo];
}

function runningCells(job) {
  return [name(job), `${size(job)}, ${plural(job.cells.length, "gpus")}`, t(`job-${job.state}`), String(job.priority)];
}
