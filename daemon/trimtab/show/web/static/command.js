// A recommendation: what, why, before → after, what for and against it, its steps as they are done, and what came of it.

import { decisions, standing } from "./decide.js";
import { commandOrAsk, fetchOnce, findingOrAsk, heading, part } from "./detail.js";
import { h, link } from "./dom.js";
import { evidenceCharts, evidenceList } from "./evidence.js";
import { pictures } from "./pictures.js";
import { t } from "./say.js";
import { jobName, mayAct, state } from "./state.js";
import { age, bare, clock, full, gainText, gpuHours, plural, upper } from "./words.js";

const clockHere = (moment) => clock(moment, state.board.at);

export function commandView({ id }) {
  const row = commandOrAsk(id);
  if (!row) return [heading(`R${id}`, t("recommendation")), h("p", { class: "empty" }, fetchOnce("commands", id, `/api/v1/recommendations/${id}`))];
  const { recommendation } = row.command;
  const findings = recommendation.findings.map(findingOrAsk).filter(Boolean);
  return [
    heading(row.name, bare(recommendation.sentence)),
    h("p", { class: "lead" }, full(recommendation.reason)),
    h("p", { class: "standing" }, h("span", { class: "pill state" }, t(`command-${row.command.state}`)), " ", words(row)),
    row.refusal ? h("p", { class: "notice warn" }, row.refusal.sentence) : null,
    decisions(row),
    row.outcome ? outcome(row) : null,
    row.command.state === "proposed" ? null : steps(row),
    part(t("before-after"), pictures(row) || h("p", { class: "dim" }, t("moves-nothing"))),
    worth(row),
    record(row),
    part(t("rests-on"), findings.length ? findings.map(evidenceOf) : h("p", { class: "dim" }, t("rests-on-waiting"))),
    against(recommendation, findings),
    row.command.state === "proposed" ? steps(row) : null,
    owners(row),
    gates(recommendation),
    recommendation.if_nothing_is_done ? part(t("if-nothing"), h("p", {}, full(recommendation.if_nothing_is_done))) : null,
    h("p", { class: "dim small" }, mayApprove(row)),
  ];
}

function words(row) {
  const { command } = row;
  const { not_before: notBefore } = command.recommendation;
  const isLater = notBefore && Date.parse(notBefore) > Date.parse(state.board.at);
  return [
    bare(standing(row, clockHere)),
    isLater ? t("not-before", { at: clockHere(notBefore) }) : null,
    command.reason && command.state !== "proposed" && !row.outcome ? bare(command.reason) : null,
  ].filter(Boolean).filter((text) => text !== t(`command-${command.state}`)).join(" · ");
}

/** A forecast that was not made is a dash, never a zero. */
const said = (value, words) => (value === null || value === undefined ? "–" : words(value));

function outcome({ outcome: measured, command }) {
  const { gain } = command.recommendation;
  const lines = [
    [t("outcome-runs"), said(measured.seconds_forecast, age), age(measured.seconds_to_settle)],
    [t("outcome-gained"), said(measured.gpu_hours_saved_forecast, gpuHours), gpuHours(measured.gpu_hours_saved)],
    [t("outcome-lost"), said(measured.gpu_hours_lost_forecast, gpuHours), gpuHours(measured.gpu_hours_lost)],
    measured.seats_planned ? [t("outcome-seats"), String(measured.seats_planned), String(measured.seats_hit)] : null,
    gain.gpus_unlocked || measured.gpus_unlocked
      ? [t("outcome-unlocked"), String(gain.gpus_unlocked), String(measured.gpus_unlocked)]
      : null,
  ].filter(Boolean);
  return part(t("outcome"),
    h("p", {}, h("b", { class: measured.is_good ? "gain" : "bad-text" }, `${t(measured.is_good ? "outcome-good" : "outcome-bad")} `), upper(measured.sentence)),
    h("table", { class: "numbers" },
      h("thead", {}, h("tr", {}, ["", t("outcome-forecast"), t("outcome-measured")].map((word) => (word ? h("th", { scope: "col" }, word) : h("td", {}))))),
      h("tbody", {}, lines.map((cells) => h("tr", {}, cells.map((text) => h("td", {}, text)))))));
}

const STEP_MARKS = { waiting: "○", doing: "◐", done: "✓", "given back": "↩" };

function steps(row) {
  const { recommendation } = row.command;
  if (!row.steps.length && !recommendation.steps.length && !recommendation.way) return null;
  return part(t("steps"),
    h("ol", { class: "steps", "aria-live": "polite" }, row.steps.map((step, i) =>
      h("li", { key: i, class: `step ${step.state.replace(" ", "-")}` },
        h("span", { class: "step-mark", "aria-hidden": "true" }, STEP_MARKS[step.state] || "·"),
        h("code", {}, step.text),
        h("span", { class: "dim" }, t(`step-${step.state.replace(" ", "-")}`))))),
    way(recommendation),
    row.steps.length ? h("p", { class: "dim small" }, t("approval-exact", { fingerprint: row.fingerprint })) : null);
}

/** How the scheduler does it, in its own words, and for how long the work stands still. */
function way({ steps: lines, way: sentence, way_seconds: seconds }) {
  const expected = seconds === null ? "" : t("way-expected", { age: age(seconds) });
  const copy = () => navigator.clipboard.writeText(lines.join("\n"));
  return [
    sentence || expected ? h("p", { key: "way" }, sentence ? `${full(sentence)} ` : "", expected) : null,
    lines.length
      ? h("details", { key: "lines", open: true },
          h("summary", {}, t("lines-to-copy")),
          h("pre", { class: "lines" }, lines.join("\n")),
          navigator.clipboard ? h("button", { class: "quiet", on: { click: copy } }, t("copy")) : null)
      : null,
  ];
}

