// The page: takes each board as it comes and shows its parts.

import { renderDetail } from "./detail.js";
import { renderFleet } from "./fleet.js";
import { renderFrame, renderHead, tickBeat } from "./head.js";
import { startIncidents } from "./incidents.js";
import { renderTodo, renderWaits, renderWrong } from "./lists.js";
import { follow } from "./live.js";
import { start } from "./route.js";
import { onLocaleChange } from "./say.js";
import { renderScrubber, startPast } from "./scrubber.js";
import { renderSearch } from "./search.js";
import { changed, onChange, state, takeChange, takeFrame, takeUuids } from "./state.js";
import { renderStrip } from "./strip.js";

const part = (id) => document.getElementById(id);

onChange(() => {
  renderHead();
  renderFrame();
  renderSearch(part("search"));
  renderScrubber(part("scrubber"));
  if (!state.board) return;
  document.body.classList.add("has-board");
  renderStrip(part("strip"));
  renderFleet(part("fleet"));
  renderWaits(part("waits"));
  renderDetail(part("detail"));
  renderTodo(part("todo"));
  renderWrong(part("wrong"));
  mark();
});

const shown = { at: null };

/** For whoever measures: when the fleet was first drawn, and when each board was. */
function mark() {
  if (shown.at === state.board.at) return;
  if (shown.at === null) performance.mark("fleet-painted");
  else {
    performance.clearMarks("beat-shown");
    performance.mark("beat-shown", { detail: state.board.at });
  }
  shown.at = state.board.at;
}

start();
startPast();
startIncidents();
onLocaleChange(changed);
setInterval(tickBeat, 1000);
const line = follow({
  onFrame: takeFrame,
  onChange: takeChange,
  onUuids: takeUuids,
  onTrouble(sentence, status) {
    state.trouble = { sentence, status };
    if (status === 401) document.dispatchEvent(new CustomEvent("trimtab:signed-out"));
    changed();
  },
});
document.addEventListener("trimtab:me", () => line.again());
changed();
