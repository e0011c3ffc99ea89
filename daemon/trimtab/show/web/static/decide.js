// Decisions: approve, reject, later, undo, pause. A no from the API stands where the button is.

import { h } from "./dom.js";
import { get, post } from "./live.js";
import { t } from "./say.js";
import { changed, isLive, mayAct, state, takeRow } from "./state.js";
import { age } from "./words.js";

/** Kept with the rule's record as they are said, so in the words of the log: English. */
const REJECT_REASONS = {
  deadline: "not now: the job has a deadline",
  owner: "its owner says no",
  wrong: "the finding is wrong",
  cost: "it costs too much",
  hand: "I do it by hand",
};
const LATER = [900, 3600, 14400, 86400];

export async function decide(key, send, after) {
  state.busy[key] = true;
  delete state.errors[key];
  changed();
  try {
    after(await send());
    delete state.forms[key];
  } catch (error) {
    state.errors[key] = error.message;
    if (typeof key === "number" && error.status === 409) refreshRow(key);
  }
  delete state.busy[key];
  changed();
}

async function refreshRow(id) {
  try {
    takeRow(await get(`/api/v1/recommendations/${id}`));
  } catch {
    // The sentence of the refusal stands; the next board brings the row.
  }
}

function act(row, verb, body) {
  const id = row.command.id;
  return decide(id, () => post(`/api/v1/recommendations/${id}/${verb}`, body), takeRow);
}

export function approveButton(row) {
  if (!row.is_approvable || !mayAct()) return null;
  const { id } = row.command;
  const on = { click: () => act(row, "approve", { fingerprint: row.fingerprint }) };
  return h("button", { class: "primary", on, disabled: Boolean(state.busy[id]), "aria-label": t("approve-label", { name: row.name }) },
    t(state.busy[id] ? "sending" : "approve"));
}

export function errorOf(key) {
  return state.errors[key] ? h("p", { class: "error", role: "alert" }, state.errors[key]) : null;
}

/** All that may be decided about a command now, with the form that is open. */
export function decisions(row) {
  if (!mayAct()) return null;
  const { command } = row;
  const form = state.forms[command.id];
  return h("div", { class: "decisions" },
    h("div", { class: "buttons" },
      approveButton(row),
      ["proposed", "approved"].includes(command.state) ? opener(command.id, "reject", t("reject-open")) : null,
      command.state === "proposed" ? opener(command.id, "later", t("later-open")) : null,
      mayUndo(command) ? opener(command.id, "undo", t(command.state === "approved" ? "take-back-open" : "undo-open")) : null),
    errorOf(command.id),
    form ? FORMS[form](row) : null);
}

function mayUndo(command) {
  if (command.undo_requested_by) return false;
  if (["approved", "held", "confirmed", "submitted"].includes(command.state)) return true;
  const leaves = command.recommendation.writes.some((write) => write.lasts && write.node) && !command.given_back_at;
  return leaves && (command.state === "settled" || (command.state === "missed" && Boolean(command.submitted_at)));
}

function opener(id, form, label) {
  const on = {
    click() {
      state.forms[id] = state.forms[id] === form ? null : form;
      changed();
    },
  };
  return h("button", { on, key: form, "aria-expanded": String(state.forms[id] === form) }, label);
}

function shell(key, title, take, button, ...fields) {
  const on = {
    submit(event) {
      event.preventDefault();
      take(new FormData(event.target));
    },
    keydown(event) {
      if (event.key === "Escape") cancel(key);
    },
  };
  return h("form", { class: "form", on, key: `form-${title}` },
    ...fields,
    h("div", { class: "buttons" },
      h("button", { class: "primary", type: "submit", disabled: Boolean(state.busy[key]) }, button),
      h("button", { type: "button", on: { click: () => cancel(key) } }, t("cancel"))));
}

function cancel(key) {
  delete state.forms[key];
  delete state.errors[key];
  changed();
}

const FORMS = {
  reject(row) {
    const take = (data) => act(row, "reject", { reason: data.get("words").trim() || data.get("reason") });
    return shell(row.command.id, "reject", take, t("reject-name", { name: row.name }),
      h("label", {}, t("reject-why"), h("select", { name: "reason" }, Object.entries(REJECT_REASONS).map(([key, text]) => h("option", { value: text }, t(`reject-${key}`))))),
      h("label", {}, t("reject-words"), h("input", { name: "words", maxlength: "500", autocomplete: "off" })));
  },
  later(row) {
    const take = (data) => act(row, "snooze", { seconds: Number(data.get("seconds")) });
    return shell(row.command.id, "later", take, t("later-button"),
      h("label", {}, t("later-in"), h("select", { name: "seconds" }, LATER.map((s) => h("option", { value: s }, age(s))))));
  },
  undo(row) {
    const take = (data) => act(row, "undo", { reason: data.get("words").trim() });
    return shell(row.command.id, "undo", take, t("undo-name", { name: row.name }),
      h("label", {}, t("why-asked"), h("input", { name: "words", maxlength: "500", required: true, autocomplete: "off" })));
  },
};

function setPaused(said) {
  if (!state.board) return;
  state.board.is_paused = said.is_paused;
  state.board.pauses = said.sentence ? [said.sentence] : [];
}

/** Pause asks for its reason; resume does not. */
export function pauseControl() {
  if (!mayAct()) return null;
  if (state.board.is_paused) {
    const resume = () => decide("pause", () => post("/api/v1/resume", {}), setPaused);
    return [h("button", { key: "resume", on: { click: resume }, disabled: Boolean(state.busy.pause) }, t("resume")), errorOf("pause")];
  }
  const take = (data) =>
    decide("pause", () => post("/api/v1/pause", { reason: data.get("words").trim() }), setPaused);
  const form = state.forms.pause
    ? h("div", { class: "popover", key: "form" },
        shell("pause", "pause", take, t("pause"),
          h("label", {}, t("pause-why"), h("input", { name: "words", maxlength: "500", required: true, autocomplete: "off" }))),
        errorOf("pause"))
    : null;
  return [opener("pause", "pause", t("pause")), form];
}

/** Where a command stands, in a few words. */
export function standing(row, clockText) {
  const { command } = row;
  const { recommendation } = command;
  const { at } = state.board;
  if (command.undo_requested_by && isLive(command)) return t("standing-undoing", { who: command.undo_requested_by });
  if (command.state === "proposed") {
    if (command.snoozed_until && Date.parse(command.snoozed_until) > Date.parse(at)) return t("standing-snoozed", { at: clockText(command.snoozed_until) });
    return t("standing-expires", { at: clockText(recommendation.expires_at) });
  }
  if (command.state === "approved") {
    const waits = recommendation.not_before && Date.parse(recommendation.not_before) > Date.parse(at);
    return t(waits ? "standing-approved-waits" : "standing-approved", { who: command.approved_by, at: waits ? clockText(recommendation.not_before) : "" });
  }
  return t(`standing-${command.state}`);
}
