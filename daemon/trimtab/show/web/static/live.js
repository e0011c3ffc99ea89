// The one door to the daemon: the stream of boards, questions and decisions.

export class ApiError extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

async function answer(response) {
  if (response.ok) return response.json();
  let sentence = `The daemon answered ${response.status}.`;
  try {
    sentence = (await response.json()).error || sentence;
  } catch {
    // Not ours: a proxy's page. The status says what there is to say.
  }
  throw new ApiError(response.status, sentence);
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new ApiError(0, "The daemon cannot be reached; nothing was sent. Try again when the beat is back.");
  }
  return answer(response);
}

export function get(path) {
  return send(path, { headers: { Accept: "application/json" } });
}

export function post(path, body) {
  return send(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

const RETRY_MS = [1000, 2000, 4000, 8000];

/** Follow the boards: `onBoard(board)` for each; `onTrouble(sentence, status)` when the line is down. Never ends. */
export function follow({ onBoard, onTrouble }) {
  let tries = 0;
  let source = null;

  function open() {
    source = new EventSource("/api/v1/events");
    source.addEventListener("board", (event) => {
      tries = 0;
      onBoard(JSON.parse(event.data));
    });
    source.onerror = () => {
      source.close();
      retry();
    };
  }

  // EventSource tells no status; one question tells whether we are signed out, starting, or out of reach.
  async function retry() {
    const wait = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)];
    tries += 1;
    try {
      onBoard(await get("/api/v1/board"));
    } catch (error) {
      onTrouble(error.message, error.status);
    }
    setTimeout(open, wait);
  }

  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (event) => event.persisted && open());
  open();
}
