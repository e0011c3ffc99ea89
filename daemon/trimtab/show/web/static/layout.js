// Where each cell of the fleet picture goes: racks as blocks, a node a row, a GPU a cell; coarser when there are many.

import { aggregate } from "./cell.js";

const NODE_CELLS_OVER = 2000;
const RACK_CELLS_OVER = 20000;
const GAP = 16;
const CELL_MIN = 5;
const CELL_MAX = 24;

/** Rows of cells by block: `{ name, rows: [{ node, label, cells: [{ node, cell, uuids }] }], working, total }`. */
export function blocksOf(nodes, { order, rack }) {
  const shown = rack === null ? nodes : nodes.filter((node) => (node.rack || "") === rack);
  if (shown.length > RACK_CELLS_OVER) return coarse(shown, () => "", (node) => node.rack || "");
  if (shown.length > NODE_CELLS_OVER) return coarse(shown, (node) => node.rack || "", (node) => node.name);
  return order === "free" ? byFree(shown) : byRack(shown);
}

function byRack(nodes) {
  const blocks = group(nodes, (node) => node.rack || "");
  return [...blocks].map(([name, members]) => block(name ? `rack ${bareRack(name)}` : "", members.map(row), name));
}

function bareRack(name) {
  return name.replace(/^rack[-_ ]?/i, "");
}

const isFree = (cell) => cell.state === "free" || cell.state === "stranded";

/** Nodes with most free GPUs first, free cells together: what is scattered shows as a ragged edge. */
function byFree(nodes) {
  const free = (node) => node.cells.filter(isFree).length;
  const sorted = [...nodes].sort((a, b) => free(b) - free(a) || a.name.localeCompare(b.name));
  const rows = sorted.map((node) => {
    const made = row(node);
    made.cells.sort((a, b) => isFree(b.cell) - isFree(a.cell));
    return made;
  });
  const tall = Math.max(8, Math.ceil(rows.length / Math.max(Math.ceil(rows.length / 16), 1)));
  const blocks = [];
  for (let i = 0; i < rows.length; i += tall) blocks.push(block(i ? "" : "most free first", rows.slice(i, i + tall), null));
  return blocks;
}

function row(node) {
  const cells = node.cells.map((cell) => ({ node, cell, uuids: [cell.uuid], nodes: 1 }));
  return { node, label: node.name, cells };
}

function coarse(nodes, blockName, cellName) {
  return [...group(nodes, blockName)].map(([name, members]) => {
    const cells = [...group(members, cellName)].map(([cell, owners]) => ({
      node: owners.length === 1 ? owners[0] : { ...owners[0], name: `rack ${bareRack(cell)}`, isMany: true },
      cell: aggregate(owners[0], owners.flatMap((node) => node.cells)),
      uuids: null,
      nodes: owners.length,
    }));
    const wide = Math.max(Math.ceil(Math.sqrt(cells.length)), 1);
    const rows = [];
    for (let i = 0; i < cells.length; i += wide) rows.push({ node: null, label: "", cells: cells.slice(i, i + wide) });
    const made = block(name ? bareRack(name) : "", rows, name);
    made.isCoarse = true;
    return made;
  });
}

function block(title, rows, rack) {
  const cells = rows.flatMap((each) => each.cells);
  const working = cells.filter(({ cell }) => cell.state === "working").length;
  return { title, rack, rows, working, total: cells.length, isCoarse: false };
}

function group(items, key) {
  const found = new Map();
  for (const item of items) {
    const name = key(item);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(item);
  }
  return found;
}

/** Give every block its place and every cell its size, so that the picture fills the width and stays in view. */
export function place(blocks, { width, heightWanted, measureLabel }) {
  const wide = Math.max(...blocks.map((b) => Math.max(...b.rows.map((r) => r.cells.length), 1)), 1);
  const tall = Math.max(...blocks.map((b) => b.rows.length), 1);
  const labels = blocks.flatMap((b) => b.rows.map((r) => r.label)).filter(Boolean);
  const longest = labels.reduce((a, b) => (b.length > a.length ? b : a), "");
  const labelWide = longest && labels.length <= 400 ? Math.min(measureLabel(longest), 110) + 8 : 0;
  const head = blocks.some((b) => b.title) ? 20 : 6;
  const best = bestFit(blocks.length, { width, heightWanted, wide, tall, labelWide, head });
  const pitch = pitchOf(best.size);
  const blockWide = labelWide + wide * pitch;
  const columns = Math.max(1, Math.min(best.columns, Math.floor((width + GAP) / (blockWide + GAP)) || 1));
  const spread = columns > 1 ? Math.min((width - columns * blockWide) / (columns - 1), 44) : 0;
  let y = 0;
  for (let i = 0; i < blocks.length; i += columns) {
    const line = blocks.slice(i, i + columns);
    line.forEach((b, column) => {
      b.x = column * (blockWide + spread);
      b.y = y;
      b.wide = blockWide;
      b.cellsX = b.x + labelWide;
      b.cellsY = y + head;
    });
    y += head + Math.max(...line.map((b) => b.rows.length)) * pitch + (best.size >= 8 ? 12 : 6);
  }
  return { blocks, size: best.size, pitch, labelWide, height: Math.ceil(y), head };
}

/** From one cell to the next: the cell and the gap that suits its size. */
function pitchOf(size) {
  return size + (size >= 12 ? 3 : size >= 7 ? 2 : 1);
}

function bestFit(count, { width, heightWanted, wide, tall, labelWide, head }) {
  let best = { size: 0, columns: 1, score: -1 };
  for (let columns = 1; columns <= Math.min(count, 200); columns += 1) {
    const lines = Math.ceil(count / columns);
    const across = ((width + GAP) / columns - GAP - labelWide) / wide;
    const down = (heightWanted / lines - head - 12) / tall;
    let size = Math.min(Math.floor(Math.min(across, down)), CELL_MAX);
    while (size > 0 && pitchOf(size) > Math.min(across, down)) size -= 1;
    const used = Math.min((columns * (labelWide + wide * pitchOf(size) + GAP)) / width, 1);
    const score = size * (count / (columns * lines)) ** 2 * used ** 0.5;
    if (score > best.score) best = { size, columns, score };
  }
  if (best.size >= CELL_MIN) return best;
  const columns = Math.max(1, Math.floor((width + GAP) / (labelWide + wide * (CELL_MIN + 1) + GAP)));
  return { size: CELL_MIN, columns };
}
