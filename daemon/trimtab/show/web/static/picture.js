// The fleet picture on its canvases: all cells below, what is lit above, so that a hover draws only what it lights.

import { drawCell, fitted, hatchBox, prepare } from "./cell.js";
import { severityColour, shadeColour, shadeOf, theme, waitingColour } from "./colour.js";
import { STATE, STATES } from "./fleetdata.js";
import { LEVELS, cornerOf, innerAt, layOut, levelFor, sizeOf, unitAt } from "./layout.js";

export const ZOOM_MAX = 64;
const SPRITES_FROM = 6; // smaller cells are plain rectangles
const FILLED = new Set([STATE.working, STATE.held_idle]);
/** Of several GPUs in one cell the state that most of them have stands for all; one that is lost shows always. */
const ORDER = ["silent", "unknown", "unusable", "working", "held_idle", "stranded", "spare", "free"].map((name) => STATE[name]);

export class Picture {
  constructor(base, overlay) {
    this.base = base;
    this.overlay = overlay;
    this.zoom = 1;
    this.left = 0;
    this.top = 0;
    this.sprites = new Map();
    this.spriteSize = 0;
    this.count = new Uint32Array(STATES.length);
  }

  /** Take what is to be shown: blocks, how to colour, who waits. */
  take({ fleet, blocks, colouring, waiting, width, heightWanted }) {
    const isOther = this.blocks !== blocks || this.width !== width || this.heightWanted !== heightWanted;
    Object.assign(this, { fleet, blocks, colouring, waiting, width, heightWanted });
    if (isOther) {
      const ctx = this.base.getContext("2d");
      const measureLabel = (text) => {
        ctx.font = `11px ${theme().font}`;
        return ctx.measureText(text).width;
      };
      this.laid = layOut(blocks, { width, heightWanted, measureLabel });
      this.where = null;
      this.move(this.zoom, this.left, this.top);
    }
  }

  get isEmpty() {
    return !this.blocks?.length;
  }

  /** Look at another part; never beside the picture. */
  move(zoom, left, top) {
    const { width, height } = this.laid;
    this.zoom = Math.min(Math.max(zoom, 1), ZOOM_MAX);
    this.left = Math.min(Math.max(left, 0), width - width / this.zoom);
    this.top = Math.min(Math.max(top, 0), height - height / this.zoom);
    this.inners = new Map();
    this.level = this.levelNow();
  }

  /** Zoom so that what is under this point of the canvas stays there. */
  zoomAt(factor, x, y) {
    const zoom = Math.min(Math.max(this.zoom * factor, 1), ZOOM_MAX);
    this.move(zoom, this.left + x / this.zoom - x / zoom, this.top + y / this.zoom - y / zoom);
  }

  shown() {
    const [right, bottom] = [this.left + this.width / this.zoom, this.top + this.laid.height / this.zoom];
    return this.blocks.filter((b) => b.x < right && b.x + b.w > this.left && b.y < bottom && b.y + b.h > this.top);
  }

  levelNow() {
    const base = LEVELS.indexOf(this.laid.level);
    if (!base || this.zoom === 1) return this.laid.level;
    const [right, bottom] = [this.left + this.width / this.zoom, this.top + this.laid.height / this.zoom];
    let rows = 0;
    for (const b of this.shown()) {
      const across = Math.min(b.x + b.w, right) - Math.max(b.x, this.left);
      const down = Math.min(b.y + b.h, bottom) - Math.max(b.y, this.top);
      rows += (b.rows.length * across * down) / (b.w * b.h);
    }
    return LEVELS[Math.min(base, LEVELS.indexOf(levelFor(rows)))];
  }

  innerOf(block) {
    if (this.level === this.laid.level) return block.inner;
    if (!this.inners.has(block)) this.inners.set(block, innerAt(block, this.level, this.zoom));
    return this.inners.get(block);
  }

  x(world) {
    return (world - this.left) * this.zoom;
  }

  y(world) {
    return (world - this.top) * this.zoom;
  }

  draw() {
    const ctx = prepare(this.base, this.width, Math.max(this.laid.height, 1));
    this.colours = theme();
    for (const block of this.shown()) {
      if (block.isBlind) this.drawBlind(ctx, block);
      if (this.level === "block") this.drawWhole(ctx, block);
      else if (this.level === "node") this.drawNodes(ctx, block);
      else this.drawRows(ctx, block);
      this.drawTitle(ctx, block);
    }
  }

