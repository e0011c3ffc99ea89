// One GPU as a small picture: magnitude by colour, state by form. Used by the fleet and by before → after.

import { theme, viridis, waitingColour } from "./colour.js";

const IDLE = "#7488c8"; // readable on both themes

/** How a cell looks: its form, fill and marks. `waiting` is the ids of who waits, in order. */
export function lookOf(cell, node, measure, waiting) {
  const value = cell[measure.field];
  const share = value === null ? null : (value - measure.low) / (measure.high - measure.low);
  return {
    form: cell.state,
    fill: share === null ? theme().faint : viridis(share),
    ring: cell.state === "stranded" ? waitingColour(waiting.indexOf(cell.workload)) : null,
    isHatched: node.is_cordoned,
    isMarked: cell.findings.length > 0,
    label: "",
  };
}

function path(ctx, x, y, s, inset) {
  const r = s >= 14 ? 3 : s >= 8 ? 2 : 0;
  ctx.beginPath();
  if (r) ctx.roundRect(x + inset, y + inset, s - 2 * inset, s - 2 * inset, r);
  else ctx.rect(x + inset, y + inset, s - 2 * inset, s - 2 * inset);
}

function outline(ctx, x, y, s, colour, width = 1, dash = []) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.setLineDash(dash);
  path(ctx, x, y, s, width / 2);
  ctx.stroke();
  ctx.setLineDash([]);
}

function stroke(ctx, colour, width, ...lines) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.beginPath();
  for (const [x1, y1, x2, y2] of lines) {
    ctx.moveTo(x1, y1);
    ctx.lineTo(x2, y2);
  }
  ctx.stroke();
}

function fill(ctx, x, y, s, colour) {
  ctx.fillStyle = colour;
  path(ctx, x, y, s, 0);
  ctx.fill();
}

const FORMS = {
  working: (ctx, x, y, s, look) => fill(ctx, x, y, s, look.fill),
  held_idle(ctx, x, y, s, look) {
    const colours = theme();
    ctx.save();
    path(ctx, x, y, s, 0);
    ctx.clip();
    ctx.fillStyle = colours.panel;
    ctx.fillRect(x, y, s, s);
    ctx.fillStyle = IDLE;
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x + s, y + s);
    ctx.lineTo(x, y + s);
    ctx.fill();
    ctx.restore();
    outline(ctx, x, y, s, IDLE);
  },
  free: (ctx, x, y, s) => outline(ctx, x, y, s, theme().hollow),
  stranded: (ctx, x, y, s, look) => outline(ctx, x, y, s, look.ring, s >= 10 ? 2 : 1),
  spare(ctx, x, y, s) {
    outline(ctx, x, y, s, theme().sky);
    ctx.fillStyle = theme().sky;
    ctx.beginPath();
    ctx.arc(x + s / 2, y + s / 2, Math.max(s / 9, 0.8), 0, 2 * Math.PI);
    ctx.fill();
  },
  lost(ctx, x, y, s) {
    const bad = theme().bad;
    const d = s * 0.26;
    outline(ctx, x, y, s, bad, s >= 10 ? 2 : 1);
    stroke(ctx, bad, s >= 10 ? 2 : 1, [x + d, y + d, x + s - d, y + s - d], [x + s - d, y + d, x + d, y + s - d]);
  },
  unusable(ctx, x, y, s) {
    outline(ctx, x, y, s, theme().hollow);
    stroke(ctx, theme().hollow, 1, [x + s * 0.28, y + s / 2, x + s * 0.72, y + s / 2]);
  },
  silent: (ctx, x, y, s) => outline(ctx, x, y, s, theme().dim, 1, s >= 8 ? [2, 2] : [1, 1]),
  unknown(ctx, x, y, s) {
    outline(ctx, x, y, s, theme().dim, 1, s >= 8 ? [2, 2] : [1, 1]);
    if (s < 11) return;
    ctx.fillStyle = theme().dim;
    ctx.font = `${Math.round(s * 0.62)}px ${theme().font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText("?", x + s / 2, y + s / 2 + 0.5);
  },
};

function hatch(ctx, x, y, s, isOnFill) {
  ctx.save();
  path(ctx, x, y, s, 0);
  ctx.clip();
  const step = Math.max(s / 3, 3);
  const lines = [];
  for (let d = -s; d < s; d += step) lines.push([x + d, y + s, x + d + s, y]);
  if (isOnFill) stroke(ctx, "rgba(10,14,20,.8)", 1.5, ...lines);
  else stroke(ctx, theme().dim, 1, ...lines);
  ctx.restore();
  outline(ctx, x, y, s, theme().dim);
}

export function drawCell(ctx, x, y, s, look) {
  FORMS[look.form]?.(ctx, x, y, s, look);
  if (look.isHatched && s >= 4 && look.form !== "lost") hatch(ctx, x, y, s, look.form === "working");
  if (look.isMarked && s >= 8 && look.form !== "lost") mark(ctx, x, y, s);
  if (look.label && look.form !== "lost") number(ctx, x, y, s, look.label);
}

function mark(ctx, x, y, s) {
  const d = Math.max(s * 0.36, 4);
  ctx.fillStyle = theme().bad;
  ctx.strokeStyle = theme().panel;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(x + s - d, y);
  ctx.lineTo(x + s, y);
  ctx.lineTo(x + s, y + d);
  ctx.closePath();
  ctx.fill();
  ctx.stroke();
}

function number(ctx, x, y, s, label) {
  ctx.font = `600 ${Math.round(s * (label.length > 2 ? 0.42 : 0.55))}px ${theme().font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.lineWidth = 3;
  ctx.strokeStyle = "rgba(10,14,20,.85)";
  ctx.strokeText(label, x + s / 2, y + s / 2 + 0.5);
  ctx.fillStyle = "#fff";
  ctx.fillText(label, x + s / 2, y + s / 2 + 0.5);
}

/** A canvas of this size in sharp pixels, cleared. */
export function prepare(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  return ctx;
}

/** A text cut so that it fits. */
export function fitted(ctx, text, wide) {
  if (ctx.measureText(text).width <= wide) return text;
  let cut = text;
  while (cut.length > 1 && ctx.measureText(`${cut}…`).width > wide) cut = cut.slice(0, -1);
  return `${cut}…`;
}

/** Thin hatching over a box: here nothing is known. */
export function hatchBox(ctx, [x, y, wide, tall], colour) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x - 2, y - 2, wide + 1, tall + 1);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let along = -tall; along < wide; along += 7) {
    ctx.moveTo(x + along, y + tall);
    ctx.lineTo(x + along + tall, y);
  }
  ctx.stroke();
  ctx.restore();
}
