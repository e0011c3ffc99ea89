// The fleet in columns: one number a GPU and measure, as the stream tells it. Nodes and cells are made when asked for.

const CORDONED = 1;
const READY = 2;
const SILENT = 4;
const SPARE = 8;
export const STATES = ["working", "held_idle", "free", "stranded", "spare", "lost", "unusable", "silent", "unknown"];
export const STATE = Object.fromEntries(STATES.map((name, place) => [name, place]));

/** A cell's field, its column on the wire, and what one of the column's steps is worth. */
const FIELDS = {
  activity_ratio: ["activity_permille", 0.001],
  temperature_celsius: ["temperature_celsius", 1],
  power_watts: ["power_watts", 1],
  memory_used_ratio: ["memory_permille", 0.001],
  sm_clock_hertz: ["sm_clock_megahertz", 1e6],
};

export class Fleet {
  constructor(shape, columns) {
    this.names = shape.nodes;
    this.racks = shape.racks;
    this.models = shape.models;
    this.indices = shape.indices;
    this.columns = Object.fromEntries(Object.entries(columns).map(([name, numbers]) => [name, new Int32Array(numbers)]));
    this.first = new Uint32Array(shape.counts.length + 1);
    shape.counts.forEach((count, place) => (this.first[place + 1] = this.first[place] + count));
    this.size = this.first.at(-1);
    this.owner = new Uint32Array(this.size);
    for (let node = 0; node < this.names.length; node += 1) this.owner.fill(node, this.first[node], this.first[node + 1]);
    this.place = new Map(this.names.map((name, place) => [name, place]));
    this.gpuOf = slots(shape, this.first, this.size);
    this.isSplit = shape.parts.length > 0;
    this.uuids = null;
    this.at = null;
    this.jobs = [];
    this.marks([], [], []);
  }

  /** What the board says beside the columns; called at each board. */
  marks(cells, nodes, cordoners) {
    this.cellFindings = new Map(cells);
    this.nodeFindings = new Map(nodes);
    this.cordonedBy = new Map(cordoners);
    this.made = new Map();
    this.counted = null;
  }

  /** Put a change in: `{"all": values}` or `{"steps": …, "to": …}` a column. */
  change(columns) {
    for (const [name, said] of Object.entries(columns)) {
      if (said.all) this.columns[name] = new Int32Array(said.all);
      else {
        const column = this.columns[name];
        let place = 0;
        for (let i = 0; i < said.to.length; i += 1) {
          place += said.steps[i];
          column[place] = said.to[i];
        }
      }
    }
  }

  jobOf(cell) {
    const job = this.columns.job[cell];
    return job < 0 ? null : this.jobs[job];
  }

  stateOf(cell) {
    return STATES[this.columns.state[cell]];
  }

  flag(node, bit) {
    return (this.columns.flags[node] & bit) !== 0;
  }

  isCordoned(node) {
    return this.flag(node, CORDONED);
  }

  isSilent(node) {
    return this.flag(node, SILENT);
  }

  uuid(cell) {
    return this.uuids ? this.uuids[cell] : "";
  }

  /** Reads a field of many cells: `(cell) =>` its value in its base unit, null where it is not known. */
  reader(field) {
    const [column, factor] = FIELDS[field];
    const numbers = this.columns[column];
    return (cell) => (numbers[cell] < 0 ? null : numbers[cell] * factor);
  }

  value(cell, field) {
    return this.reader(field)(cell);
  }

  /** One GPU as the API's rows have it. */
  cell(place) {
    const index = this.indices[place];
    const made = {
      place,
      uuid: this.uuid(place),
      index: index < 0 ? null : index,
      state: this.stateOf(place),
      workload: this.jobOf(place)?.id ?? null,
      findings: this.cellFindings.get(place) || [],
    };
    for (const field of Object.keys(FIELDS)) made[field] = this.value(place, field);
    return made;
  }

  cellsOf(node) {
    const made = [];
    for (let cell = this.first[node]; cell < this.first[node + 1]; cell += 1) made.push(this.cell(cell));
    return made;
  }

  /** One node with its cells, or null. */
  node(name) {
    const place = this.place.get(name);
    return place === undefined ? null : this.nodeAt(place);
  }

  nodeAt(place) {
    if (!this.made.has(place)) this.made.set(place, this.makeNode(place));
    return this.made.get(place);
  }

  makeNode(place) {
    const age = this.columns.report_age_seconds[place];
    return {
      place,
      name: this.names[place],
      rack: this.racks[place],
      model: this.models[place],
      cells: this.cellsOf(place),
      is_cordoned: this.isCordoned(place),
      cordoned_by: this.cordonedBy.get(place) || null,
      is_ready: this.flag(place, READY),
      is_silent: this.isSilent(place),
      is_spare: this.flag(place, SPARE),
      last_report_at: age < 0 ? null : new Date(Date.parse(this.at) - age * 1000).toISOString(),
      findings: this.nodeFindings.get(place) || [],
    };
  }

