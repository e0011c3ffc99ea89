// The fleet picture: drawn on one canvas, read with pointer and keyboard, spoken by a live line.

import { MEASURES, drawCell, lookOf, prepare } from "./cell.js";
import { onThemeChange, theme, viridis, waitingColour } from "./colour.js";
import { h, render } from "./dom.js";
import { blocksOf, place } from "./layout.js";
import { open } from "./route.js";
import { changed, gpuName, jobName, state } from "./state.js";
import { CELL_WORDS, bare, number, plural, quantity } from "./words.js";

const view = { measure: "activity", order: "rack", rack: null, placed: null, at: null, isKeyed: false };
let canvas = null;
let tip = null;

export function renderFleet(container) {
  const { board } = state;
  render(
    container,
    h("div", { class: "panel-head", key: "head" },
      h("h2", { id: "fleet-title" }, "Fleet by "),
      choose("Colour by", view.measure, Object.entries(MEASURES).map(([k, m]) => [k, m.label]), (v) => (view.measure = v)),
      choose("Order", view.order, [["rack", "grouped by rack"], ["free", "most free GPUs first"]], (v) => (view.order = v)),
      view.rack !== null ? h("button", { class: "quiet", on: { click: allRacks } }, "all racks") : null,
    ),
    h("div", { class: "blind", key: "blind", hidden: !board?.blind.length },
      (board?.blind || []).map((sentence) => h("p", {}, sentence))),
    h("div", { class: "fleet-box", key: "box", "data-keep": true, keep: true, mount: mountBox, refresh: draw }),
    h("div", { class: "highlighted", key: "lit" }, highlightWords()),
    legend(),
  );
}

function choose(label, value, options, take) {
  const on = {
    change(event) {
      take(event.target.value);
      changed();
    },
  };
  return h("select", { "aria-label": label, on, key: label },
    options.map(([name, text]) => h("option", { value: name, selected: name === value }, text)));
}

function allRacks() {
  view.rack = null;
  changed();
}

/** Which job is lit: the one under the pointer, else that of the view that is open. */
function litJob() {
  if (state.hoverJob) return state.hoverJob;
  return state.path.view === "job" ? state.path.id : null;
}

function highlightWords() {
  const job = state.lookups?.jobs.get(litJob());
  if (!job || !job.nodes.length) return "";
  const nodes = new Set(job.nodes);
  const racks = new Set([...nodes].map((name) => state.lookups.nodes.get(name)?.rack || ""));
  const size = `${plural(job.gpus.length, "GPU")}, ${plural(nodes.size, "node")}, ${plural(racks.size, "rack")}`;
  return `highlighted: ${job.name} (${size})`;
}

function mountBox(box) {
  canvas = h("canvas", {
    tabindex: "0",
    role: "application",
    "aria-roledescription": "fleet picture",
    "aria-label": "Fleet picture. Arrow keys go from GPU to GPU, Enter opens one, Escape leaves.",
    on: { pointermove: onMove, pointerleave: leave, click: onClick, keydown: onKey, blur: leave },
  });
  tip = h("div", { class: "tip", hidden: true, "aria-live": "polite", role: "status" });
  box.append(canvas, tip);
  new ResizeObserver(() => draw(box)).observe(box);
  onThemeChange(() => draw(box));
  draw(box);
}

function draw(box) {
  const { board, lookups } = state;
  const width = box.clientWidth;
  if (!board || !width) return;
  const blocks = blocksOf(board.nodes, view);
  if (!blocks.length) {
    prepare(canvas, width, 1);
    return;
  }
  const heightWanted = innerWidth < 900 ? 1200 : Math.max(260, Math.min(innerHeight - 400, 560));
  const labelFont = `11px ${theme().font}`;
  const measureLabel = (text) => {
    const ctx = canvas.getContext("2d");
    ctx.font = labelFont;
    return ctx.measureText(text).width;
  };
  view.placed = place(blocks, { width, heightWanted, measureLabel });
  const ctx = prepare(canvas, width, view.placed.height);
  const lit = litTest();
  for (const block of blocks) drawBlock(ctx, block, lit, labelFont, lookups.waiting);
  drawLinks(ctx);
  drawCursor(ctx);
}

/** What is lit, as a test of one cell; null when nothing is. */
function litTest() {
  const job = litJob();
  if (job) return (item) => item.cell.workload === job && item.cell.state !== "stranded";
  const nodes = concernedNodes();
  if (nodes) return (item) => nodes.has(item.node.name);
  const subject = state.path.view === "finding" ? state.lookups.findings.get(state.path.id)?.finding : null;
  if (!subject) return null;
  const [{ node }, hit] = [subject.subject, new Set(subject.workloads_hit)];
  return node || hit.size ? (item) => item.node.name === node || hit.has(item.cell.workload) : null;
}

function concernedNodes() {
  if (state.path.view === "node") return new Set([state.path.name]);
  if (state.path.view !== "command") return null;
  const row = state.lookups?.commands.get(state.path.id);
  if (!row) return null;
  const { moves, writes } = row.command.recommendation;
  const named = [...moves.flatMap((m) => [...m.before, ...m.after]), ...writes].map((one) => one.node).filter(Boolean);
  return named.length ? new Set(named) : null;
}

