// What to do, what is wrong, who waits and why: the lists beside and under the fleet.

import { standingFacts } from "./around.js";
import { approveButton, errorOf, standing } from "./decide.js";
import { h, link, render } from "./dom.js";
import { jobPath, queuePath } from "./route.js";
import { isSeen, markSeen } from "./seen.js";
import { gap, t } from "./say.js";
import { changed, isLive, jobName, state } from "./state.js";
import { age, ageAt, bare, clock, gainText, gpuHours, number, plural, secondsBetween, upper } from "./words.js";
import { acknowledgeButton, quietWords } from "./incidents.js";

const SHOWN_MAX = 50;
const REFUSALS_SHOWN = 20;

export function renderTodo(container) {
  const { board } = state;
  const live = board.commands.filter((row) => isLive(row.command)); // the board has the most urgent first
  const over = board.commands.filter((row) => !isLive(row.command));
  render(container,
    h("h2", { id: "todo-title", key: "title" }, t("todo-title")),
    live.length ? h("ul", { class: "rows", key: "live" }, live.slice(0, SHOWN_MAX).map(commandItem)) : h("p", { class: "empty", key: "empty" }, nothingToDo(board)),
    more(live, "trimtab plan"),
    board.refusals.length ? refusals(board.refusals) : null,
    standingFacts(board),
    over.length
      ? h("details", { key: "over" },
          h("summary", {}, t("todo-over", { n: number(over.length) })),
          h("ul", { class: "rows" }, over.slice(0, SHOWN_MAX).map(commandItem)))
      : null);
}

function nothingToDo(board) {
  if (board.mode === "observe") return t("todo-observe");
  const hasOpen = board.findings.some((item) => item.state === "open");
  return t(hasOpen ? "todo-nothing-better" : "todo-nothing");
}

function more(items, command) {
  const left = items.length - SHOWN_MAX;
  return left > 0 ? h("p", { class: "dim", key: "more" }, t("and-more-by", { n: number(left), command })) : null;
}

function refusals(items) {
  return h("details", { key: "refusals", class: "refusals" },
    h("summary", {}, t("todo-refusals", { n: number(items.length) })),
    h("ul", { class: "plain" }, items.slice(0, REFUSALS_SHOWN).map((one) => h("li", {}, one.sentence))));
}

const clockHere = (moment) => clock(moment, state.board.at);

function commandItem(row) {
  const { command } = row;
  const { recommendation } = command;
  const isOpen = state.path.view === "command" && state.path.id === command.id;
  return h("li", { key: command.id, class: `row command${isOpen ? " is-open" : ""}` },
    h("div", { class: "row-body" },
      h("div", { class: "row-title" }, h("span", { class: "id" }, row.name), " ", h("strong", {}, bare(recommendation.sentence))),
      h("div", { class: "dim" }, bare(recommendation.reason)),
      h("div", { class: "facts" }, facts(row)),
      progress(row),
      row.refusal && row.refusal.sentence !== command.reason ? h("div", { class: "warn-text" }, row.refusal.sentence) : null,
      !["proposed", "approved"].includes(command.state) && command.reason ? h("div", { class: "dim" }, upper(command.reason)) : null,
      errorOf(command.id)),
    h("div", { class: "row-buttons" },
      approveButton(row),
      link(`/r/${command.id}`, { class: "button", "aria-label": t("todo-why-label", { name: row.name }) }, t("todo-why"))));
}

function facts(row) {
  const { command } = row;
  const { gain, cost, not_before: notBefore } = command.recommendation;
  const isLater = notBefore && Date.parse(notBefore) > Date.parse(state.board.at);
  const when = isLater ? t("not-before", { at: clockHere(notBefore) }) : command.state === "proposed" ? t("todo-now") : null;
  return separated([
    h("span", {}, t("gain"), " ", h("b", { class: "gain" }, gainText(gain))),
    h("span", {}, t("cost"), " ", h("b", { class: "cost" }, gpuHours(cost.gpu_hours))),
    when,
    h("span", { class: command.state === "proposed" ? "" : "state" }, standing(row, clockHere)),
    row.record || null,
  ]);
}

function separated(parts) {
  return parts.filter(Boolean).flatMap((part, i) => (i ? [h("span", { class: "dot" }, " · "), part] : [part]));
}

function progress(row) {
  if (["proposed", "rejected", "refused", "expired"].includes(row.command.state) || !row.steps.length) return null;
  const done = row.steps.filter((step) => step.state === "done" || step.state === "given back").length;
  return h("div", { class: "progress" },
    h("span", { class: "bar", "aria-hidden": "true" }, h("span", { css: { width: `${(100 * done) / row.steps.length}%` } })),
    h("span", { class: "dim" }, t("steps-done", { done: String(done), steps: plural(row.steps.length, "steps") })));
}

