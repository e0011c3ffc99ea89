// The fleet as a table: what the picture shows, for whoever reads it with a screen reader or wants the numbers.

import { h, link } from "./dom.js";
import { STATES } from "./fleetdata.js";
import { nodePath } from "./route.js";
import { t } from "./say.js";
import { changed, state } from "./state.js";
import { cellWords, number, plural } from "./words.js";

const BLOCKS_SHOWN = 200;
const NODES_SHOWN = 100;
const COLUMNS = STATES.map((_, place) => place);
const view = { isOpen: false, block: null };

export function fleetTable(blocks, group) {
  const on = {
    toggle(event) {
      if (event.target.open === view.isOpen) return;
      view.isOpen = event.target.open;
      changed();
    },
  };
  return h("details", { key: "table", class: "fleet-table", on },
    h("summary", {}, t("fleet-table")),
    view.isOpen ? tables(blocks, group) : null);
}

function tables(blocks, group) {
  const chosen = blocks.find((block) => block.title === view.block);
  return [
    chosen ? null : overview(blocks, group),
    chosen ? inside(chosen) : null,
  ];
}

function countsOf(cells) {
  const counts = new Uint32Array(STATES.length);
  for (const cell of cells) counts[state.fleet.columns.state[cell]] += 1;
  return counts;
}

function used() {
  return COLUMNS.filter((place) => state.fleet.counts.states[place]);
}

function head(first) {
  return h("thead", {}, h("tr", {}, [first, t("fleet-table-gpus"), ...used().map((place) => cellWords(STATES[place])), t("fleet-table-findings")].map((word) => h("th", { scope: "col" }, word))));
}

function line(name, cells, nodes, key) {
  const counts = countsOf(cells);
  const findings = new Set(nodes.flatMap((node) => state.fleet.nodeFindings.get(node) || []));
  return h("tr", { key },
    h("th", { scope: "row" }, name),
    h("td", {}, number(cells.length)),
    used().map((place) => h("td", {}, counts[place] ? number(counts[place]) : "·")),
    h("td", {}, [...findings].slice(0, 4).flatMap((id, i) => [i ? " " : "", link(`/f/${id}`, {}, `F${id}`)]), findings.size > 4 ? " …" : ""));
}

function overview(blocks, group) {
  const openBlock = (block) => h("button", { class: "quiet", on: { click: () => choose(block.title) } }, block.title || t("fleet-table-all"));
  return h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": t("fleet-table"), key: "overview" },
    h("table", { class: "numbers" },
      head(t(`fleet-group-${group}`)),
      h("tbody", {}, blocks.slice(0, BLOCKS_SHOWN).map((block, i) => line(openBlock(block), block.rows.flatMap((row) => row.cells), block.rows.map((row) => row.node), i)))),
    blocks.length > BLOCKS_SHOWN ? h("p", { class: "dim" }, t("and-more", { n: number(blocks.length - BLOCKS_SHOWN) })) : null);
}

function choose(title) {
  view.block = title;
  changed();
}

function inside(block) {
  return h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": block.title, key: "inside" },
    h("button", { class: "quiet", on: { click: () => choose(null) } }, t("fleet-table-back")),
    h("table", { class: "numbers" },
      h("caption", {}, `${block.title || t("fleet-table-all")}: ${plural(block.cells, "gpus")}`),
      head(t("fleet-table-node")),
      h("tbody", {}, block.rows.slice(0, NODES_SHOWN).map((row, i) => line(link(nodePath(row.label), {}, row.label), row.cells, [row.node], i)))),
    block.rows.length > NODES_SHOWN ? h("p", { class: "dim" }, t("and-more", { n: number(block.rows.length - NODES_SHOWN) })) : null);
}
