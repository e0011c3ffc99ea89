// What stands beside the plan: pauses, who writes, stopped rules, a release under way; vetoes, other daemons, blind kinds.

import { decide, errorOf } from "./decide.js";
import { h, link } from "./dom.js";
import { undelivered } from "./incidents.js";
import { post } from "./live.js";
import { nodePath } from "./route.js";
import { gap, t } from "./say.js";
import { changed, mayAct, state } from "./state.js";
import { ageAt, clock, full, plural } from "./words.js";

const LEFT_SHOWN = 5;

/** The lines under the head; nothing where there is nothing. */
export function standingNotices(board) {
  const pauses = board.pauses.length ? board.pauses : board.is_paused ? [t("paused-plain")] : [];
  return [
    ...pauses.map((sentence, i) => notice(`pause-${i}`, "warn", `${sentence}${gap()}${t("paused-means")}`)),
    board.why_not_written ? notice("standby", "plain", t("standby-why", { why: full(board.why_not_written) })) : null,
    ...board.breakers.map(stopped),
    board.release ? released(board.release) : null,
    ...quietNotices(board),
    ...undelivered().map(({ key, words, why }) => notice(key, "warn", words, why ? ` ${full(why)}` : "", " ", h("code", {}, "trimtab outbox"))),
  ].filter(Boolean);
}

export function notice(key, kind, ...children) {
  return h("p", { class: `notice ${kind}`, key }, ...children);
}

function stopped(rule) {
  const key = `rule-${rule.name}`;
  const goOn = () =>
    decide(key, () => post("/api/v1/resume", { rule: rule.name }), () => {
      state.board.breakers = state.board.breakers.filter((one) => one.name !== rule.name);
    });
  return notice(key, "warn", h("b", {}, t("stopped")), " ", full(rule.why), " ",
    mayAct() ? h("button", { on: { click: goOn }, disabled: Boolean(state.busy[key]) }, t("let-go-on", { rule: rule.name })) : null, errorOf(key));
}

function released(release) {
  if (release.is_done) {
    return notice("release", "plain", t("release-done", { things: plural(release.given_back.length, "things"), who: release.asked_by }));
  }
  const left = release.left.slice(0, LEFT_SHOWN);
  const rest = release.left.length - left.length;
  return notice("release", "warn",
    t("release-going", { who: release.asked_by, at: clock(release.asked_at, state.board.at), back: String(release.given_back.length), left: String(release.left.length) }),
    left.length ? `: ${left.join("; ")}` : "", rest ? `, ${t("and-more", { n: String(rest) })}` : "", ".");
}

/** Silences and maintenance windows that keep us from paging; nothing where the board knows of none. */
function quietNotices(board) {
  return (board.quiet || []).map((one) => {
    const words = t("quiet-words", { about: one.about, until: clock(one.until, board.at), who: one.who, why: one.why });
    const keeps = one.findings.length ? `${gap()}${t("quiet-keeps", { findings: one.findings.join(", ") })}` : "";
    return notice(`quiet-${one.name}`, "quiet", h("b", {}, t(`quiet-${one.kind}`)), " ", full(words), keeps);
  });
}

/** The quieter facts, folded, under what to do. */
export function standingFacts(board) {
  return [
    facts("vetoes", t("vetoes"), board.vetoes, vetoed),
    facts("foreign", t("foreign"), board.foreign, (sentence) => h("li", { key: sentence }, full(sentence))),
    facts("alerts", t("alerts-others"), board.alerts || [], saidByOthers),
    facts("notes", t("notes"), board.notes, (sentence) => h("li", { key: sentence }, full(sentence))),
  ];
}

function facts(key, title, items, item) {
  if (!items.length) return null;
  return h("details", { key, class: key }, h("summary", {}, `${title}: ${items.length}`), h("ul", { class: "plain" }, items.map(item)));
}

/** Another system's alert, as context: it never moves anything by itself. */
function saidByOthers(alert) {
  const { summary, description, message } = alert.annotations;
  const { node } = alert.place;
  return h("li", { key: alert.fingerprint },
    h("b", {}, alert.name), node ? [" ", link(nodePath(node), {}, node)] : null, " ",
    full(summary || description || message || ""), " ", h("span", { class: "dim" }, t("age-ago", { age: ageAt(alert.starts_at, state.board.at) })));
}

function vetoed(veto) {
  const key = `veto-${veto.name}`;
  const allow = () =>
    decide(key, () => post("/api/v1/allow", { node: veto.name }), () => {
      state.board.vetoes = state.board.vetoes.filter((one) => one.name !== veto.name);
      changed();
    });
  return h("li", { key }, link(nodePath(veto.name), {}, veto.name), " ", full(veto.why), " ",
    mayAct() ? h("button", { class: "quiet", on: { click: allow }, disabled: Boolean(state.busy[key]) }, t("veto-lift")) : null, errorOf(key));
}
