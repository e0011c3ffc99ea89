// The view that is open beside the fleet: a recommendation, a finding, a node and its GPUs, or a job.

import { commandView } from "./command.js";
import { h, link, render } from "./dom.js";
import { findingView } from "./finding.js";
import { jobView } from "./job.js";
import { get } from "./live.js";
import { nodeView } from "./node.js";
import { queueView } from "./queue.js";
import { t } from "./say.js";
import { changed, commandRow, finding, state } from "./state.js";

const VIEWS = { command: commandView, finding: findingView, node: nodeView, job: jobView, queue: queueView };

export function renderDetail(container) {
  const view = VIEWS[state.path.view];
  container.hidden = !view;
  document.body.classList.toggle("has-detail", Boolean(view));
  if (!view) {
    render(container);
    return;
  }
  const key = JSON.stringify(state.path);
  render(container, h("article", { key }, view(state.path)));
  if (state.wantsFocus) {
    state.wantsFocus = false;
    const isNarrow = !matchMedia("(min-width: 900px)").matches;
    if (isNarrow || container.getBoundingClientRect().top < 0) container.scrollIntoView({ block: "start" });
    container.querySelector("h2")?.focus({ preventScroll: true });
  }
}

/** The heading of a view, with the way back. */
export function heading(id, title, ...beside) {
  return h("div", { class: "panel-head" },
    h("h2", { tabindex: "-1", class: "detail-title" }, id ? h("span", { class: "id" }, id) : null, id ? " · " : null, title),
    beside,
    link("/", { class: "button quiet", "aria-label": t("close-view") }, t("close")));
}

export function part(title, ...children) {
  return h("section", { class: "part" }, h("h3", {}, title), children);
}

/** Ask for what the board no longer holds; once, and a no stands as its sentence. */
export function fetchOnce(kind, id, path) {
  const key = `${kind}/${id}`;
  if (state.fetched.missing[key]) return state.fetched.missing[key];
  state.fetched.missing[key] = t("asking");
  get(path).then(
    (value) => {
      state.fetched[kind][id] = value;
      changed();
    },
    (error) => {
      state.fetched.missing[key] = error.message;
      changed();
    },
  );
  return state.fetched.missing[key];
}

export function findingOrAsk(id) {
  const found = finding(id);
  if (!found) fetchOnce("findings", id, `/api/v1/findings/${id}`);
  return found;
}

export function commandOrAsk(id) {
  const found = commandRow(id);
  if (!found) fetchOnce("commands", id, `/api/v1/recommendations/${id}`);
  return found;
}