function drawBlock(ctx, block, lit, labelFont, waiting) {
  const { size, pitch, labelWide } = view.placed;
  const colours = theme();
  ctx.textBaseline = "alphabetic";
  if (block.title && block.wide > 26) {
    ctx.font = `600 11px ${colours.font}`;
    ctx.fillStyle = colours.text;
    ctx.textAlign = "left";
    ctx.fillText(block.title, block.x, block.y + 12, block.wide);
    if (!block.isCoarse) {
      ctx.textAlign = "right";
      ctx.fillStyle = colours.dim;
      ctx.fillText(`${block.working}/${block.total}`, block.x + block.wide - (pitch - size), block.y + 12);
    }
  }
  block.rows.forEach((row, r) => {
    const y = block.cellsY + r * pitch;
    if (labelWide && row.label) {
      ctx.font = labelFont;
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      ctx.fillStyle = row.node.findings.length ? colours.text : colours.dim;
      ctx.fillText(row.label, block.x, y + size / 2 + 0.5, labelWide - 6);
    }
    row.cells.forEach((item, c) => {
      ctx.globalAlpha = lit && !lit(item) ? 0.26 : 1;
      drawCell(ctx, block.cellsX + c * pitch, y, size, lookOf(item.cell, item.node, MEASURES[view.measure], waiting));
      ctx.globalAlpha = 1;
    });
  });
}

