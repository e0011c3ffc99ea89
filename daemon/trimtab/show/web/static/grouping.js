// Which GPUs stand together in the fleet picture: blocks of rows, a row the cells of one node.

import { STATE } from "./fleetdata.js";
import { locale, t } from "./say.js";
import { state } from "./state.js";

export const GROUPS = ["rack", "queue", "job", "model", "none"];
export const ORDERS = ["name", "free"];

let kept = { key: "", fleet: null, at: "", blocks: [] };

/** Blocks `{ title, rows: [{ node, cells }], cells, working }`; a cell is its place in the fleet's columns. */
export function blocksOf(fleet, group, order) {
  const key = `${group}/${order}/${locale}`;
  const isOfShape = order === "name" && ["rack", "model", "none"].includes(group);
  const isSame = kept.key === key && kept.fleet === fleet && (isOfShape || kept.at === fleet.at);
  if (!isSame) kept = { key, fleet, at: fleet.at, blocks: make(fleet, group, order) };
  for (const block of kept.blocks) {
    block.working = countWorking(fleet, block);
    block.isBlind = block.rows.length > 1 && block.rows.every((row) => fleet.isSilent(row.node));
  }
  return kept.blocks;
}

function countWorking(fleet, block) {
  const { state: states } = fleet.columns;
  let working = 0;
  for (const row of block.rows) for (const cell of row.cells) working += states[cell] === STATE.working;
  return working;
}

function make(fleet, group, order) {
  const blocks = group === "job" || group === "queue" ? byHolder(fleet, group) : byNode(fleet, group);
  if (order === "free") for (const block of blocks) freeFirst(fleet, block);
  for (const block of blocks) block.cells = block.rows.reduce((sum, row) => sum + row.cells.length, 0);
  return blocks;
}

const barely = (rack) => rack.replace(/^rack[-_ ]?/i, "");

function byNode(fleet, group) {
  const found = new Map();
  fleet.names.forEach((_, node) => {
    const name = group === "rack" ? fleet.racks[node] || "" : group === "model" ? fleet.models[node] || "" : "";
    if (!found.has(name)) found.set(name, { name, title: title(group, name), rows: [] });
    const cells = [];
    for (let cell = fleet.first[node]; cell < fleet.first[node + 1]; cell += 1) cells.push(cell);
    found.get(name).rows.push(new Row(fleet, node, cells));
  });
  return [...found.values()];
}

function title(group, name) {
  if (group === "rack") return name ? t("group-rack", { name: barely(name) }) : "";
  if (group === "model") return name || t("group-model-unknown");
  return "";
}

/** By who holds the cells; what nobody holds stands at the end. */
function byHolder(fleet, group) {
  const found = new Map();
  const { state: states } = fleet.columns;
  const rows = new Map();
  for (let cell = 0; cell < fleet.size; cell += 1) {
    const job = states[cell] === STATE.stranded ? null : fleet.jobOf(cell);
    const name = job ? (group === "job" ? job.id : job.queue || "") : null;
    if (!found.has(name)) found.set(name, { name, title: holderTitle(group, job), rows: [] });
    const block = found.get(name);
    const node = fleet.owner[cell];
    const row = rows.get(block);
    if (row?.node === node) row.cells.push(cell);
    else {
      const fresh = new Row(fleet, node, [cell]);
      block.rows.push(fresh);
      rows.set(block, fresh);
    }
  }
  const size = (block) => block.rows.reduce((sum, row) => sum + row.cells.length, 0);
  return [...found.values()].sort((a, b) => (a.name === null) - (b.name === null) || size(b) - size(a));
}

function holderTitle(group, job) {
  if (!job) return t("group-nobody");
  return group === "job" ? job.name : job.queue || t("group-no-queue");
}

/** Nodes with most free GPUs first, free cells together: what is scattered shows as a ragged edge. */
function freeFirst(fleet, block) {
  const { state: states } = fleet.columns;
  const isFree = (cell) => states[cell] === STATE.free || states[cell] === STATE.stranded;
  const free = new Map(block.rows.map((row) => [row, row.cells.filter(isFree).length]));
  block.rows.sort((a, b) => free.get(b) - free.get(a) || a.node - b.node);
  for (const row of block.rows) row.cells.sort((a, b) => isFree(b) - isFree(a) || a - b);
}

/** One node's cells in one block. */
class Row {
  constructor(fleet, node, cells) {
    this.fleet = fleet;
    this.node = node;
    this.cells = cells;
    this.sliced = null;
  }

  get label() {
    return this.fleet.names[this.node];
  }

  /** The cells by the GPU that they are part of: more than one where MIG splits it. */
  get slots() {
    if (this.sliced) return this.sliced;
    const made = [];
    let last = -1;
    for (const cell of this.cells) {
      if (this.fleet.gpuOf[cell] === last) made.at(-1).push(cell);
      else made.push([cell]);
      last = this.fleet.gpuOf[cell];
    }
    this.sliced = made;
    return made;
  }

  get wide() {
    return this.fleet.isSplit ? this.slots.length : this.cells.length;
  }
}

/** Cells that are lit: of the job under the pointer or opened, else of what the open view is about; null = none. */
export function litCells() {
  const { fleet, lookups, path } = state;
  const job = lookups.jobs.get(state.hoverJob || (path.view === "job" ? path.id : null));
  if (job) return job.cells;
  const nodes = concernedNodes();
  if (nodes) return nodes.flatMap((name) => cellsOf(fleet, name));
  const subject = path.view === "finding" ? lookups.findings.get(path.id)?.finding : null;
  if (!subject) return null;
  const hit = subject.workloads_hit.flatMap((id) => lookups.jobs.get(id)?.cells || []);
  const found = [...(subject.subject.node ? cellsOf(fleet, subject.subject.node) : []), ...hit];
  return found.length ? found : null;
}

function cellsOf(fleet, name) {
  const node = fleet.place.get(name);
  if (node === undefined) return [];
  return Array.from({ length: fleet.first[node + 1] - fleet.first[node] }, (_, i) => fleet.first[node] + i);
}

function concernedNodes() {
  const { path, lookups } = state;
  if (path.view === "node") return [path.name];
  if (path.view === "queue") return null;
  const row = path.view === "command" ? lookups.commands.get(path.id) : null;
  if (!row) return null;
  const { moves, writes } = row.command.recommendation;
  const named = [...moves.flatMap((m) => [...m.before, ...m.after]), ...writes].map((one) => one.node).filter(Boolean);
  return named.length ? [...new Set(named)] : null;
}
