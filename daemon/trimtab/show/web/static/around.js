// What stands beside the plan: pauses, who writes, stopped rules, a release under way; vetoes, other daemons, blind kinds.

import { decide, errorOf } from "./decide.js";
import { h, link } from "./dom.js";
import { post } from "./live.js";
import { nodePath } from "./route.js";
import { changed, state } from "./state.js";
import { clock, full, plural } from "./words.js";

const LEFT_SHOWN = 5;

/** The lines under the head; nothing where there is nothing. */
export function standingNotices(board) {
  const pauses = board.pauses.length ? board.pauses : board.is_paused ? ["Paused: nothing new is started."] : [];
  return [
    ...pauses.map((sentence, i) => notice(`pause-${i}`, "warn", `${sentence} What has begun is finished or undone.`)),
    board.why_not_written ? notice("standby", "plain", `Nothing is written from here: ${full(board.why_not_written)}`) : null,
    ...board.breakers.map(stopped),
    board.release ? released(board.release) : null,
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
  return notice(key, "warn", h("b", {}, "Stopped: "), full(rule.why), " ",
    h("button", { on: { click: goOn }, disabled: Boolean(state.busy[key]) }, `let ${rule.name} go on`), errorOf(key));
}

function released(release) {
  if (release.is_done) {
    return notice("release", "plain", `Everything of ours is given back (${plural(release.given_back.length, "thing")}, asked for by ${release.asked_by}).`);
  }
  const left = release.left.slice(0, LEFT_SHOWN);
  const rest = release.left.length - left.length;
  return notice("release", "warn", `Giving everything back for ${release.asked_by} since ${clock(release.asked_at, state.board.at)}: `,
    `${release.given_back.length} given back, ${release.left.length} left`,
    left.length ? `: ${left.join("; ")}` : "", rest ? ` and ${rest} more.` : ".");
}

/** The quieter facts, folded, under what to do. */
export function standingFacts(board) {
  return [
    facts("vetoes", "Opened by somebody, so left alone", board.vetoes, vetoed),
    facts("foreign", "Of other daemons, left alone", board.foreign, (sentence) => h("li", { key: sentence }, full(sentence))),
    facts("notes", "Not read in the cluster", board.notes, (sentence) => h("li", { key: sentence }, full(sentence))),
  ];
}

function facts(key, title, items, item) {
  if (!items.length) return null;
  return h("details", { key, class: key }, h("summary", {}, `${title}: ${items.length}`), h("ul", { class: "plain" }, items.map(item)));
}

function vetoed(veto) {
  const key = `veto-${veto.name}`;
  const allow = () =>
    decide(key, () => post("/api/v1/allow", { node: veto.name }), () => {
      state.board.vetoes = state.board.vetoes.filter((one) => one.name !== veto.name);
      changed();
    });
  return h("li", { key }, link(nodePath(veto.name), {}, veto.name), " ", full(veto.why), " ",
    h("button", { class: "quiet", on: { click: allow }, disabled: Boolean(state.busy[key]) }, "may be cordoned again"), errorOf(key));
}
