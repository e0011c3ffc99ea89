// The head (cluster, beat, mode, pause, language, person) and the notices under it.

import { notice, standingNotices } from "./around.js";
import { pauseControl } from "./decide.js";
import { h, render } from "./dom.js";
import { LOCALES, locale, speak, t } from "./say.js";
import { leave } from "./scrubber.js";
import { state } from "./state.js";
import { age, clock, dayClock } from "./words.js";

const WORRY_SECONDS = 30;

const byId = (id) => document.getElementById(id);

export function renderHead() {
  const { board } = state;
  document.title = board ? `${openCount(board)}${board.cluster} · trimtab` : "trimtab";
  render(byId("cluster"), board?.cluster || "");
  const mode = byId("mode");
  mode.hidden = !board;
  if (board) {
    mode.title = t(`mode-${board.mode}-means`);
    render(mode, h("span", { class: "dim" }, t("mode"), " "), t(`mode-${board.mode}`));
  }
  render(byId("pause"), board ? pauseControl() : null);
  render(byId("language"), languages());
  byId("language").setAttribute("aria-label", t("language"));
  render(byId("person"), ...person());
  document.body.classList.toggle("is-past", Boolean(state.past?.board || state.past?.error));
  document.body.classList.toggle("is-blank", Boolean(state.past?.isBlank && !state.past.board));
  tickBeat();
}

/** The page's own words that stand in its frame. */
export function renderFrame() {
  byId("skip").textContent = t("skip-to-todo");
  byId("strip").setAttribute("aria-label", t("strip-label"));
  byId("scrubber").setAttribute("aria-label", t("scrubber-label"));
}

function languages() {
  return Object.entries(LOCALES).map(([name, text]) =>
    h("button", { key: name, class: "quiet", lang: name, "aria-pressed": String(name === locale), on: { click: () => speak(name) } }, text));
}

function person() {
  const { me, trouble } = state;
  if (trouble?.status === 401) return [t("person-signed-out")];
  if (!me) return [];
  const leaveNow = async () => (await import("./signin.js")).signOut();
  return [
    h("span", { key: "name" }, me.name === me.role ? "" : `${me.name} `, h("span", { class: "role" }, t(`role-${me.role}`))),
    me.session_id === null || me.session_id === undefined ? null : h("button", { key: "out", class: "quiet", title: me.name, on: { click: leaveNow } }, t("sign-in-out")),
  ];
}

function openCount(board) {
  const open = board.findings.filter((item) => item.state === "open" && item.finding.severity !== "info").length;
  return open ? `(${open}) ` : "";
}

/** That its times are not those of the wall. */
function simulatedMark(board) {
  if (!board.clock_speed) return null;
  const speed = String(Math.round(board.clock_speed * 10) / 10);
  return h("span", { class: "simulated", title: t("clock-simulated-means", { at: dayClock(board.at), speed }) }, " · ", t("clock-simulated", { speed }));
}

/** The age of the beat, each second; and what to say when nothing comes. */
export function tickBeat() {
  const beat = byId("beat");
  const seconds = state.live ? (performance.now() - state.receivedMs) / 1000 : 0;
  if (state.past?.board) render(beat, h("b", {}, t("beat-past", { at: dayClock(state.board.at) })));
  else if (state.past?.error) render(beat);
  else if (state.live) render(beat, t("beat-age", { age: age(seconds) }), simulatedMark(state.live.board));
  beat.classList.toggle("late", seconds > WORRY_SECONDS);
  render(byId("notices"), ...notices(seconds));
}

function notices(seconds) {
  const { board, live, trouble, past } = state;
  const made = [];
  if (!board && !trouble) made.push(notice("line", "plain", t("line-first-board")));
  if (trouble?.status === 401) made.push(notice("line", "bad", t("line-signed-out"), " ", h("code", {}, "trimtab link")));
  else if (trouble && !live) made.push(notice("line", trouble.status === 503 ? "plain" : "bad", trouble.sentence));
  else if (live && (trouble || seconds > WORRY_SECONDS)) {
    made.push(notice("line", "bad", t("line-silent", { age: age(seconds), at: clock(live.board.at) })));
  }
  if (past) made.push(pastNotice(past));
  return board && !past ? [...made, ...standingNotices(board)] : made;
}

function pastNotice(past) {
  const back = h("button", { on: { click: leave }, class: "primary" }, t("past-back"));
  if (past.error) return notice("past", "warn", past.error, " ", back);
  const at = dayClock(past.board ? state.board.at : past.at);
  if (!past.board) return notice("past", "plain", t("past-asking", { at }), " ", back);
  const span = state.board.bucket_seconds ? ` ${t("past-means", { span: age(state.board.bucket_seconds) })}` : "";
  return notice("past", "past", h("b", {}, t("past-shown", { at })), span, " ", back);
}
