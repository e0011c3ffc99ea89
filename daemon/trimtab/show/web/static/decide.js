// Decisions: approve, reject, later, undo, pause. A no from the API stands where the button is.

import { h } from "./dom.js";
import { get, post } from "./live.js";
import { changed, isLive, state, takeRow } from "./state.js";

const REJECT_REASONS = ["not now: the job has a deadline", "its owner says no", "the finding is wrong", "it costs too much", "I do it by hand"];
const LATER = [[900, "15 min"], [3600, "1 h"], [14400, "4 h"], [86400, "24 h"]];

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
  if (!row.is_approvable) return null;
  const { id } = row.command;
  const on = { click: () => act(row, "approve", { fingerprint: row.fingerprint }) };
  return h("button", { class: "primary", on, disabled: Boolean(state.busy[id]), "aria-label": `approve ${row.name}` },
    state.busy[id] ? "sending…" : "approve");
}

export function errorOf(key) {
  return state.errors[key] ? h("p", { class: "error", role: "alert" }, state.errors[key]) : null;
}

/** All that may be decided about a command now, with the form that is open. */
export function decisions(row) {
  const { command } = row;
  const form = state.forms[command.id];
  return h("div", { class: "decisions" },
    h("div", { class: "buttons" },
      approveButton(row),
      ["proposed", "approved"].includes(command.state) ? opener(command.id, "reject", "reject…") : null,
      command.state === "proposed" ? opener(command.id, "later", "later…") : null,
      mayUndo(command) ? opener(command.id, "undo", command.state === "approved" ? "take back…" : "undo…") : null),
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
      h("button", { type: "button", on: { click: () => cancel(key) } }, "cancel")));
}

function cancel(key) {
  delete state.forms[key];
  delete state.errors[key];
  changed();
}

const FORMS = {
  reject(row) {
    const take = (data) => act(row, "reject", { reason: data.get("words").trim() || data.get("reason") });
    return shell(row.command.id, "reject", take, `reject ${row.name}`,
      h("label", {}, "Why not?", h("select", { name: "reason" }, REJECT_REASONS.map((text) => h("option", {}, text)))),
      h("label", {}, "or in your words", h("input", { name: "words", maxlength: "500", autocomplete: "off" })));
  },
  later(row) {
    const take = (data) => act(row, "snooze", { seconds: Number(data.get("seconds")) });
    return shell(row.command.id, "later", take, "ask again then",
      h("label", {}, "Ask again in", h("select", { name: "seconds" }, LATER.map(([s, text]) => h("option", { value: s }, text)))));
  },
  undo(row) {
    const take = (data) => act(row, "undo", { reason: data.get("words").trim() });
    return shell(row.command.id, "undo", take, `undo ${row.name}`,
      h("label", {}, "Why?", h("input", { name: "words", maxlength: "500", required: true, autocomplete: "off" })));
  },
};

function setPaused(said) {
  if (!state.board) return;
  state.board.is_paused = said.is_paused;
  state.board.pauses = said.sentence ? [said.sentence] : [];
}

/** Pause asks for its reason; resume does not. */
export function pauseControl() {
  if (state.board.is_paused) {
    const resume = () => decide("pause", () => post("/api/v1/resume", {}), setPaused);
    return [h("button", { key: "resume", on: { click: resume }, disabled: Boolean(state.busy.pause) }, "resume"), errorOf("pause")];
  }
  const take = (data) =>
    decide("pause", () => post("/api/v1/pause", { reason: data.get("words").trim() }), setPaused);
  const form = state.forms.pause
    ? h("div", { class: "popover", key: "form" },
        shell("pause", "pause", take, "pause",
          h("label", {}, "Start nothing new. Why?", h("input", { name: "words", maxlength: "500", required: true, autocomplete: "off" }))),
        errorOf("pause"))
    : null;
  return [opener("pause", "pause", "pause"), form];
}

const STATE_WORDS = {
  proposed: "proposed",
  approved: "approved",
  held: "held: room is kept, nothing moved yet",
  confirmed: "confirmed: still right, moving next",
  submitted: "moving",
  settled: "settled",
  rejected: "rejected",
  refused: "refused",
  expired: "expired",
  abandoned: "abandoned and given back",
  missed: "missed: its seats were taken",
  undone: "undone",
};

/** Where a command stands, in a few words. */
export function standing(row, clockText) {
  const { command } = row;
  const { recommendation } = command;
  const { at } = state.board;
  if (command.undo_requested_by && isLive(command)) return `being undone for ${command.undo_requested_by}`;
  if (command.state === "proposed") {
    if (command.snoozed_until && Date.parse(command.snoozed_until) > Date.parse(at)) return `asked again at ${clockText(command.snoozed_until)}`;
    return `expires ${clockText(recommendation.expires_at)}`;
  }
  if (command.state === "approved") {
    const waits = recommendation.not_before && Date.parse(recommendation.not_before) > Date.parse(at);
    return `approved by ${command.approved_by}${waits ? `, waits until ${clockText(recommendation.not_before)}` : ""}`;
  }
  return STATE_WORDS[command.state];
}
