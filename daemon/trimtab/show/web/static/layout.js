// Where each block, node and GPU of the fleet picture is, and which of them is one cell: levels of detail.
//
// A block keeps its place at every zoom; its inside is laid out anew by level: a node as a row of GPUs, a node as one
// cell, or the block itself as one. Places are in the picture's own pixels at zoom 1.

const NODE_CELLS_OVER = 2000;
const BLOCK_CELLS_OVER = 20000;
const GAP = 16;
const CELL_MIN = 5;
const CELL_MAX = 24;
const HEAD = 20;
const LABEL_MAX = 110;
const NODE_PITCH_MIN = 3;
const NODE_PITCH_MAX = 14;
const TITLED_BLOCKS_MAX = 60;
export const LEVELS = ["gpu", "node", "block"];

const rowsIn = (blocks) => blocks.reduce((sum, block) => sum + block.rows.length, 0);

export function levelFor(rows) {
  return rows > BLOCK_CELLS_OVER ? "block" : rows > NODE_CELLS_OVER ? "node" : "gpu";
}

/** From one cell to the next: the cell and the gap that suits its size. */
function pitchOf(size) {
  return size + (size >= 12 ? 3 : size >= 7 ? 2 : 1);
}

/** The largest cell with its gap that fits into a pitch. */
export function sizeOf(pitch) {
  const size = pitch >= 15 ? pitch - 3 : pitch >= 9 ? pitch - 2 : pitch - 1;
  return Math.max(size, Math.min(pitch, 1));
}

/** Gives each block its rectangle `x, y, w, h, head` and its inside `inner`; says the level and the whole height. */
export function layOut(blocks, given) {
  const level = levelFor(rowsIn(blocks));
  if (level === "block") return layOutBlocks(blocks, given);
  for (const block of blocks) block.grid = level === "node" ? nodeGrid(block.rows.length) : gpuGrid(block);
  const isLabelled = level === "gpu" && rowsIn(blocks) <= 400;
  const labels = isLabelled ? blocks.flatMap((block) => block.rows.map((row) => row.label)) : [];
  const longest = labels.reduce((a, b) => (b.length > a.length ? b : a), "");
  const labelWide = longest ? Math.min(given.measureLabel(longest), LABEL_MAX) + 8 : 0;
  const isTitled = blocks.some((block) => block.title) && (level === "gpu" || blocks.length <= TITLED_BLOCKS_MAX);
  const head = isTitled ? HEAD : level === "gpu" ? 6 : 0;
  const talls = blocks.map((block) => block.grid.tall);
  const isEven = Math.max(...talls) <= 2 * Math.min(...talls) || blocks.length === 1;
  const place = !isEven ? onShelves : level === "gpu" ? evenly : closely;
  const height = place(blocks, { ...given, labelWide, head });
  return { blocks, level, height: Math.ceil(height), width: given.width };
}

function gpuGrid(block) {
  const wide = Math.max(...block.rows.map((row) => row.wide), 1);
  return { wide, tall: block.rows.length };
}

function nodeGrid(count) {
  const wide = Math.max(Math.ceil(Math.sqrt(count)), 1);
  return { wide, tall: Math.ceil(count / wide) };
}

function layOutBlocks(blocks, { width, heightWanted }) {
  const pitch = Math.max(Math.floor(Math.sqrt((width * heightWanted) / blocks.length)), 4);
  const across = Math.max(Math.floor(width / pitch), 1);
  blocks.forEach((block, i) => {
    Object.assign(block, { x: (i % across) * pitch, y: Math.floor(i / across) * pitch, w: pitch, h: pitch, head: 0, inner: null });
  });
  return { blocks, level: "block", width, height: Math.ceil(blocks.length / across) * pitch };
}

function settle(block, { x, y, head, labelWide, pitch, lines, columns = 1 }) {
  const columnWide = labelWide + block.grid.wide * pitch;
  Object.assign(block, { x, y, head, w: columns * columnWide + (columns - 1) * GAP, h: head + lines * pitch });
  block.inner = { x, y: y + head, pitch, labelWide, lines, columnWide: columnWide + GAP, wide: block.grid.wide };
}

/** Blocks of about the same size: a grid of them that fills the width and stays in view. */
function evenly(blocks, { width, heightWanted, labelWide, head }) {
  const wide = Math.max(...blocks.map((block) => block.grid.wide));
  const tall = Math.max(...blocks.map((block) => block.grid.tall));
  const best = bestFit(blocks.length, { width, heightWanted, wide, tall, labelWide, head });
  const pitch = pitchOf(best.size);
  const blockWide = labelWide + wide * pitch;
  const columns = Math.max(1, Math.min(best.columns, Math.floor((width + GAP) / (blockWide + GAP)) || 1));
  const spread = columns > 1 ? Math.min((width - columns * blockWide) / (columns - 1), 44) : 0;
  let y = 0;
  for (let i = 0; i < blocks.length; i += columns) {
    const line = blocks.slice(i, i + columns);
    line.forEach((block, column) => {
      settle(block, { x: column * (blockWide + spread), y, head, labelWide, pitch, lines: block.grid.tall });
    });
    y += Math.max(...line.map((block) => block.h)) + (best.size >= 8 ? 12 : 6);
  }
  return y;
}