  /** A block that nothing is heard of lies under hatching: unknown, not empty. */
  drawBlind(ctx, block) {
    const tall = (block.h - block.head) * this.zoom;
    hatchBox(ctx, [this.x(block.x), this.y(block.y + block.head), block.w * this.zoom, tall], this.colours.faint);
  }

  drawTitle(ctx, block) {
    const wide = block.w * this.zoom;
    if (!block.title || wide < 26 || this.level === "block" || (!block.head && this.zoom < 2)) return;
    const [x, y] = [this.x(block.x), this.y(block.y)];
    const count = `${block.working}/${block.cells}`;
    ctx.font = `600 11px ${this.colours.font}`;
    ctx.textBaseline = "alphabetic";
    const hasRoom = this.laid.level === "gpu" && wide > ctx.measureText(block.title + count).width + 12;
    ctx.fillStyle = this.colours.text;
    ctx.textAlign = "left";
    ctx.fillText(fitted(ctx, block.title, wide), x, y + 12);
    if (!hasRoom) return;
    ctx.textAlign = "right";
    ctx.fillStyle = this.colours.dim;
    ctx.fillText(count, x + wide - 3, y + 12);
  }

  drawWhole(ctx, block) {
    const size = sizeOf(block.w * this.zoom);
    this.drawMany(ctx, this.x(block.x), this.y(block.y), size, block.rows.flatMap((row) => row.cells));
  }

  drawNodes(ctx, block) {
    const inner = this.innerOf(block);
    const size = sizeOf(inner.pitch * this.zoom);
    block.rows.forEach((row, place) => {
      const [x, y] = cornerOf(inner, "node", place);
      this.drawMany(ctx, this.x(x), this.y(y), size, row.cells, row.node);
    });
  }

  drawRows(ctx, block) {
    const inner = this.innerOf(block);
    const pitch = inner.pitch * this.zoom;
    const size = sizeOf(pitch);
    const bottom = this.laid.height;
    const labelWide = inner.labelWide * this.zoom;
    const hasLabel = labelWide >= 30 && pitch >= 8;
    ctx.font = `11px ${this.colours.font}`;
    block.rows.forEach((row, place) => {
      const [cornerX, cornerY] = cornerOf(inner, "gpu", place);
      const [x, y] = [this.x(cornerX), this.y(cornerY)];
      if (y > bottom || y + pitch < 0 || x > this.width) return;
      if (hasLabel) {
        ctx.textAlign = "left";
        ctx.textBaseline = "middle";
        ctx.fillStyle = this.fleet.nodeFindings.has(row.node) ? this.colours.text : this.colours.dim;
        ctx.fillText(fitted(ctx, row.label, labelWide - 6), x, y + size / 2 + 0.5);
      }
      row.slots.forEach((cells, slot) => this.drawSlot(ctx, x + labelWide + slot * pitch, y, size, cells));
    });
  }

  /** One GPU; side by side its instances where MIG splits it. */
  drawSlot(ctx, x, y, size, cells) {
    if (cells.length === 1) {
      const cell = cells[0];
      const state = this.fleet.columns.state[cell];
      const mark = this.fleet.cellFindings.has(cell);
      this.drawUnit(ctx, x, y, size, state, this.paintOf(cell, state), this.fleet.isCordoned(this.fleet.owner[cell]), mark, this.ringOf(cell, state));
      return;
    }
    const wide = size / cells.length;
    cells.forEach((cell, i) => {
      const state = this.fleet.columns.state[cell];
      const paint = this.paintOf(cell, state);
      ctx.fillStyle = FILLED.has(state) ? this.colourOf(paint, state) : this.outlineOf(cell, state);
      if (FILLED.has(state)) ctx.fillRect(x + i * wide, y, Math.max(wide - 1, 1), size);
      else ctx.strokeStyle = ctx.fillStyle, (ctx.lineWidth = 1), ctx.strokeRect(x + i * wide + 0.5, y + 0.5, Math.max(wide - 2, 1), size - 1);
    });
  }

  /** Several GPUs as one cell: the mean of what is known of them. */
  drawMany(ctx, x, y, size, cells, node = null) {
    const count = this.count.fill(0);
    const { state } = this.fleet.columns;
    let [sum, known, worst, ring] = [0, 0, null, null];
    for (const cell of cells) {
      count[state[cell]] += 1;
      if (this.colouring.classOf) worst = worseOf(worst, this.colouring.classOf(cell));
      else {
        const share = this.colouring.shareOf(cell);
        if (share !== null) [sum, known] = [sum + share, known + 1];
      }
    }
    const shown = count[STATE.lost] ? STATE.lost : ORDER.reduce((best, one) => (count[one] > count[best] ? one : best));
    if (shown === STATE.stranded) ring = this.ringOf(cells.find((cell) => state[cell] === shown), shown);
    const paint = this.colouring.classOf ? worst : known ? shadeOf(sum / known) : null;
    this.drawUnit(ctx, x, y, size, shown, paint, node !== null && this.fleet.isCordoned(node), node !== null && this.fleet.nodeFindings.has(node), ring);
  }