  /** The place of a GPU by its node and UUID; -1 where it is not known. */
  find(node, uuid) {
    const place = this.place.get(node);
    if (place === undefined || !this.uuids) return -1;
    for (let cell = this.first[place]; cell < this.first[place + 1]; cell += 1) if (this.uuids[cell] === uuid) return cell;
    return -1;
  }

  /** What the strip needs beside its numbers: who holds idle GPUs, nodes with GPUs out of service, who is stranded. */
  get counts() {
    if (this.counted) return this.counted;
    const { state, job } = this.columns;
    const found = { states: new Uint32Array(STATES.length), idleJobs: new Set(), outNodes: new Set(), strandedFor: new Set() };
    for (let cell = 0; cell < this.size; cell += 1) {
      const now = state[cell];
      found.states[now] += 1;
      if (now === STATE.held_idle) found.idleJobs.add(job[cell]);
      else if (now === STATE.lost || now === STATE.unusable) found.outNodes.add(this.owner[cell]);
      else if (now === STATE.stranded) found.strandedFor.add(job[cell]);
    }
    found.hasCordon = this.columns.flags.some((bits) => bits & CORDONED);
    this.counted = found;
    return found;
  }
}

/** Cell → which GPU of all it is part of: where MIG splits one, several cells share it. */
function slots({ counts, parts }, first, size) {
  const split = new Map(parts);
  const found = new Uint32Array(size);
  if (!parts.length) {
    for (let cell = 0; cell < size; cell += 1) found[cell] = cell;
    return found;
  }
  let gpu = 0;
  counts.forEach((count, node) => {
    let cell = first[node];
    for (const members of split.get(node) || Array(count).fill(1)) {
      found.fill(gpu, cell, cell + members);
      cell += members;
      gpu += 1;
    }
  });
  return found;
}

/** The same from a board's rows: of a past board, and where the stream cannot be had. */
export function fleetOfRows(board) {
  const { nodes, jobs } = board;
  const cells = nodes.flatMap((node) => node.cells);
  const place = new Map(jobs.map((job, i) => [job.id, i]));
  const whole = (value, factor) => (value === null || value === undefined ? -1 : Math.round(value / factor));
  const columns = { state: cells.map((cell) => STATE[cell.state]), job: cells.map((cell) => place.get(cell.workload) ?? -1) };
  for (const [field, [column, factor]] of Object.entries(FIELDS)) columns[column] = cells.map((cell) => whole(cell[field], factor));
  columns.flags = nodes.map(
    (node) => CORDONED * node.is_cordoned + READY * node.is_ready + SILENT * node.is_silent + SPARE * node.is_spare,
  );
  const at = Date.parse(board.at);
  columns.report_age_seconds = nodes.map((node) => (node.last_report_at ? whole((at - Date.parse(node.last_report_at)) / 1000, 1) : -1));
  const fleet = new Fleet(
    {
      nodes: nodes.map((node) => node.name),
      racks: nodes.map((node) => node.rack),
      models: nodes.map((node) => node.model ?? null),
      counts: nodes.map((node) => node.cells.length),
      indices: cells.map((cell) => cell.index ?? -1),
      parts: nodes.flatMap((node, i) => (node.cells.some((cell) => cell.uuid.includes("/")) ? [[i, members(node)]] : [])),
    },
    columns,
  );
  fleet.uuids = cells.map((cell) => cell.uuid);
  fleet.at = board.at;
  fleet.jobs = jobs.map((job) => ({ ...job, cells: seats(fleet, job) }));
  const marked = (items) => items.flatMap((one, i) => (one.findings.length ? [[i, one.findings]] : []));
  fleet.marks(marked(cells), marked(nodes), nodes.flatMap((node, i) => (node.cordoned_by ? [[i, node.cordoned_by]] : [])));
  return fleet;
}

function members(node) {
  const counts = new Map();
  for (const { uuid } of node.cells) counts.set(uuid.split("/")[0], (counts.get(uuid.split("/")[0]) || 0) + 1);
  return [...counts.values()];
}

/** A job's cells in the order of its ranks. */
function seats(fleet, job) {
  const found = new Map();
  for (const name of job.nodes) {
    const node = fleet.place.get(name);
    if (node === undefined) continue;
    for (let cell = fleet.first[node]; cell < fleet.first[node + 1]; cell += 1) found.set(fleet.uuids[cell], cell);
  }
  return job.gpus.map((uuid) => found.get(uuid)).filter((cell) => cell !== undefined);
}