/** Many small blocks: as large as lets all of them be seen at once, one cell apart. */
function closely(blocks, { width, heightWanted, head }) {
  const wide = Math.max(...blocks.map((block) => block.grid.wide)) + 1;
  const tall = Math.max(...blocks.map((block) => block.grid.tall)) + 1;
  let pitch = NODE_PITCH_MAX;
  const acrossAt = (one) => Math.max(Math.floor((width + one) / (wide * one)), 1);
  const tallAt = (one) => Math.ceil(blocks.length / acrossAt(one)) * (tall * one + head);
  while (pitch > NODE_PITCH_MIN && tallAt(pitch) > heightWanted) pitch -= 0.25;
  const across = acrossAt(pitch);
  const apart = across > 1 ? (width - across * (wide - 1) * pitch) / (across - 1) : 0;
  const step = Math.min((wide - 1) * pitch + apart, wide * pitch * 1.3);
  blocks.forEach((block, i) => {
    const [x, y] = [(i % across) * step, Math.floor(i / across) * (tall * pitch + head)];
    settle(block, { x, y, head, labelWide: 0, pitch, lines: block.grid.tall });
  });
  return tallAt(pitch);
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

/** Blocks of unlike sizes: from left to right on shelves, each in as many columns as make it about square. */
function onShelves(blocks, given) {
  let height = 0;
  for (let size = CELL_MAX; size >= CELL_MIN; size -= 1) {
    height = shelve(blocks, given, pitchOf(size));
    if (height <= given.heightWanted) break;
  }
  return height;
}

function shelve(blocks, { width, labelWide, head }, pitch) {
  let [x, y, tallest] = [0, 0, 0];
  for (const block of blocks) {
    const columnWide = labelWide + block.grid.wide * pitch + GAP;
    const most = Math.max(Math.floor((width + GAP) / columnWide), 1);
    const square = Math.round(Math.sqrt((block.grid.tall * pitch) / columnWide));
    const columns = Math.min(Math.max(square, 1), most, block.grid.tall);
    const lines = Math.ceil(block.grid.tall / columns);
    const titleWide = block.title ? Math.min(block.title.length * 7, 90) : 0;
    const wide = Math.max(columns * columnWide - GAP, titleWide);
    if (x && x + wide > width) [x, y, tallest] = [0, y + tallest + 8, 0];
    settle(block, { x, y, head, labelWide, pitch, lines, columns });
    block.w = Math.max(block.w, titleWide);
    x += wide + GAP;
    tallest = Math.max(tallest, block.h);
  }
  return y + tallest;
}

/** The inside of a block at a deeper level than the picture's own: it fills the block's rectangle at this zoom. */
export function innerAt(block, level, zoom) {
  const head = block.head || (block.title ? Math.min(16 / zoom, block.h / 4) : 0);
  const [wide, tall] = [block.w * 0.96, (block.h - head) * 0.96];
  const base = { x: block.x, y: block.y + head };
  if (level === "node") {
    const across = Math.max(Math.ceil(Math.sqrt((block.rows.length * wide) / tall)), 1);
    return { ...base, pitch: Math.min(wide / across, tall / Math.ceil(block.rows.length / across)), wide: across, labelWide: 0, lines: Infinity };
  }
  let best = { pitch: 0 };
  const most = Math.max(...block.rows.map((row) => row.wide), 1);
  for (let columns = 1; columns <= block.rows.length && columns <= 12; columns += 1) {
    const lines = Math.ceil(block.rows.length / columns);
    const columnWide = wide / columns;
    const labelWide = columnWide * zoom > 170 ? 70 / zoom : 0;
    const pitch = Math.min((columnWide - labelWide - 6 / zoom) / most, tall / lines);
    // Fewer columns leave room for names: more of them must be worth it.
    if (pitch > best.pitch * 1.15) best = { ...base, pitch, lines, columnWide, labelWide, wide: most };
  }
  return best;
}

/** The left top corner of a unit: a node's row at level gpu, a node's cell at level node. */
export function cornerOf(inner, level, place) {
  if (level === "node") return [inner.x + (place % inner.wide) * inner.pitch, inner.y + Math.floor(place / inner.wide) * inner.pitch];
  const column = Math.floor(place / inner.lines);
  return [inner.x + column * inner.columnWide, inner.y + (place % inner.lines) * inner.pitch];
}

/** Which unit and slot is at a point of the picture; null where there is none. */
export function unitAt(block, inner, level, x, y) {
  const line = Math.floor((y - inner.y) / inner.pitch);
  if (line < 0) return null;
  if (level === "node") {
    const across = Math.floor((x - inner.x) / inner.pitch);
    const row = line * inner.wide + across;
    return across >= 0 && across < inner.wide && row < block.rows.length ? { row, slot: 0 } : null;
  }
  const column = Math.floor((x - inner.x) / inner.columnWide);
  const row = column * inner.lines + line;
  if (column < 0 || line >= inner.lines || row >= block.rows.length) return null;
  const slot = Math.max(Math.floor((x - inner.x - column * inner.columnWide - inner.labelWide) / inner.pitch), 0);
  return slot < block.rows[row].wide ? { row, slot } : null;
}