  /** The shade of a cell's value, or the class of its findings; null where nothing is known. */
  paintOf(cell, state) {
    if (this.colouring.classOf) return this.colouring.classOf(cell);
    if (!FILLED.has(state)) return null;
    const share = this.colouring.shareOf(cell);
    return share === null ? null : shadeOf(share);
  }

  ringOf(cell, state) {
    return state === STATE.stranded ? this.waiting.indexOf(this.fleet.jobOf(cell)?.id) : null;
  }

  colourOf(paint) {
    if (this.colouring.classOf) return severityColour(paint);
    return paint === null ? this.colours.faint : shadeColour(paint);
  }

  outlineOf(cell, state) {
    if (state === STATE.lost) return this.colours.bad;
    return state === STATE.stranded ? waitingColour(this.ringOf(cell, state)) : state === STATE.spare ? this.colours.sky : this.colours.hollow;
  }

  drawUnit(ctx, x, y, size, state, paint, isHatched, isMarked, ring) {
    if (size < SPRITES_FROM) {
      this.drawTiny(ctx, x, y, size, state, paint, isHatched, ring);
      return;
    }
    const ratio = devicePixelRatio || 1;
    if (this.spriteSize !== size * ratio || this.spriteTheme !== this.colours) {
      this.sprites.clear();
      [this.spriteSize, this.spriteTheme] = [size * ratio, this.colours];
    }
    const key = `${state}/${paint}/${isHatched}/${isMarked}/${ring}`;
    let sprite = this.sprites.get(key);
    if (!sprite) {
      sprite = document.createElement("canvas");
      sprite.width = sprite.height = Math.ceil(size * ratio) + 1;
      const own = sprite.getContext("2d");
      own.scale(ratio, ratio);
      const fill = this.colourOf(paint);
      // Coloured by findings, whether it is busy matters less than what is wrong with it.
      const form = this.colouring.classOf && FILLED.has(state) ? "working" : STATES[state];
      const look = { form, fill, ring: ring === null ? null : waitingColour(ring), isHatched, isMarked, label: "" };
      drawCell(own, 0, 0, size, look);
      this.sprites.set(key, sprite);
    }
    const side = sprite.width / ratio;
    ctx.drawImage(sprite, Math.round(x * ratio) / ratio, Math.round(y * ratio) / ratio, side, side);
  }

  drawTiny(ctx, x, y, size, state, paint, isHatched, ring) {
    if (FILLED.has(state) || this.colouring.classOf) {
      ctx.fillStyle = isHatched ? this.colours.hollow : this.colourOf(paint);
      ctx.fillRect(x, y, size, size);
      return;
    }
    ctx.fillStyle = state === STATE.lost ? this.colours.bad : state === STATE.stranded ? waitingColour(ring) : state === STATE.spare ? this.colours.sky : this.colours.hollow;
    if (size < 3) ctx.fillRect(x, y, size / 2, size / 2);
    else {
      ctx.fillRect(x, y, size, 1);
      ctx.fillRect(x, y + size - 1, size, 1);
      ctx.fillRect(x, y, 1, size);
      ctx.fillRect(x + size - 1, y, 1, size);
      if (state === STATE.lost) ctx.fillRect(x + 1, y + 1, size - 2, size - 2);
    }
  }

  /** What is lit: all else under a veil, links between its racks, and a frame around the cursor. */
  drawOver(lit, cursor) {
    const ctx = prepare(this.overlay, this.width, Math.max(this.laid.height, 1));
    this.colours = theme();
    if (lit) this.drawVeil(ctx, lit);
    if (lit?.isJob) this.drawLinks(ctx, lit.cells);
    if (cursor) this.drawCursor(ctx, cursor);
  }

  drawVeil(ctx, { cells }) {
    ctx.globalAlpha = 0.76;
    ctx.fillStyle = this.colours.panel;
    for (const block of this.shown()) {
      const from = this.level === "block" ? 0 : Math.max(block.head, this.innerOf(block).y - block.y);
      ctx.fillRect(this.x(block.x) - 2, this.y(block.y + from) - 2, block.w * this.zoom + 4, (block.h - from) * this.zoom + 4);
    }
    ctx.globalAlpha = 1;
    for (const [x, y, wide, tall] of this.boxes(cells)) ctx.clearRect(x - 1, y - 1, wide + 2, tall + 2);
  }

