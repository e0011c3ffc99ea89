// The one door to the daemon: the stream of boards, questions and decisions.

import { t } from "./say.js";

export class ApiError extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

async function answer(response) {
  if (response.ok) return response.status === 204 ? null : response.json();
  let sentence = t("line-status", { status: response.status });
  try {
    sentence = (await response.json()).error || sentence;
  } catch {
    // Not ours: a proxy's page. The status says what there is to say.
  }
  if (response.status === 401) document.dispatchEvent(new Event("trimtab:signed-out")); // signin.js asks to sign in
  throw new ApiError(response.status, sentence);
}

let csrf = null;

/** What a decision by the page's cookie must bear, where the daemon asks for it. */
export function setCsrf(token) {
  csrf = token;
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, t("line-unreachable"));
  }
  return answer(response);
}

export function get(path, signal) {
  return send(path, { headers: { Accept: "application/json" }, signal });
}

export function post(path, body) {
  const headers = { "Content-Type": "application/json", ...(csrf ? { "X-Trimtab-CSRF": csrf } : {}) };
  return send(path, { method: "POST", headers, body: JSON.stringify(body) });
}

const RETRY_MS = [1000, 2000, 4000, 8000];

/** Follow the boards: each event of the stream to its taker; `onTrouble(sentence, status)` when the line is down.
 * Never ends. A change that does not fit what we have asks for the whole. */
export function follow({ onFrame, onChange, onUuids, onTrouble }) {
  let tries = 0;
  let source = null;
  let last = "";

  function open() {
    source = new EventSource(`/api/v1/stream${last ? `?since=${last}` : ""}`);
    const hear = (name, take) =>
      source.addEventListener(name, (event) => {
        tries = 0;
        if (take(JSON.parse(event.data)) === false) {
          last = "";
          source.close();
          open();
        } else last = event.lastEventId;
      });
    hear("frame", onFrame);
    hear("change", onChange);
    hear("uuids", onUuids);
    source.onerror = () => {
      source.close();
      retry();
    };
  }

  // EventSource tells no status; one question tells whether we are signed out, starting, or out of reach.
  async function retry() {
    const wait = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)];
    tries += 1;
    last = "";
    try {
      await get("/api/v1/findings?limit=1");
    } catch (error) {
      onTrouble(error.message, error.status);
    }
    setTimeout(open, wait);
  }

  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (event) => event.persisted && open());
  open();
  return { again: () => source?.readyState !== EventSource.OPEN && (source?.close(), (tries = 0), open()) };
}