export function renderWrong(container) {
  const { board } = state;
  const open = board.findings.filter((item) => item.state === "open");
  const closed = board.findings.filter((item) => item.state !== "open");
  const unseen = open.filter((item) => !isSeen(item));
  render(container,
    h("div", { class: "panel-head", key: "head" },
      h("h2", { id: "wrong-title" }, t("wrong-title")),
      unseen.length ? h("button", { class: "quiet", on: { click: () => markSeen(unseen) } }, t("wrong-mark-seen", { n: number(unseen.length) })) : null),
    open.length ? h("ul", { class: "rows", key: "open" }, open.slice(0, SHOWN_MAX).map(findingItem)) : h("p", { class: "empty", key: "empty" }, nothingWrong(board)),
    more(open, "trimtab findings"),
    closed.length
      ? h("details", { key: "closed" },
          h("summary", {}, t("wrong-closed", { n: number(closed.length) })),
          h("ul", { class: "rows" }, closed.slice(0, SHOWN_MAX).map(findingItem)))
      : null);
}

export function nothingWrong(board) {
  const { strip } = board;
  const head = t(board.blind.length ? "wrong-nothing-seen" : "wrong-nothing");
  const last = board.last_finding_at ? t("wrong-last", { age: ageAt(board.last_finding_at, board.at) }) : "";
  const report = t("wrong-report", { reporting: number(strip.gpus_reporting), total: number(strip.gpus_total) });
  return [head, last, report].filter(Boolean).join(gap());
}

export function findingItem(item) {
  const { finding } = item;
  const { at } = state.board;
  const isOpen = item.state === "open";
  const isSnoozed = item.snoozed_until && Date.parse(item.snoozed_until) > Date.parse(at);
  const isShown = state.path.view === "finding" && state.path.id === item.id;
  const shape = isOpen ? finding.severity : "closed";
  return h("li", { key: item.id, class: `row finding${isShown ? " is-open" : ""}` },
    h("span", { class: `shape ${shape}`, role: "img", "aria-label": t(isOpen ? `severity-${finding.severity}` : "finding-closed") }),
    link(`/f/${item.id}`, { class: "row-body" },
      h("span", { class: "row-title" },
        h("span", { class: "id" }, `F${item.id}`), " ", bare(finding.sentence),
        isOpen && !isSeen(item) ? h("span", { class: "new" }, t("finding-new")) : null,
        quietWords(item),
        isSnoozed ? h("span", { class: "new snoozed" }, t("snoozed-until", { at: clockHere(item.snoozed_until) })) : null),
      h("span", { class: "dim" }, isOpen ? bare(finding.impact) : t("finding-closed-at", { at: clockHere(item.closed_at), why: bare(item.close_reason || t("finding-gone")) }))),
    isOpen ? acknowledgeButton(item) : null,
    h("span", { class: "age", title: item.opened_at }, age(secondsBetween(item.opened_at, isOpen ? at : item.closed_at))));
}

export function renderWaits(container) {
  const { board } = state;
  const waiting = board.jobs.filter((job) => job.state === "waiting" || job.state === "suspended");
  render(container,
    h("h2", { id: "waits-title", key: "title" }, t("waits-title")),
    waiting.length
      ? h("table", { key: "table", class: "waits" },
          h("thead", { class: "spoken" }, h("tr", {}, ["job", "size", "queue", "for", "why", "do"].map((word) => h("th", { scope: "col" }, t(`waits-${word}`))))),
          h("tbody", {}, waiting.slice(0, SHOWN_MAX).map(waitingRow)))
      : h("p", { class: "empty", key: "empty" }, nobodyWaits(board)),
    more(waiting, "trimtab status"),
    queueLine(board));
}

/** Every queue with what it holds of its quota. */
function queueLine(board) {
  const queues = (board.queues || []).filter((queue) => queue.gpus_quota !== null || queue.gpus_asked);
  if (!queues.length) return null;
  return h("p", { class: "queue-line dim", key: "queues" }, t("waits-queues"), " ", queues.slice(0, 8).flatMap((queue, i) => [
    i ? " · " : "",
    link(queuePath(queue.name), {}, queue.name),
    ` ${number(queue.gpus_used)}${queue.gpus_quota === null ? "" : `/${number(queue.gpus_quota)}`}`,
  ]));
}

function nobodyWaits(board) {
  const running = board.jobs.filter((job) => job.state === "running").length;
  return t("waits-nobody", { jobs: plural(running, "jobs") });
}

function waitingRow(job) {
  const on = {
    pointerenter: () => hover(job.id),
    pointerleave: () => hover(null),
  };
  return h("tr", { key: job.id, on },
    h("td", {}, link(jobPath(job.id), { class: "job", title: job.id }, jobName(job.id))),
    h("td", {}, t("size-pods", { pods: number(job.pods), gpus: String(job.gpus_per_pod) })),
    h("td", {}, job.queue ? link(queuePath(job.queue), { class: "quiet-link" }, job.queue) : ""),
    h("td", {}, job.waiting_since ? ageAt(job.waiting_since, state.board.at) : ""),
    h("td", { class: "dim why" }, job.why),
    h("td", {}, job.recommendation === null ? h("span", { class: "dim" }, "–") : link(`/r/${job.recommendation}`, {}, `R${job.recommendation}`)));
}

function hover(id) {
  state.hoverJob = id;
  changed();
}
