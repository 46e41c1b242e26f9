// Two things that a page cannot do alone: switch the theme, and ask before an action.
"use strict";

const dialog = document.getElementById("ask");
const title = document.getElementById("ask-title");
const text = document.getElementById("ask-text");
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
  yes.hidden = yes.disabled = false;
  no.textContent = "Cancel";
  dialog.showModal();
}

// The header and the content type cannot be sent by the form of another site; the server requires them.
async function send() {
  yes.disabled = true;
  answer.textContent = "Waiting for the loop, which is between two batches within a minute …";
  try {
    const response = await fetch(action.action, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Tideline-Site": "1" },
      body: action.body,
    });
    const result = await response.json();
    answer.textContent = response.ok ? "Done." : `${result.message}. ${result.hint}`;
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
});
yes.addEventListener("click", send);
no.addEventListener("click", () => dialog.close());
