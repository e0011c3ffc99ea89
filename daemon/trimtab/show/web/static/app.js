// The page: takes each board as it comes and shows its parts.

import { renderDetail } from "./detail.js";
import { renderFleet } from "./fleet.js";
import { renderHead, renderStrip, tickBeat } from "./head.js";
import { renderTodo, renderWaits, renderWrong } from "./lists.js";
import { follow } from "./live.js";
import { start } from "./route.js";
import { startSearch } from "./search.js";
import { changed, onChange, state, takeBoard } from "./state.js";

const part = (id) => document.getElementById(id);

onChange(() => {
  renderHead();
  if (!state.board) return;
  document.body.classList.add("has-board");
  renderStrip();
  renderFleet(part("fleet"));
  renderWaits(part("waits"));
  renderDetail(part("detail"));
  renderTodo(part("todo"));
  renderWrong(part("wrong"));
});

start();
startSearch(part("search"));
setInterval(tickBeat, 1000);
follow({
  onBoard: takeBoard,
  onTrouble(sentence, status) {
    state.trouble = { sentence, status };
    changed();
  },
});
changed();