/** What the owners of what it moves were asked and told; nothing where they were not. */
function owners({ command, notice_until: until }) {
  const asked = Object.entries(command.answers).map(([workload, answer]) => `${jobName(workload)}: ${answerText(answer)}`);
  const told = command.noticed_at
    ? t(until ? "owners-told-until" : "owners-told", { at: clockHere(command.noticed_at), until: until ? clockHere(until) : "" })
    : null;
  const lines = [...asked, told].filter(Boolean);
  return lines.length ? part(t("owners"), h("ul", { class: "plain" }, lines.map((text) => h("li", { key: text }, text)))) : null;
}

function answerText({ answer, asked_at: askedAt, answered_at: answeredAt, deadline, not_before: notBefore, said: words }) {
  if (answer === null) return t("owner-asked", { at: clockHere(askedAt), until: clockHere(deadline) });
  const isLater = answer === "not_before" && notBefore;
  const head = isLater ? t("not-before", { at: clockHere(notBefore) }) : t(`owner-${answer}`, { at: answeredAt ? clockHere(answeredAt) : "–" });
  return words ? `${head}: ${words}` : head;
}

function gates(recommendation) {
  const found = Object.entries(recommendation.gates);
  return found.length
    ? part(t("gates"), h("ul", { class: "plain" }, found.map(([node, gate]) => h("li", { key: node }, h("b", {}, node), ": ", full(gate)))))
    : null;
}

/** Gain and cost as bars in the one unit that both have, with the formula on demand. */
function worth(row) {
  const { gain, cost } = row.command.recommendation;
  const most = Math.max(gain.gpu_hours, cost.gpu_hours, 1e-9);
  const bar = (key, value, text, words, formula) =>
    h("div", { class: "worth", key },
      h("span", { class: "worth-label" }, t(key)),
      h("span", { class: "worth-track" }, h("span", { class: `worth-bar ${key}`, css: { width: `${Math.max((100 * value) / most, 0.6)}%` } })),
      h("b", { class: `${key} nowrap` }, text),
      h("div", { class: "worth-words dim" }, words ? h("span", {}, words) : null, formula ? h("details", {}, h("summary", {}, t("formula")), h("code", {}, formula)) : null));
  const unlocked = gain.gpus_unlocked ? t("unlocked", { gpus: plural(gain.gpus_unlocked, "gpus") }) : "";
  const disturbed = cost.pods_disturbed
    ? t("disturbed", { pods: plural(cost.pods_disturbed, "pods"), age: age(cost.restart_seconds) })
    : t("nobody-disturbed");
  return part(t("gain-and-cost"),
    bar("gain", gain.gpu_hours, gainText(gain), unlocked, gain.formula),
    bar("cost", cost.gpu_hours, gpuHours(cost.gpu_hours), disturbed, cost.formula));
}

/** How often the rule was right, as a bar of its cases, and how true its forecasts were. */
function record({ command, record: words }) {
  const found = (state.board.records || []).find((one) => one.rule === command.recommendation.rule);
  if (!found?.measured) return words ? part(t("record"), h("p", {}, full(words))) : null;
  const bars = Math.min(found.measured, 60);
  const right = Math.round((found.right / found.measured) * bars);
  return part(t("record"),
    h("div", { class: "record", role: "img", "aria-label": found.text }, Array.from({ length: bars }, (_, i) => h("span", { class: i < right ? "right" : "wrong" }))),
    h("p", {}, full(found.text)));
}

function evidenceOf(item) {
  return h("div", { class: "finding-part", key: item.id },
    h("p", {}, link(`/f/${item.id}`, { class: "id" }, `F${item.id}`), " ", full(item.finding.sentence),
      item.state === "closed" ? h("span", { class: "dim" }, ` ${t("finding-closed")}: ${full(item.close_reason || t("finding-gone"))}`) : null),
    evidenceCharts(item),
    evidenceList(item.finding.evidence));
}

function against(recommendation, findings) {
  const proofs = findings.flatMap((item) => item.finding.against);
  const isNone = !recommendation.against.length && !proofs.length;
  return part(t("against"),
    isNone ? h("p", { class: "dim" }, t("against-nothing")) : null,
    recommendation.against.length ? h("ul", { class: "plain" }, recommendation.against.map((text) => h("li", {}, full(text)))) : null,
    proofs.length ? evidenceList(proofs) : null);
}

const ADVICE = ["reset", "reboot", "run_diagnostics", "replace", "change_quota", "resize", "change_settings"];

function mayApprove(row) {
  const { recommendation, state: now, approved_by: who, snoozed_until: until } = row.command;
  if (row.is_approvable) return t(mayAct() ? "may-approve" : "may-approve-not-you", { name: row.name });
  if (who) return t("approved-by", { who });
  if (ADVICE.includes(recommendation.kind)) return t("may-advice");
  if (["observe", "recommend"].includes(state.board.mode)) {
    return t("may-not-in-mode", { mode: state.board.mode });
  }
  if (now === "proposed" && until === null && Date.parse(recommendation.expires_at) <= Date.parse(state.board.at)) {
    return t("may-expired");
  }
  return now === "proposed" ? t("may-not-now") : t("may-is", { state: t(`command-${now}`) });
}
