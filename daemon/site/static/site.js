// What a page cannot do alone: say when its values are old, switch the theme, ask before an action, copy a text, and choose a range in a picture.
"use strict";

const dialog = document.getElementById("ask");
const title = document.getElementById("ask-title");
const text = document.getElementById("ask-text");
const typed = document.getElementById("ask-typed");
const typedName = document.getElementById("ask-name");
const reasoned = document.getElementById("ask-reasoned");
const reason = document.getElementById("ask-reason");
const answer = document.getElementById("ask-answer");
const yes = document.getElementById("ask-yes");
const no = document.getElementById("ask-no");
let action = null;

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).getPropertyValue("--is-dark").trim() === "1";
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

function ask(button) {
  action = button.dataset;
  title.textContent = button.textContent + "?";
  text.textContent = action.consequence;
  answer.textContent = "";
  yes.textContent = button.textContent;
  yes.hidden = false;
  // An action that cannot be undone needs the name of its object.
  typed.hidden = !action.typed;
  typed.querySelector("label").textContent = `Type ${action.typed} to confirm:`;
  typedName.value = reason.value = "";
  reasoned.hidden = !action.action.endsWith("/pause");
  yes.disabled = Boolean(action.typed);
  yes.toggleAttribute("data-typed", Boolean(action.typed));
  no.textContent = "Cancel";
  dialog.showModal();
}

// What has happened, from the answer of the action.
function outcomeOf(result) {
  return [doneOf(result), result.waits_for].filter(Boolean).join(" ");
}

function doneOf(result) {
  if (result.changed === false) return "Nothing has changed.";
  if (result.paused_since_s) return "Done. The policy applies, loads and copies nothing until you resume it.";
  if (result.outcome) return [result.outcome, result.problem].filter(Boolean).join(": ");
  if (result.resumes_at) return `Done. The table resumes at event ${result.resumes_at}; no file is copied twice.`;
  if (result.reason) return `Done. The load of the table begins, because its events cannot be applied (${result.reason}). The page of the table shows when it is loaded.`;
  const loads = result.tables ? `, and ${result.tables.length === 1 ? "1 table" : result.tables.length + " tables"} will be loaded` : "";
  if (result.upto) return `Done. Events ${result.after + 1} to ${result.upto} are skipped${loads}.`;
  const refused = (result.requested || []).find((each) => !each.accepted);
  if (refused) return `The target refused: ${refused.message || refused.state}.`;
  if (result.requested) return "Done. The compaction is queued for the workers of the target; the page of the policy shows its state.";
  return "Done.";
}

function problemOf(error) {
  const reason = error.context?.reason;
  const text = error.message[0].toUpperCase() + error.message.slice(1);
  return `${text}${reason ? ` (${reason})` : ""}. ${error.hint || ""}`;
}

// The header and the content type cannot be sent by the form of another site; the server requires them.
async function send() {
  yes.disabled = typed.hidden = true;
  const body = reasoned.hidden ? action.body : JSON.stringify({ reason: reason.value });
  reasoned.hidden = true;
  title.textContent = yes.textContent;
  answer.textContent = "Sent. The daemon acts after the batch that it works on, within a minute …";
  try {
    const response = await fetch(action.action, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Tideline-Site": "1" },
      body,
    });
    const result = await response.json();
    answer.textContent = response.ok ? outcomeOf(result) : problemOf(result);
  } catch (error) {
    answer.textContent = `The daemon cannot be reached: ${error.message}`;
  }
  yes.hidden = true;
  no.textContent = "Close";
  no.focus();
  htmx.trigger("#live", "refresh");
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-action]");
  if (button) ask(button);
  const copier = event.target.closest("[data-copy]");
  if (copier) copy(copier);
});

// The clipboard exists only on safe origins. Elsewhere the text is selected, and the reader copies it.
async function copy(button) {
  const element = document.getElementById(button.dataset.copy);
  getSelection().selectAllChildren(element);
  if (!navigator.clipboard) return;
  await navigator.clipboard.writeText(element.textContent);
  button.textContent = "Copied";
}

// Dragging over a picture fills in the form of the range; without a pointer, the form is typed.
let brushed = null;
function momentAt(figure, x) {
  const box = figure.querySelector(".lane").getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (x - box.left) / box.width));
  const start = Number(figure.dataset.start);
  const seconds = Math.round(start + share * (Number(figure.dataset.end) - start));
  return new Date(seconds * 1000).toISOString().slice(0, 19);
}
document.addEventListener("pointerdown", (event) => {
  const figure = event.target.closest("[data-brush] .lane")?.closest("[data-brush]");
  brushed = figure ? { figure, x: event.clientX } : null;
});
document.addEventListener("pointerup", (event) => {
  if (!brushed || Math.abs(event.clientX - brushed.x) < 3) return;
  const { figure, x } = brushed;
  const form = document.getElementById(figure.dataset.brush);
  const [from, to] = [x, event.clientX].sort((a, b) => a - b).map((each) => momentAt(figure, each));
  Object.assign(form.elements.from, { value: from });
  Object.assign(form.elements.to, { value: to });
  form.elements.from.focus();
  brushed = null;
});
// A page that is not read again would look like the present.
const stale = document.getElementById("stale");
let readAt = new Date();
function showStale(reason, isSignedOut = false) {
  const since = readAt.toLocaleTimeString("en-GB");
  stale.querySelector("span").textContent = `${reason}. You see the values of ${since}.`;
  stale.querySelector("a").hidden = !isSignedOut;
  stale.hidden = false;
}
document.addEventListener("htmx:responseError", ({ detail }) => {
  const code = detail.xhr.status;
  if (code === 401) showStale("The daemon does not accept your token any more", true);
  else showStale(`The daemon answers with an error (${code})`);
});
document.addEventListener("htmx:sendError", () => showStale("The daemon cannot be reached"));
document.addEventListener("htmx:timeout", () => showStale("The daemon does not answer"));
document.addEventListener("htmx:afterOnLoad", ({ detail }) => {
  if (!detail.successful) return;
  readAt = new Date();
  stale.hidden = true;
});
yes.addEventListener("click", send);
typedName.addEventListener("input", () => { yes.disabled = typedName.value !== action.typed; });
no.addEventListener("click", () => dialog.close());
