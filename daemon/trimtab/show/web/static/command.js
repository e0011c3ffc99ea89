// A recommendation: what, why, before → after, what for and against it, its steps as they are done, and what came of it.

import { decisions, standing } from "./decide.js";
import { commandOrAsk, fetchOnce, findingOrAsk, heading, part } from "./detail.js";
import { h, link } from "./dom.js";
import { evidenceCharts, evidenceList } from "./evidence.js";
import { pictures } from "./pictures.js";
import { jobName, state } from "./state.js";
import { age, bare, clock, full, gainText, gpuHours, plural, upper } from "./words.js";

const clockHere = (moment) => clock(moment, state.board.at);

export function commandView({ id }) {
  const row = commandOrAsk(id);
  if (!row) return [heading(`R${id}`, "recommendation"), h("p", { class: "empty" }, fetchOnce("commands", id, `/api/v1/recommendations/${id}`))];
  const { recommendation } = row.command;
  const findings = recommendation.findings.map(findingOrAsk).filter(Boolean);
  return [
    heading(row.name, bare(recommendation.sentence)),
    h("p", { class: "lead" }, full(recommendation.reason)),
    h("p", { class: "standing" }, h("span", { class: "pill state" }, row.command.state), " ", words(row)),
    row.refusal ? h("p", { class: "notice warn" }, row.refusal.sentence) : null,
    decisions(row),
    row.outcome ? outcome(row) : null,
    row.command.state === "proposed" ? null : steps(row),
    part("Before → after", pictures(row) || h("p", { class: "dim" }, "It moves nothing: see the steps.")),
    worth(row),
    part("What it rests on", findings.length ? findings.map(evidenceOf) : h("p", { class: "dim" }, "No finding: it rests on who waits, and on what is free.")),
    against(recommendation, findings),
    row.command.state === "proposed" ? steps(row) : null,
    owners(row),
    gates(recommendation),
    recommendation.if_nothing_is_done ? part("If nothing is done", h("p", {}, full(recommendation.if_nothing_is_done))) : null,
    h("p", { class: "dim small" }, mayApprove(row)),
  ];
}

function words(row) {
  const { command } = row;
  const { not_before: notBefore } = command.recommendation;
  const isLater = notBefore && Date.parse(notBefore) > Date.parse(state.board.at);
  return [
    bare(standing(row, clockHere)),
    isLater ? `not before ${clockHere(notBefore)}` : null,
    row.record ? row.record : null,
    command.reason && command.state !== "proposed" && !row.outcome ? bare(command.reason) : null,
  ].filter(Boolean).filter((text) => text !== command.state).join(" · ");
}

/** A forecast that was not made is a dash, never a zero. */
const said = (value, words) => (value === null || value === undefined ? "–" : words(value));

function outcome({ outcome: measured, command }) {
  const { gain } = command.recommendation;
  const lines = [
    ["runs again after", said(measured.seconds_forecast, age), age(measured.seconds_to_settle)],
    ["GPU-hours gained, net", said(measured.gpu_hours_saved_forecast, gpuHours), gpuHours(measured.gpu_hours_saved)],
    ["GPU-hours lost", said(measured.gpu_hours_lost_forecast, gpuHours), gpuHours(measured.gpu_hours_lost)],
    measured.seats_planned ? ["seats as planned", String(measured.seats_planned), String(measured.seats_hit)] : null,
    gain.gpus_unlocked || measured.gpus_unlocked
      ? ["GPUs unlocked", String(gain.gpus_unlocked), String(measured.gpus_unlocked)]
      : null,
  ].filter(Boolean);
  return part("What came of it",
    h("p", {}, h("b", { class: measured.is_good ? "gain" : "bad-text" }, measured.is_good ? "As hoped. " : "Not as hoped. "), upper(measured.sentence)),
    h("table", { class: "numbers" },
      h("thead", {}, h("tr", {}, ["", "forecast", "measured"].map((word) => h("th", {}, word)))),
      h("tbody", {}, lines.map((cells) => h("tr", {}, cells.map((text) => h("td", {}, text)))))));
}

const STEP_MARKS = { waiting: "○", doing: "◐", done: "✓", "given back": "↩" };

function steps(row) {
  const { recommendation } = row.command;
  if (!row.steps.length && !recommendation.steps.length && !recommendation.way) return null;
  return part("Steps",
    h("ol", { class: "steps", "aria-live": "polite" }, row.steps.map((step, i) =>
      h("li", { key: i, class: `step ${step.state.replace(" ", "-")}` },
        h("span", { class: "step-mark", "aria-hidden": "true" }, STEP_MARKS[step.state] || "·"),
        h("code", {}, step.text),
        h("span", { class: "dim" }, step.state)))),
    way(recommendation),
    row.steps.length ? h("p", { class: "dim small" }, `An approval is for exactly these writes: ${row.fingerprint}.`) : null);
}

