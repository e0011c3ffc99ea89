// Search: node, GPU, job, UUID, finding or recommendation; the keyboard alone is enough.

import { h, render } from "./dom.js";
import { jobPath, nodePath, open, queuePath } from "./route.js";
import { t } from "./say.js";
import { state } from "./state.js";
import { bare } from "./words.js";

const SHOWN_MAX = 8;
const NODES_MAX = 400;
let input = null;
let list = null;
let none = null;
let found = [];
let chosen = 0;

/** The field, made once and named anew where the language changes. */
export function renderSearch(box) {
  if (!input) start(box);
  input.placeholder = t("search-hint");
  input.setAttribute("aria-label", t("search-label"));
  list.setAttribute("aria-label", t("search-found"));
}

function start(box) {
  input = h("input", {
    type: "search", autocomplete: "off", spellcheck: "false", role: "combobox", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list",
    on: { input: look, keydown: onKey, blur: () => setTimeout(hide, 150), focus: look },
  });
  list = h("ul", { id: "found", role: "listbox", hidden: true });
  none = h("p", { id: "found-none", role: "status", hidden: true });
  box.append(input, list, none);
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, select, textarea, dialog")) return;
    event.preventDefault();
    input.focus();
  });
}

function look() {
  const words = input.value.trim().toLowerCase();
  found = words && state.board ? matches(words).slice(0, SHOWN_MAX) : [];
  chosen = 0;
  show(words);
}

function matches(words) {
  const { board } = state;
  const made = [];
  const add = (text, kind, path, rank) => made.push({ text, kind, path, rank });
  const rank = (text) => {
    const place = text.toLowerCase().indexOf(words);
    return place < 0 ? null : place + (text.length === words.length ? -1 : 0);
  };
  const offer = (text, kind, path, shown = text) => rank(text) !== null && add(shown, kind, path, rank(text));
  const { fleet } = state;
  for (let place = 0; place < fleet.names.length && made.length <= NODES_MAX; place += 1) offer(fleet.names[place], t("search-node"), nodePath(fleet.names[place]));
  offerGpus(words, made);
  for (const job of board.jobs) offer(job.id, t("search-job", { state: t(`job-${job.state}`) }), jobPath(job.id));
  const ofPod = board.jobs.find((job) => words.startsWith(`${job.name.toLowerCase()}-`) && !state.lookups.jobs.has(words));
  if (ofPod) made.push({ text: ofPod.id, kind: t("search-pod"), path: jobPath(ofPod.id), rank: 1 });
  for (const queue of board.queues || []) offer(queue.name, t("search-queue"), queuePath(queue.name));
  for (const item of board.findings) offer(`F${item.id} ${bare(item.finding.sentence)}`, t("search-finding"), `/f/${item.id}`);
  for (const row of board.commands) offer(`${row.name} ${bare(row.command.recommendation.sentence)}`, t("search-recommendation"), `/r/${row.command.id}`);
  return made.sort((a, b) => a.rank - b.rank || a.text.length - b.text.length);
}

/** GPUs by UUID, or by their node and number: `gpu-07 gpu 3`. */
function offerGpus(words, made) {
  const { fleet } = state;
  const add = (cell, rank) => {
    const node = fleet.names[fleet.owner[cell]];
    const name = fleet.indices[cell] < 0 ? fleet.uuid(cell) : `${node} GPU ${fleet.indices[cell]}`;
    made.push({ text: name, kind: "GPU", path: nodePath(node, fleet.uuid(cell)), rank });
  };
  const named = words.match(/^(\S+) (?:gpu ?)?(\d*)$/);
  const node = named ? fleet.place.get(fleet.names.find((name) => name.toLowerCase() === named[1])) : undefined;
  if (node !== undefined) {
    for (let cell = fleet.first[node]; cell < fleet.first[node + 1]; cell += 1) if (String(fleet.indices[cell]).startsWith(named[2])) add(cell, 1);
  }
  if (words.length < 4 || !fleet.uuids) return;
  for (let cell = 0; cell < fleet.size && made.length < NODES_MAX; cell += 1) {
    const rank = fleet.uuids[cell].toLowerCase().indexOf(words);
    if (rank >= 0) add(cell, rank);
  }
}

function show(words) {
  list.hidden = !found.length;
  none.hidden = !words || found.length > 0;
  none.textContent = t("search-nothing");
  input.setAttribute("aria-expanded", String(found.length > 0));
  if (found.length) input.setAttribute("aria-activedescendant", `found-${chosen}`);
  else input.removeAttribute("aria-activedescendant");
  render(list, found.map((one, i) =>
    h("li", { id: `found-${i}`, role: "option", "aria-selected": String(i === chosen), on: { pointerdown: () => choose(one) } },
      h("span", {}, one.text), h("span", { class: "dim" }, one.kind))));
}

function choose(one) {
  input.value = "";
  hide();
  open(one.path);
}

function hide() {
  list.hidden = none.hidden = true;
  input.setAttribute("aria-expanded", "false");
}

function onKey(event) {
  if (event.key === "Escape") {
    input.value = "";
    hide();
    input.blur();
  } else if (event.key === "Enter" && found[chosen]) {
    choose(found[chosen]);
    input.blur();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const step = event.key === "ArrowDown" ? 1 : -1;
    chosen = (chosen + step + found.length) % Math.max(found.length, 1);
    show(input.value.trim());
  }
}