  /** Where cells are on the canvas, each box once: `[x, y, wide, tall, block]`. */
  boxes(cells) {
    const found = new Map();
    for (const cell of cells) {
      const at = this.find(cell);
      if (!at) continue;
      const key = this.level === "block" ? `${at.block}` : this.level === "node" ? `${at.block}/${at.row}` : `${at.block}/${at.row}/${at.slot}`;
      if (!found.has(key)) found.set(key, this.box(at));
    }
    return [...found.values()];
  }

  /** The box of a cursor place on the canvas, and its block's number. */
  box({ block: place, row, slot }) {
    const block = this.blocks[place];
    if (this.level === "block") return [this.x(block.x), this.y(block.y), sizeOf(block.w * this.zoom), sizeOf(block.h * this.zoom), place];
    const inner = this.innerOf(block);
    const size = sizeOf(inner.pitch * this.zoom);
    const [x, y] = cornerOf(inner, this.level, row);
    const right = this.level === "gpu" ? inner.labelWide + slot * inner.pitch : 0;
    return [this.x(x + right), this.y(y), size, size, place];
  }

  /** Where a cell is: its block, row and slot. */
  find(cell) {
    if (!this.where || this.whereOf !== this.blocks) this.index();
    const at = this.where[cell];
    return at === undefined ? null : at;
  }

  index() {
    this.whereOf = this.blocks;
    this.where = new Array(this.fleet.size);
    this.blocks.forEach((block, place) => {
      block.rows.forEach((row, r) => {
        if (row.fleet.isSplit) row.slots.forEach((cells, slot) => cells.forEach((cell) => (this.where[cell] = { block: place, row: r, slot })));
        else row.cells.forEach((cell, slot) => (this.where[cell] = { block: place, row: r, slot }));
      });
    });
  }

  /** Lines between the nodes of a job in the order of its ranks; where they are many, between their blocks. */
  drawLinks(ctx, cells) {
    const points = this.linkPoints(cells);
    if (points.length < 2) return;
    for (const [colour, width] of [[this.colours.bg, 5], [this.colours.text, 2]]) {
      ctx.strokeStyle = ctx.fillStyle = colour;
      ctx.lineWidth = width;
      ctx.lineJoin = "round";
      ctx.beginPath();
      points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
      ctx.stroke();
      for (const [x, y] of points) {
        ctx.beginPath();
        ctx.arc(x, y, width + 0.5, 0, 2 * Math.PI);
        ctx.fill();
      }
    }
  }

  linkPoints(cells) {
    const nodes = new Set(cells.map((cell) => this.fleet.owner[cell]));
    const isByNode = this.level === "gpu" && nodes.size <= 64;
    const groups = new Map();
    for (const cell of cells) {
      const at = this.find(cell);
      if (!at) continue;
      const key = isByNode ? this.fleet.owner[cell] : at.block;
      const [x, y, wide, tall] = this.box(at);
      const sum = groups.get(key) || [0, 0, 0];
      groups.set(key, [sum[0] + x + wide / 2, sum[1] + y + tall / 2, sum[2] + 1]);
    }
    return [...groups.values()].map(([x, y, count]) => [x / count, y / count]);
  }

  drawCursor(ctx, cursor) {
    const [x, y, wide, tall] = this.box(cursor);
    ctx.strokeStyle = this.colours.text;
    ctx.lineWidth = 2;
    ctx.strokeRect(x - 1.5, y - 1.5, wide + 3, tall + 3);
  }

  /** The cursor place under a point of the canvas. */
  at(px, py) {
    if (this.isEmpty) return null;
    const [x, y] = [px / this.zoom + this.left, py / this.zoom + this.top];
    const block = this.blocks.findIndex((b) => x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h);
    if (block < 0) return null;
    if (this.level === "block") return { block, row: 0, slot: 0 };
    const found = unitAt(this.blocks[block], this.innerOf(this.blocks[block]), this.level, x, y);
    return found && { block, ...found };
  }

  /** The cells that a cursor place stands for. */
  cellsAt({ block, row, slot }) {
    const { rows } = this.blocks[block];
    if (this.level === "block") return rows.flatMap((one) => one.cells);
    if (!rows[row]) return [];
    return this.level === "node" ? rows[row].cells : rows[row].slots[slot] || [];
  }
}

const WORST = ["critical", "warning", "info", null];
const worseOf = (a, b) => (WORST.indexOf(b) < WORST.indexOf(a) ? b : a);