/** Lines between the nodes of the lit job, in the order of its ranks. */
function drawLinks(ctx) {
  const job = litJob();
  if (!job) return;
  const { size, pitch } = view.placed;
  const centres = new Map();
  for (const block of view.placed.blocks) {
    block.rows.forEach((row, r) => {
      const places = row.cells.flatMap((item, c) => (item.cell.workload === job && item.cell.state !== "stranded" ? [c] : []));
      if (!places.length || !row.node) return;
      const middle = (places[0] + places.at(-1)) / 2;
      centres.set(row.node.name, [block.cellsX + middle * pitch + size / 2, block.cellsY + r * pitch + size / 2]);
    });
  }
  const order = (state.lookups.jobs.get(job)?.nodes || []).filter((name) => centres.has(name));
  const points = [...new Set(order)].map((name) => centres.get(name));
  if (points.length < 2) return;
  for (const [colour, width] of [[theme().bg, 5], [theme().text, 2]]) {
    ctx.strokeStyle = colour;
    ctx.fillStyle = colour;
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

function drawCursor(ctx) {
  const { at } = view;
  if (!at || !itemAt(at)) return;
  const { size, pitch } = view.placed;
  const block = view.placed.blocks[at.block];
  ctx.strokeStyle = theme().text;
  ctx.lineWidth = 2;
  ctx.strokeRect(block.cellsX + at.cell * pitch - 1.5, block.cellsY + at.row * pitch - 1.5, size + 3, size + 3);
}

function itemAt(at) {
  return view.placed?.blocks[at.block]?.rows[at.row]?.cells[at.cell];
}

function hit(event) {
  if (!view.placed) return null;
  const box = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const { pitch } = view.placed;
  for (const [index, block] of view.placed.blocks.entries()) {
    const row = Math.floor((y - block.cellsY) / pitch);
    if (x < block.x || x > block.x + block.wide || row < 0 || row >= block.rows.length) continue;
    const cell = Math.max(Math.floor((x - block.cellsX) / pitch), 0);
    if (block.rows[row].cells[cell]) return { block: index, row, cell };
  }
  return null;
}

function goTo(at, isKeyed) {
  view.at = at;
  view.isKeyed = isKeyed;
  const item = at && itemAt(at);
  state.hoverJob = item && item.cell.workload && item.cell.state !== "stranded" ? item.cell.workload : null;
  showTip(item, at);
  changed();
}

function onMove(event) {
  const at = hit(event);
  if (JSON.stringify(at) !== JSON.stringify(view.at)) goTo(at, false);
}

function leave() {
  if (view.at) goTo(null, false);
}

function onClick(event) {
  const at = hit(event);
  if (at) openItem(itemAt(at));
}

function openItem(item) {
  if (item.node.isMany) {
    view.rack = item.node.rack || "";
    changed();
    return;
  }
  const gpu = item.cell.uuid ? `?gpu=${encodeURIComponent(item.cell.uuid)}` : "";
  open(`/node/${encodeURIComponent(item.node.name)}${gpu}`);
}

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function onKey(event) {
  if (event.key === "Enter" && view.at) return openItem(itemAt(view.at));
  if (event.key === "Escape" && view.at) {
    event.stopPropagation();
    return leave();
  }
  const step = STEPS[event.key];
  if (!step || !view.placed) return undefined;
  event.preventDefault();
  return goTo(view.at ? stepped(view.at, step) : { block: 0, row: 0, cell: 0 }, true);
}

/** One step on; over the edge of a block into its neighbour. */
function stepped(at, [down, right]) {
  const { blocks } = view.placed;
  const next = { block: at.block, row: at.row + down, cell: at.cell + right };
  if (itemAt(next)) return next;
  const here = blocks[at.block];
  const isBeside = (b) => (right ? b.y === here.y && (b.x - here.x) * right > 0 : b.x === here.x && (b.y - here.y) * down > 0);
  const distance = (b) => Math.abs(b.x - here.x) + Math.abs(b.y - here.y);
  const beside = blocks.filter(isBeside).sort((a, b) => distance(a) - distance(b))[0];
  if (!beside) return at;
  const rows = beside.rows.length - 1;
  const row = right ? Math.min(at.row, rows) : down > 0 ? 0 : rows;
  const cells = beside.rows[row].cells.length - 1;
  const cell = right ? (right > 0 ? 0 : cells) : Math.min(at.cell, cells);
  return { block: blocks.indexOf(beside), row, cell };
}

function showTip(item, at) {
  tip.hidden = !item;
  if (!item) return;
  render(tip, ...tipLines(item));
  const { pitch } = view.placed;
  const block = view.placed.blocks[at.block];
  const left = block.cellsX + (at.cell + 1) * pitch + 6;
  const room = canvas.clientWidth - tip.offsetWidth;
  tip.style.left = `${Math.max(Math.min(left, room), 0)}px`;
  const y = block.cellsY + at.row * pitch;
  const isLow = y > canvas.clientHeight / 2 && y > tip.offsetHeight;
  tip.style.top = `${isLow ? y - tip.offsetHeight - 6 : y + pitch + 6}px`;
}

function tipLines({ node, cell, nodes }) {
  const name = node.isMany ? node.name : cell.uuid ? `${node.name} ${gpuName(node.name, cell.uuid)}` : node.name;
  const values = Object.values(MEASURES).filter(({ field }) => cell[field] !== null);
  const holder = cell.workload ? `${cell.state === "stranded" ? " for " : " · "}${jobName(cell.workload)}` : "";
  const cordon = node.is_cordoned ? ` · cordoned${node.cordoned_by ? ` by ${node.cordoned_by}` : ""}` : "";
  const found = [...new Set([...cell.findings, ...node.findings])].map((id) => state.lookups.findings.get(id));
  return [
    h("strong", {}, name, nodes > 1 ? ` (${plural(nodes, "node")})` : ""),
    h("div", {}, CELL_WORDS[cell.state], holder, cordon),
    values.length
      ? h("div", { class: "dim" }, values.map((m) => `${m.label} ${quantity(cell[m.field], m.unit)}`).join(" · "))
      : null,
    found.filter(Boolean).slice(0, 3).map((item) => h("div", { class: "bad-text" }, `F${item.id} ${bare(item.finding.sentence)}`)),
  ];
}

const FORMS = ["free", "stranded", "spare", "held_idle", "lost", "cordoned", "silent"];

function legend() {
  const measure = MEASURES[view.measure];
  const present = new Set(state.board?.nodes.flatMap((node) => node.cells.map((cell) => cell.state)));
  const isCordoned = state.board?.nodes.some((node) => node.is_cordoned);
  const waits = state.lookups?.waiting || [];
  const stranded = new Set(state.board?.nodes.flatMap((n) => n.cells.filter((c) => c.state === "stranded").map((c) => c.workload)));
  const shown = FORMS.filter((form) => (form === "cordoned" ? isCordoned : present.has(form)));
  const words = (form) => (form === "stranded" ? `stranded for ${[...stranded].map(jobName).join(", ")}` : CELL_WORDS[form]?.split(":")[0] || form);
  return h("div", { class: "legend", key: "legend" },
    h("span", { class: "scale" },
      h("span", {}, quantity(measure.low, measure.unit).replace("0 %", "0")),
      h("canvas", { "data-keep": true, keep: true, mount: drawScale, width: "100", height: "10", "aria-hidden": "true" }),
      h("span", {}, quantity(measure.high, measure.unit))),
    shown.map((form) => h("span", { key: form },
      h("canvas", { "data-keep": true, keep: true, mount: (el) => drawForm(el, form), refresh: (el) => drawForm(el, form), "aria-hidden": "true" }),
      words(form))),
    waits.length > 4 ? h("span", { class: "dim" }, `${number(waits.length)} wait`) : null);
}

function drawScale(el) {
  const ctx = prepare(el, 100, 10);
  for (let i = 0; i < 10; i += 1) {
    ctx.fillStyle = viridis(i / 9);
    ctx.fillRect(i * 10, 0, 9, 10);
  }
}

function drawForm(el, form) {
  const ctx = prepare(el, 12, 12);
  const stranded = state.board?.nodes.flatMap((node) => node.cells).find((cell) => cell.state === "stranded");
  const ring = waitingColour(stranded ? state.lookups.waiting.indexOf(stranded.workload) : 0);
  const isCordon = form === "cordoned";
  drawCell(ctx, 0, 0, 12, { form: isCordon ? "unusable" : form, fill: viridis(0.8), ring, isHatched: isCordon });
}

