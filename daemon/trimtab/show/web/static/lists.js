// What to do, what is wrong, who waits and why: the lists beside and under the fleet.

import { standingFacts } from "./around.js";
import { approveButton, errorOf, standing } from "./decide.js";
import { h, link, render } from "./dom.js";
import { jobPath } from "./route.js";
import { changed, isLive, isSeen, jobName, markSeen, state } from "./state.js";
import { age, ageAt, bare, clock, gainText, gpuHours, number, plural, secondsBetween, upper } from "./words.js";

const SHOWN_MAX = 50;
const REFUSALS_SHOWN = 20;

export function renderTodo(container) {
  const { board } = state;
  const live = board.commands.filter((row) => isLive(row.command)).sort((a, b) => worthOf(b) - worthOf(a));
  const over = board.commands.filter((row) => !isLive(row.command));
  render(container,
    h("h2", { id: "todo-title", key: "title" }, "What to do"),
    live.length ? h("ul", { class: "rows", key: "live" }, live.slice(0, SHOWN_MAX).map(commandItem)) : h("p", { class: "empty", key: "empty" }, nothingToDo(board)),
    more(live),
    board.refusals.length ? refusals(board.refusals) : null,
    standingFacts(board),
    over.length
      ? h("details", { key: "over" },
          h("summary", {}, `Over in the last hour: ${over.length}`),
          h("ul", { class: "rows" }, over.slice(0, SHOWN_MAX).map(commandItem)))
      : null);
}

/** What most is gained by stands first; what nobody can approve, last. */
function worthOf({ command, is_approvable: isApprovable }) {
  const { gain, cost } = command.recommendation;
  const net = (gain.gpu_hours - cost.gpu_hours) / Math.max(gain.horizon_hours, 0.1);
  return net + (command.state !== "proposed" || isApprovable ? 1e6 : 0);
}

function nothingToDo(board) {
  if (board.mode === "observe") return "Nothing is recommended in mode observe.";
  const hasOpen = board.findings.some((item) => item.state === "open");
  return hasOpen ? "Nothing to do: no move would be better than waiting." : "Nothing to do.";
}

function more(items) {
  const left = items.length - SHOWN_MAX;
  return left > 0 ? h("p", { class: "dim", key: "more" }, `and ${number(left)} more: trimtab plan`) : null;
}

function refusals(items) {
  return h("details", { key: "refusals", class: "refusals" },
    h("summary", {}, `Not done, and why: ${items.length}`),
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
      link(`/r/${command.id}`, { class: "button", "aria-label": `why ${row.name}` }, "why")));
}

function facts(row) {
  const { command } = row;
  const { gain, cost, not_before: notBefore } = command.recommendation;
  const isLater = notBefore && Date.parse(notBefore) > Date.parse(state.board.at);
  const when = isLater ? `not before ${clockHere(notBefore)}` : command.state === "proposed" ? "now" : null;
  return separated([
    h("span", {}, "gain ", h("b", { class: "gain" }, gainText(gain))),
    h("span", {}, "cost ", h("b", { class: "cost" }, gpuHours(cost.gpu_hours))),
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
    h("span", { class: "dim" }, `${done} of ${plural(row.steps.length, "step")} done`));
}

export function renderWrong(container) {
  const { board } = state;
  const open = board.findings.filter((item) => item.state === "open");
  const closed = board.findings.filter((item) => item.state !== "open");
  const unseen = open.filter((item) => !isSeen(item));
  render(container,
    h("div", { class: "panel-head", key: "head" },
      h("h2", { id: "wrong-title" }, "What is wrong"),
      unseen.length ? h("button", { class: "quiet", on: { click: () => markSeen(unseen) } }, `mark ${unseen.length} as seen`) : null),
    open.length ? h("ul", { class: "rows", key: "open" }, open.slice(0, SHOWN_MAX).map(findingItem)) : h("p", { class: "empty", key: "empty" }, nothingWrong(board)),
    open.length > SHOWN_MAX ? h("p", { class: "dim" }, `and ${number(open.length - SHOWN_MAX)} more: trimtab findings`) : null,
    closed.length
      ? h("details", { key: "closed" },
          h("summary", {}, `Closed in the last hour: ${closed.length}`),
          h("ul", { class: "rows" }, closed.slice(0, SHOWN_MAX).map(findingItem)))
      : null);
}

export function nothingWrong(board) {
  const { strip } = board;
  const last = board.last_finding_at ? ` Last finding ${ageAt(board.last_finding_at, board.at)} ago.` : "";
  const head = board.blind.length ? "Nothing is wrong with what is seen." : "Nothing is wrong.";
  return `${head}${last} ${number(strip.gpus_reporting)} of ${number(strip.gpus_total)} GPUs report.`;
}

export function findingItem(item) {
  const { finding } = item;
  const { at } = state.board;
  const isOpen = item.state === "open";
  const isSnoozed = item.snoozed_until && Date.parse(item.snoozed_until) > Date.parse(at);
  const isShown = state.path.view === "finding" && state.path.id === item.id;
  const shape = isOpen ? finding.severity : "closed";
  return h("li", { key: item.id, class: `row finding${isShown ? " is-open" : ""}` },
    h("span", { class: `shape ${shape}`, role: "img", "aria-label": isOpen ? finding.severity : "closed" }),
    link(`/f/${item.id}`, { class: "row-body" },
      h("span", { class: "row-title" },
        h("span", { class: "id" }, `F${item.id}`), " ", bare(finding.sentence),
        isOpen && !isSeen(item) ? h("span", { class: "new" }, "new") : null,
        isSnoozed ? h("span", { class: "new snoozed" }, `snoozed until ${clockHere(item.snoozed_until)}`) : null),
      h("span", { class: "dim" }, isOpen ? bare(finding.impact) : `closed ${clockHere(item.closed_at)}: ${item.close_reason || "it no longer holds"}`)),
    h("span", { class: "age", title: item.opened_at }, age(secondsBetween(item.opened_at, isOpen ? at : item.closed_at))));
}

export function renderWaits(container) {
  const { board } = state;
  const waiting = board.jobs.filter((job) => job.state === "waiting" || job.state === "suspended");
  render(container,
    h("h2", { id: "waits-title", key: "title" }, "Who waits, and why"),
    waiting.length
      ? h("table", { key: "table", class: "waits" },
          h("thead", { class: "spoken" }, h("tr", {}, ["job", "size", "waits", "why", "recommended"].map((word) => h("th", {}, word)))),
          h("tbody", {}, waiting.slice(0, SHOWN_MAX).map(waitingRow)))
      : h("p", { class: "empty", key: "empty" }, nobodyWaits(board)),
    more(waiting));
}

function nobodyWaits(board) {
  const running = board.jobs.filter((job) => job.state === "running").length;
  return `Nobody waits. ${plural(running, "job")} ${running === 1 ? "runs" : "run"}.`;
}

function waitingRow(job) {
  const on = {
    pointerenter: () => hover(job.id),
    pointerleave: () => hover(null),
  };
  return h("tr", { key: job.id, on },
    h("td", {}, link(jobPath(job.id), { class: "job", title: job.id }, jobName(job.id))),
    h("td", {}, `${job.pods} × ${job.gpus_per_pod} GPUs`),
    h("td", {}, job.waiting_since ? ageAt(job.waiting_since, state.board.at) : ""),
    h("td", { class: "dim why" }, job.why),
    h("td", {}, job.recommendation === null ? h("span", { class: "dim" }, "–") : link(`/r/${job.recommendation}`, {}, `R${job.recommendation}`)));
}

function hover(id) {
  state.hoverJob = id;
  changed();
}
