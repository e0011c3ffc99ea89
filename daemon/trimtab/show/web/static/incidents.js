// Incidents as on-call was told of them, and acknowledging one: "I have it". Nothing of it where the daemon tells none.

import { decide, errorOf } from "./decide.js";
import { h } from "./dom.js";
import { get, post } from "./live.js";
import { t } from "./say.js";
import { changed, mayAct, state } from "./state.js";
import { ageAt, clock, full } from "./words.js";

const AGAIN_MS = 10_000;
const ABSENT = [404, 405];

/** Ask for the open incidents, and again as long as the page is looked at. */
export function startIncidents() {
  const ask = async () => {
    if (!document.hidden && state.live) await look();
  };
  document.addEventListener("visibilitychange", ask);
  setInterval(ask, AGAIN_MS);
  document.addEventListener("trimtab:me", look);
}

let isAbsent = false;

async function look() {
  if (isAbsent || !state.me) return;
  try {
    take((await get("/api/v1/incidents")).incidents);
    state.targets = (await get("/api/v1/oncall")).targets;
  } catch (error) {
    isAbsent = ABSENT.includes(error.status);
  }
}

function take(incidents) {
  state.incidents = new Map(incidents.filter((one) => one.finding !== null).map((one) => [one.finding, one]));
  changed();
}

const incidentOf = (item) => state.incidents?.get(item.id) || null;
const keyOf = (incident) => `incident-${incident.number}`;

function acknowledge(incident) {
  return decide(keyOf(incident), () => post(`/api/v1/incidents/${incident.number}/acknowledge`, {}), (said) => {
    const after = said.incident || said;
    state.incidents.set(incident.finding, { ...incident, ...after });
  });
}

/** Messages that an on-call target never got; they wait for a person. */
export function undelivered() {
  return (state.targets || []).filter((target) => target.dead).map((target) => ({
    key: `dead-${target.name}`,
    words: t("dead-letters", { target: target.name, count: target.dead, n: String(target.dead) }),
    why: target.trouble,
  }));
}

/** "I have it", for what pages and nobody has; else who has it. */
export function acknowledgeButton(item) {
  const incident = incidentOf(item);
  if (!incident || state.past) return null;
  if (incident.acknowledged_by) return h("span", { class: "new has-it" }, t("incident-has-it", { who: incident.acknowledged_by }));
  if (!mayAct()) return null;
  const on = { click: () => acknowledge(incident) };
  return [
    h("button", { class: "quiet", on, disabled: Boolean(state.busy[keyOf(incident)]), "aria-label": t("incident-acknowledge-label", { name: `I${incident.number}` }) }, t("incident-acknowledge")),
    errorOf(keyOf(incident)),
  ];
}

/** What keeps a finding from paging, as a tag beside it. */
export function quietWords(item) {
  const quiet = (state.board.quiet || []).find((one) => one.findings.includes(`F${item.id}`));
  if (quiet) return h("span", { class: "new snoozed", title: quiet.why }, t(`quiet-tag-${quiet.kind}`));
  const why = incidentOf(item)?.quiet;
  return why ? h("span", { class: "new snoozed", title: why }, t("quiet-tag-other")) : null;
}

/** What on-call knows of a finding, in its view. */
export function incidentPart(item) {
  const incident = incidentOf(item);
  if (!incident) return null;
  const { at } = state.board;
  const told = incident.paged_at ? t("incident-told", { at: clock(incident.paged_at, at), pager: t(`incident-pager-${incident.pager}`) }) : t("incident-not-told");
  const has = incident.acknowledged_by ? t("incident-acknowledged", { who: incident.acknowledged_by, age: ageAt(incident.acknowledged_at, at) }) : "";
  return h("p", { class: "notice plain incident" },
    h("b", {}, `I${incident.number}`), " ", told, " ", has, incident.quiet ? ` ${full(incident.quiet)}` : "", " ", incident.acknowledged_by ? null : acknowledgeButton(item));
}
