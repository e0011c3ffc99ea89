// Search: node, GPU, job, UUID, finding or recommendation; the keyboard alone is enough.

import { h, render } from "./dom.js";
import { jobPath, nodePath, open } from "./route.js";
import { state } from "./state.js";
import { bare } from "./words.js";

const SHOWN_MAX = 8;
let input = null;
let list = null;
let found = [];
let chosen = 0;

export function startSearch(box) {
  input = h("input", {
    type: "search", placeholder: "node, GPU, job, UUID … ( / )", "aria-label": "Search node, GPU, job or UUID", autocomplete: "off",
    spellcheck: "false", role: "combobox", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list",
    on: { input: look, keydown: onKey, blur: () => setTimeout(hide, 150), focus: look },
  });
  list = h("ul", { id: "found", role: "listbox", hidden: true });
  box.append(input, list);
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
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
  for (const node of board.nodes) {
    offer(node.name, "node", nodePath(node.name));
    if (made.length > 400) break;
    for (const cell of node.cells) {
      const name = cell.index === null ? cell.uuid : `${node.name} GPU ${cell.index}`;
      if (words.length > 2 && rank(node.name) === null) offer(`${name} ${cell.uuid}`, "GPU", nodePath(node.name, cell.uuid), name);
      else if (words.includes(" ")) offer(name, "GPU", nodePath(node.name, cell.uuid));
    }
  }
  for (const job of board.jobs) offer(job.id, `job, ${job.state}`, jobPath(job.id));
  for (const item of board.findings) offer(`F${item.id} ${bare(item.finding.sentence)}`, "finding", `/f/${item.id}`);
  for (const row of board.commands) offer(`${row.name} ${bare(row.command.recommendation.sentence)}`, "recommendation", `/r/${row.command.id}`);
  return made.sort((a, b) => a.rank - b.rank || a.text.length - b.text.length);
}

function show(words) {
  list.hidden = !words;
  input.setAttribute("aria-expanded", String(Boolean(words)));
  if (found.length) input.setAttribute("aria-activedescendant", `found-${chosen}`);
  else input.removeAttribute("aria-activedescendant");
  const none = words ? h("li", { class: "dim" }, "Nothing here has that in its name.") : null;
  render(list, found.length
    ? found.map((one, i) =>
        h("li", { id: `found-${i}`, role: "option", "aria-selected": String(i === chosen), on: { pointerdown: () => choose(one) } },
          h("span", {}, one.text), h("span", { class: "dim" }, one.kind)))
    : none);
}

function choose(one) {
  input.value = "";
  hide();
  open(one.path);
}

function hide() {
  list.hidden = true;
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
