// Who is here: asks the daemon, shows the form to whoever is not signed in, and ends a session when asked.
// The page's files are the same for everybody and hold nothing; a link from a message finds its place after signing in.

import { ApiError, get, post, setCsrf } from "./live.js";
import { onLocaleChange, t } from "./say.js";

/** Who is signed in ({name, role, signed_in_by, csrf, session_id, expires_at}), or null. */
export let me = null;

let dialog = null;

/** Ask who is here; null where nobody is signed in. A daemon that does not answer is asked again by the stream. */
export async function whoIsHere() {
  try {
    take(await get("/api/v1/me"));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) take(null);
    if (error.status === 403) showSignIn(error.message);
  }
  return me;
}

function take(found) {
  me = found;
  setCsrf(found?.csrf || null);
  document.body.dataset.role = found?.role || "";
  document.dispatchEvent(new CustomEvent("trimtab:me", { detail: found }));
}

/** Show the form; `sentence` says why. */
export function showSignIn(sentence) {
  if (!dialog) build();
  say(sentence || "");
  if (dialog.open) return;
  dialog.showModal();
  dialog.querySelector("input").focus();
}

export async function signOut() {
  try {
    await post("/api/v1/sign-out", {});
  } catch (error) {
    if (error.status !== 401) throw error;
  }
  location.reload();
}

function say(sentence) {
  const error = dialog.querySelector(".error");
  error.textContent = sentence;
  error.hidden = !sentence;
}

function make(tag, attributes, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, value);
  el.append(...children);
  return el;
}

function build() {
  dialog = make("dialog", { id: "sign-in", "aria-labelledby": "sign-in-title" });
  document.body.append(dialog);
  fill();
  onLocaleChange(fill);
  // There is nothing behind the form for whoever is not signed in. A browser may close it all the same.
  dialog.addEventListener("cancel", (event) => me === null && event.preventDefault());
  dialog.addEventListener("close", () => me === null && dialog.showModal());
}

function fill() {
  const typed = dialog.querySelector("input")?.value || "";
  const token = make("input", {
    id: "sign-in-token", type: "password", name: "token", required: "", maxlength: "500", autocomplete: "current-password",
    spellcheck: "false", autocapitalize: "off", "aria-describedby": "sign-in-help",
  });
  token.value = typed;
  const send = make("button", { class: "primary", type: "submit" }, t("sign-in-button"));
  const form = make("form", { class: "form", method: "dialog" },
    make("label", { for: "sign-in-token" }, t("sign-in-token")),
    token,
    make("p", { class: "error", role: "alert", hidden: "" }),
    make("div", { class: "buttons" }, send),
    make("p", { id: "sign-in-help", class: "dim small" }, t("sign-in-help")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    enter(token, send);
  });
  dialog.replaceChildren(make("h2", { id: "sign-in-title" }, t("sign-in-title")), form);
}

async function enter(token, send) {
  send.disabled = true;
  say("");
  try {
    take(await post("/api/v1/sign-in", { token: token.value.trim() }));
    token.value = "";
    dialog.close();
    location.reload(); // as whoever it now is: nothing of a former view stays
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(error.message);
    token.select();
  }
  send.disabled = false;
}

document.addEventListener("trimtab:signed-out", () => {
  if (me === null) return;
  take(null);
  showSignIn(t("sign-in-over"));
});

if ((await whoIsHere()) === null) showSignIn();
