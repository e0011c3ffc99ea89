// Before and after: the nodes that a recommendation concerns, as they are and as its moves leave them.

import { drawCell, lookOf, prepare } from "./cell.js";
import { theme } from "./colour.js";
import { h, kept } from "./dom.js";
import { MEASURES } from "./measures.js";
import { t } from "./say.js";
import { jobName, state } from "./state.js";

const SIZE = 18;
const PITCH = 21;
const NODES_MAX = 12;

/** The nodes that change, in the order in which the moves name them. */
function concerned({ moves, writes }) {
  const named = [
    ...writes.filter((w) => w.verb === "cordon" || w.verb === "uncordon").map((w) => w.node),
    ...moves.map((move) => move.node),
    ...moves.flatMap((move) => changes(move).flatMap(({ from, to }) => [from?.node, to?.node])),
  ];
  return [...new Set(named.filter((name) => name && state.lookups.nodes.has(name)))];
}

/** The pods that a move takes elsewhere: from which seat to which. Who stays where it sits does not move. */
function changes(move) {
  const before = new Map(move.before.map((seat) => [seat.pod, seat]));
  return move.after
    .map((to) => ({ from: before.get(to.pod) || null, to, workload: move.workload }))
    .filter(({ from, to }) => !from || from.node !== to.node);
}

export function pictures(row) {
  const { recommendation } = row.command;
  const names = concerned(recommendation);
  if (!names.length) return null;
  const shown = names.slice(0, NODES_MAX);
  const steps = recommendation.moves.flatMap(changes);
  const sides = scene(recommendation, shown, steps);
  const words = steps.map(({ from, to, workload }, i) => `${i + 1}: ${t(from ? "move-spoken" : "start-spoken", { gpus: String(to.gpus), job: jobName(workload), from: from?.node || "", to: to.node })}`);
  return h("div", { class: "pictures" },
    picture("before", shown, sides.before, [t("picture-before"), ...words].join(". ")),
    h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
    picture("after", shown, sides.after, t("picture-after")),
    names.length > shown.length ? h("p", { class: "dim" }, t("and-more", { n: String(names.length - shown.length) })) : null,
    steps.length ? moveList(steps) : null);
}

function moveList(steps) {
  return h("ol", { class: "moves" }, steps.slice(0, NODES_MAX).map(({ from, to, workload }) => {
    const job = jobName(workload);
    const way = from ? `${from.node} → ${to.node}` : t("starts-on", { node: to.node });
    return h("li", {}, h("b", {}, job), ` ${to.pod !== job && to.pod ? to.pod : ""} ${way}, ${to.gpus} GPUs`);
  }));
}

/** Looks of the cells on both sides: what moves is taken off the board as it is now, then seated by the plan. */
function scene(recommendation, names, steps) {
  const movers = new Set(recommendation.moves.map((move) => move.workload).filter(Boolean));
  const before = new Map();
  const after = new Map();
  for (const name of names) {
    const node = state.lookups.nodes.get(name);
    before.set(name, node.cells.map((cell) => own(node, cell, movers)));
    after.set(name, node.cells.map((cell) => own(node, cell, movers)));
  }
  for (const move of recommendation.moves) {
    for (const seat of move.before) sit(before, seat, move.workload);
    for (const seat of move.after) sit(after, seat, move.workload);
  }
  steps.forEach(({ from, to, workload }, i) => {
    if (from) label(before, from, workload, String(i + 1));
    label(after, to, workload, String(i + 1));
  });
  for (const { verb, node, lasts } of recommendation.writes) {
    const isCordon = verb === "cordon" && lasts;
    if (!isCordon && verb !== "uncordon") continue;
    for (const look of after.get(node) || []) look.isHatched = isCordon;
    if (isCordon) for (const look of before.get(node) || []) look.isHatched = false;
  }
  return { before, after };
}

function own(node, cell, movers) {
  const look = { ...lookOf(cell, node, MEASURES.activity, state.lookups.waiting), uuid: cell.uuid, holder: cell.workload };
  const isMover = movers.has(cell.workload) || cell.state === "stranded";
  if (isMover) look.holder = null;
  if (isMover && !["lost", "silent", "unknown"].includes(look.form)) look.form = node.is_spare ? "spare" : "free";
  return look;
}

const FREE = new Set(["free", "spare", "unusable", "stranded"]);

/** Put one pod on the free cells of its node; the lost one among them stays lost, with its pod on it. */
function sit(side, seat, workload) {
  const looks = side.get(seat.node) || [];
  const places = looks.filter((look) => look.holder === null && look.pod === undefined);
  const able = places.filter((look) => FREE.has(look.form));
  const chosen = [...able, ...places.filter((look) => !able.includes(look))].slice(0, seat.gpus);
  for (const look of chosen) {
    look.holder = workload;
    look.pod = seat.pod;
    if (FREE.has(look.form)) Object.assign(look, { form: "working", fill: theme().sky });
  }
}

function label(side, seat, workload, text) {
  for (const look of side.get(seat.node) || []) {
    if (look.pod === seat.pod && look.holder === workload) look.label = text;
  }
}

function picture(title, names, side, words) {
  const paint = (el) => draw(el, names, side);
  return h("figure", { class: "picture" },
    h("figcaption", {}, t(`picture-${title}`)),
    kept("canvas", { key: title, role: "img", "aria-label": words }, paint, paint));
}

function draw(canvas, names, side) {
  const font = `11px ${theme().font}`;
  const probe = canvas.getContext("2d");
  probe.font = font;
  const label = Math.ceil(Math.max(...names.map((name) => probe.measureText(name).width))) + 8;
  const wide = Math.max(...[...side.values()].map((looks) => looks.length), 1);
  const ctx = prepare(canvas, label + wide * PITCH, names.length * PITCH);
  names.forEach((name, r) => {
    ctx.font = font;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.fillStyle = theme().dim;
    ctx.fillText(name, 0, r * PITCH + SIZE / 2 + 0.5);
    side.get(name).forEach((look, c) => drawCell(ctx, label + c * PITCH, r * PITCH, SIZE, look));
  });
}
