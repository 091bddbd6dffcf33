// What every page of the console does: theme, times, copying, dialogs, and being up to date.

import { LivePage, localise } from "./live_page.js";

const words = JSON.parse(document.getElementById("words").textContent);
const root = document.documentElement;
const frame = document.getElementById("live");

export const live = frame && new LivePage(frame.dataset, words);

function themes(item) {
  const button = item.querySelector("button");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.querySelector("span").textContent = button.dataset[isDark() ? "light" : "dark"];
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  item.hidden = false;
  show();
}

// <button data-copy="id of what is copied"> says for a while that it did.
async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const label = button.querySelector("span");
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(source.textContent);
    label.textContent = words.copied;
  } catch {
    // Browsers have a clipboard on https and on this machine only.
    getSelection().selectAllChildren(source);
    label.textContent = words.selected;
  }
  say(label.textContent);
  setTimeout(() => (label.textContent = before), 2000);
}

export function say(text) {
  document.getElementById("said").textContent = text;
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (!button) return;
  if (button.dataset.copy) copy(button);
  // A page without scripts has the same form in the open; here it waits in a dialog.
  if (button.dataset.opens) document.getElementById(button.dataset.opens).showModal();
  if (button.dataset.closes !== undefined) button.closest("dialog").close();
});

// Forms that filter apply themselves when a choice is made; typing waits for Enter.
document.addEventListener("change", ({ target }) => {
  if (target.form?.dataset.applies !== undefined && target.type !== "search") target.form.requestSubmit();
});

const theme = document.getElementById("theme");
if (theme) themes(theme);
root.classList.add("scripted");
localise(document);
setInterval(() => localise(document), 30000); // what is told as "2 minutes ago"
// Modules of the page itself have run by then and have said what they want to hear.
document.addEventListener("DOMContentLoaded", () => live?.start());
