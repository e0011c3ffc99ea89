// What the page knows and what the person has open; one value, read by every part.

import { Fleet, fleetOfRows } from "./fleetdata.js";

export const state = {
  board: null, // what is shown: the last board, or one of the past
  fleet: null,
  lookups: null,
  live: null, // { board, fleet }: the last one, also while the past is shown
  past: null, // { at, isAsking, error, isBlank, board, fleet } while a moment of the past is looked at
  receivedMs: 0, // performance.now() when the board with this `at` came
  trouble: null, // { sentence, status } while the line is down
  me: null, // { name, role, … } once the daemon has said who is signed in (signin.js asks)
  path: { view: "start" },
  size: 8, // k of "stranded for k"
  hasChosenSize: false,
  hoverJob: null,
  trail: [], // the strip's numbers since opening, until the day's have come
  trends: null,
  incidents: null,
  targets: null, // on-call targets and how they do
  forms: {}, // command id -> which form is open
  errors: {}, // command id or "pause" -> the API's sentence
  busy: {}, // the same keys, while a decision is on its way
  fetched: { commands: {}, findings: {}, missing: {} },
};

const listeners = [];

export function onChange(listener) {
  listeners.push(listener);
}

let isPlanned = false;

/** Render soon, once however often it is asked. */
export function changed() {
  if (isPlanned) return;
  isPlanned = true;
  requestAnimationFrame(() => {
    isPlanned = false;
    for (const listener of listeners) listener();
  });
}

const TRAIL_MAX = 720;
let sequence = 0;
let jobsById = new Map();
let told = {}; // the board's fields beside nodes and jobs, as last told

/** The whole board as columns. */
export function takeFrame(frame) {
  const fleet = new Fleet(frame.shape, frame.columns);
  sequence = frame.sequence;
  told = frame.board;
  jobsById = new Map(frame.jobs.set.map((job) => [job.id, job]));
  settle(fleet, frame.jobs.order);
}

/** What changed since the board that we have; false where it is of another one, so that the whole is asked for. */
export function takeChange(change) {
  if (!state.live || change.base !== sequence) return false;
  const { fleet } = state.live;
  sequence = change.sequence;
  told = { ...told, ...change.board };
  fleet.change(change.columns);
  for (const job of change.jobs.set) jobsById.set(job.id, job);
  settle(fleet, change.jobs.order || fleet.jobs.map((job) => job.id));
  return true;
}

export function takeUuids(uuids) {
  if (!state.live) return;
  state.live.fleet.uuids = uuids;
  state.live.fleet.made.clear();
  changed();
}

function settle(fleet, order) {
  const jobs = order.map((id) => jobsById.get(id));
  jobsById = new Map(jobs.map((job) => [job.id, job]));
  fleet.jobs = jobs;
  fleet.at = told.at;
  const { node_findings: nodes, cell_findings: cells, cordoned_by: cordoners, ...fields } = told;
  fleet.marks(cells, nodes, cordoners);
  takeLive({ board: { ...fields, jobs }, fleet });
}

function takeLive(live) {
  const isNew = state.live?.board.at !== live.board.at;
  state.live = live;
  state.trouble = null;
  if (isNew) {
    state.receivedMs = performance.now();
    state.trail.push({ at: live.board.at, strip: live.board.strip });
    if (state.trail.length > TRAIL_MAX) state.trail.shift();
  }
  if (!state.past?.board) show(live);
  else changed();
}

function show({ board, fleet }) {
  state.board = board;
  state.fleet = fleet;
  state.lookups = lookups(board, fleet);
  if (!state.hasChosenSize) {
    const waiting = board.jobs.find((job) => job.state === "waiting" && [1, 2, 4, 8].includes(job.gpus_per_pod));
    state.size = waiting ? waiting.gpus_per_pod : 8;
  }
  changed();
}

/** Show a moment of the past: its board as rows. */
export function takePast(at, board) {
  const fleet = fleetOfRows(board);
  state.past = { at, isAsking: false, error: null, board: { ...board, jobs: fleet.jobs }, fleet };
  show(state.past);
}

export function leavePast() {
  state.past = null;
  if (state.live) show(state.live);
  else changed();
}

/** Whether anything may be decided here: now is shown, and the person's role allows it. */
export function mayAct() {
  return !state.past && (state.me?.role === "operator" || state.me?.role === "admin");
}

document.addEventListener("trimtab:me", (event) => {
  state.me = event.detail;
  changed();
});

function lookups(board, fleet) {
  return {
    nodes: { get: (name) => fleet.node(name), has: (name) => fleet.place.has(name) },
    jobs: new Map(board.jobs.map((job) => [job.id, job])),
    findings: new Map(board.findings.map((item) => [item.id, item])),
    commands: new Map(board.commands.map((row) => [row.command.id, row])),
    waiting: board.jobs.filter((job) => job.state === "waiting").map((job) => job.id),
  };
}

export function jobName(id) {
  return state.lookups?.jobs.get(id)?.name || String(id).split("/").pop();
}

/** The names of a job's nodes, in the order of its ranks. */
export function nodesOf(job) {
  const { fleet } = state;
  return [...new Set(job.cells.map((cell) => fleet.owner[cell]))].map((node) => fleet.names[node]);
}

export function racksOf(job) {
  const { fleet } = state;
  return new Set(job.cells.map((cell) => fleet.racks[fleet.owner[cell]] || ""));
}

/** The `GPU 3` of a UUID on a node, else its UUID. */
export function gpuName(node, uuid) {
  const place = state.fleet ? state.fleet.find(node, uuid) : -1;
  const index = place < 0 ? -1 : state.fleet.indices[place];
  return index < 0 ? uuid : `GPU ${index}`;
}

/** A command as the board has it, else as it was fetched. */
export function commandRow(id) {
  return state.lookups?.commands.get(id) || state.fetched.commands[id] || null;
}

export function finding(id) {
  return state.lookups?.findings.get(id) || state.fetched.findings[id] || null;
}

/** A row that came back from a decision stands at once; the next board confirms it. */
export function takeRow(row) {
  state.fetched.commands[row.command.id] = row;
  if (state.live) {
    const { board, fleet } = state.live;
    board.commands = board.commands.map((old) => (old.command.id === row.command.id ? row : old));
    if (!state.past?.board) state.lookups = lookups(board, fleet);
  }
  changed();
}

/** Whether something is still to happen to a command. */
export function isLive(command) {
  const isBegunOrOpen = ["proposed", "approved", "held", "confirmed", "submitted"].includes(command.state);
  return isBegunOrOpen || (["settled", "missed"].includes(command.state) && command.undo_requested_by !== null);
}