/** How the scheduler does it, in its own words, and for how long the work stands still. */
function way({ steps: lines, way: sentence, way_seconds: seconds }) {
  const expected = seconds === null ? "" : `Expected: ${age(seconds)} until all of it runs again.`;
  const copy = () => navigator.clipboard.writeText(lines.join("\n"));
  return [
    sentence || expected ? h("p", { key: "way" }, sentence ? `${full(sentence)} ` : "", expected) : null,
    lines.length
      ? h("details", { key: "lines", open: true },
          h("summary", {}, "Lines to copy"),
          h("pre", { class: "lines" }, lines.join("\n")),
          navigator.clipboard ? h("button", { class: "quiet", on: { click: copy } }, "copy") : null)
      : null,
  ];
}

/** What the owners of what it moves were asked and told; nothing where they were not. */
function owners({ command, notice_until: until }) {
  const asked = Object.entries(command.answers).map(([workload, answer]) => `${jobName(workload)}: ${answerText(answer)}`);
  const told = command.noticed_at
    ? `Told at ${clockHere(command.noticed_at)}${until ? `; it begins at ${clockHere(until)} or later` : ""}.`
    : null;
  const lines = [...asked, told].filter(Boolean);
  return lines.length ? part("Its owners", h("ul", { class: "plain" }, lines.map((text) => h("li", { key: text }, text)))) : null;
}

function answerText({ answer, asked_at: askedAt, answered_at: answeredAt, deadline, not_before: notBefore, said: words }) {
  if (answer === null) return `asked at ${clockHere(askedAt)}, has until ${clockHere(deadline)} to answer`;
  const head = answer === "not_before" && notBefore ? `not before ${clockHere(notBefore)}` : `${answer}${answeredAt ? ` at ${clockHere(answeredAt)}` : ""}`;
  return words ? `${head}: ${words}` : head;
}

function gates(recommendation) {
  const found = Object.entries(recommendation.gates);
  return found.length
    ? part("Before it returns to service", h("ul", { class: "plain" }, found.map(([node, gate]) => h("li", { key: node }, h("b", {}, node), ": ", full(gate)))))
    : null;
}

/** Gain and cost as bars in the one unit that both have, with the formula on demand. */
function worth(row) {
  const { gain, cost } = row.command.recommendation;
  const most = Math.max(gain.gpu_hours, cost.gpu_hours, 1e-9);
  const bar = (key, value, text, words, formula) =>
    h("div", { class: "worth", key },
      h("span", { class: "worth-label" }, key),
      h("span", { class: "worth-track" }, h("span", { class: `worth-bar ${key}`, css: { width: `${Math.max((100 * value) / most, 0.6)}%` } })),
      h("b", { class: `${key} nowrap` }, text),
      h("div", { class: "worth-words dim" }, words ? h("span", {}, words) : null, formula ? h("details", {}, h("summary", {}, "formula"), h("code", {}, formula)) : null));
  const unlocked = gain.gpus_unlocked ? `${plural(gain.gpus_unlocked, "GPU")} unlocked` : "";
  const disturbed = cost.pods_disturbed
    ? `${plural(cost.pods_disturbed, "pod")} disturbed, restart ${age(cost.restart_seconds)}`
    : "nobody is disturbed";
  return part("Gain and cost",
    bar("gain", gain.gpu_hours, gainText(gain), unlocked, gain.formula),
    bar("cost", cost.gpu_hours, gpuHours(cost.gpu_hours), disturbed, cost.formula));
}

function evidenceOf(item) {
  return h("div", { class: "finding-part", key: item.id },
    h("p", {}, link(`/f/${item.id}`, { class: "id" }, `F${item.id}`), " ", full(item.finding.sentence),
      item.state === "closed" ? h("span", { class: "dim" }, ` Closed: ${full(item.close_reason || "it no longer holds")}`) : null),
    evidenceCharts(item),
    evidenceList(item.finding.evidence));
}

function against(recommendation, findings) {
  const proofs = findings.flatMap((item) => item.finding.against);
  const isNone = !recommendation.against.length && !proofs.length;
  return part("What speaks against it",
    isNone ? h("p", { class: "dim" }, "Nothing that is known.") : null,
    recommendation.against.length ? h("ul", { class: "plain" }, recommendation.against.map((text) => h("li", {}, full(text)))) : null,
    proofs.length ? evidenceList(proofs) : null);
}

const ADVICE = ["reset", "reboot", "run_diagnostics", "replace", "change_quota", "resize", "change_settings"];

function mayApprove(row) {
  const { recommendation, state: now, approved_by: who, snoozed_until: until } = row.command;
  if (row.is_approvable) return `Whoever is signed in here may approve, or: trimtab approve ${row.name}`;
  if (who) return `Approved by ${who}.`;
  if (ADVICE.includes(recommendation.kind)) return "Nobody may approve it: this kind stays advice; carry it out by hand.";
  if (["observe", "recommend"].includes(state.board.mode)) {
    return `Nothing can be approved in mode ${state.board.mode}: copy the steps, or set [issue] mode = "approve" in the daemon's settings.`;
  }
  if (now === "proposed" && until === null && Date.parse(recommendation.expires_at) <= Date.parse(state.board.at)) {
    return "It has expired; it is made anew if it still holds.";
  }
  return now === "proposed" ? "It cannot be approved at this moment." : `It is ${now}.`;
}
