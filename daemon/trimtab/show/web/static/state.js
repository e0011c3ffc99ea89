// What the page knows and what the person has open; one value, read by every part.

export const state = {
  board: null,
  receivedMs: 0, // performance.now() when the board with this `at` came
  trouble: null, // { sentence, status } while the line is down
  path: { view: "start" },
  size: 8, // k of "stranded for k"
  hasChosenSize: false,
  hoverJob: null,
  trail: [], // the strip's numbers since opening, for the sparklines
  forms: {}, // command id -> which form is open
  errors: {}, // command id or "pause" -> the API's sentence
  busy: {}, // the same keys, while a decision is on its way
  fetched: { commands: {}, findings: {}, missing: {} },
  lookups: null,
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

export function takeBoard(board) {
  const isNew = !state.board || state.board.at !== board.at;
  state.board = board;
  state.trouble = null;
  state.lookups = lookups(board);
  if (isNew) {
    state.receivedMs = performance.now();
    state.trail.push({ at: board.at, strip: board.strip });
    if (state.trail.length > TRAIL_MAX) state.trail.shift();
  }
  if (!state.hasChosenSize) {
    const waiting = board.jobs.find((job) => job.state === "waiting" && [1, 2, 4, 8].includes(job.gpus_per_pod));
    state.size = waiting ? waiting.gpus_per_pod : 8;
  }
  changed();
}

function lookups(board) {
  const nodes = new Map(board.nodes.map((node) => [node.name, node]));
  const jobs = new Map(board.jobs.map((job) => [job.id, job]));
  const findings = new Map(board.findings.map((item) => [item.id, item]));
  const commands = new Map(board.commands.map((row) => [row.command.id, row]));
  const gpus = new Map();
  for (const node of board.nodes) for (const cell of node.cells) gpus.set(`${node.name}/${cell.uuid}`, { node, cell });
  const waiting = board.jobs.filter((job) => job.state === "waiting").map((job) => job.id);
  return { nodes, jobs, findings, commands, gpus, waiting };
}

export function jobName(id) {
  return state.lookups?.jobs.get(id)?.name || String(id).split("/").pop();
}

/** The `GPU 3` of a UUID on a node, else its UUID. */
export function gpuName(node, uuid) {
  const found = state.lookups?.gpus.get(`${node}/${uuid}`)?.cell;
  return found && found.index !== null ? `GPU ${found.index}` : uuid;
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
  if (state.board) {
    state.board.commands = state.board.commands.map((old) => (old.command.id === row.command.id ? row : old));
    state.lookups = lookups(state.board);
  }
  changed();
}

/** Whether something is still to happen to a command. */
export function isLive(command) {
  const isBegunOrOpen = ["proposed", "approved", "held", "confirmed", "submitted"].includes(command.state);
  return isBegunOrOpen || (["settled", "missed"].includes(command.state) && command.undo_requested_by !== null);
}

const SEEN_KEY = "trimtab.seen";

function readSeen() {
  try {
    return new Set(JSON.parse(localStorage.getItem(SEEN_KEY) || "[]"));
  } catch {
    return new Set();
  }
}

const seen = readSeen();

function seenKey(item) {
  return `${state.board?.cluster}:${item.id}:${item.opened_at}`;
}

export function isSeen(item) {
  return seen.has(seenKey(item));
}

export function markSeen(items) {
  const before = seen.size;
  for (const item of items) seen.add(seenKey(item));
  if (seen.size === before) return;
  try {
    localStorage.setItem(SEEN_KEY, JSON.stringify([...seen].slice(-2000)));
  } catch {
    // Storage may be off; then "new" is remembered for this page alone.
  }
  changed();
}
