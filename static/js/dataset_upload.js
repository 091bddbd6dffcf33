// Sends the form with a progress bar. The answer is the same page that a plain form gets.

import { say } from "./frame.js";

const form = document.getElementById("upload");
const bar = document.getElementById("sending");
const words = form.dataset;

function show(text, share) {
  bar.hidden = false;
  bar.querySelector("progress").value = share;
  document.getElementById("sent").textContent = text;
}

function fail(text) {
  bar.hidden = true;
  const note = document.createElement("div");
  note.className = "note error";
  note.setAttribute("role", "alert");
  note.append(Object.assign(document.createElement("p"), { textContent: text }));
  document.getElementById("outcome").replaceChildren(note);
  form.querySelector('button[type="submit"]').disabled = false;
}

function take(request) {
  const isLogin = new URL(request.responseURL).pathname.startsWith("/login/");
  if (isLogin) return fail(words.ended);
  if (request.status === 413) return fail(words.large);
  const page = new DOMParser().parseFromString(request.responseText, "text/html");
  const outcome = page.getElementById("outcome");
  // Stored: the answer is the page of the dataset, after a redirect.
  if (request.status === 200 && !outcome) return location.assign(request.responseURL);
  if (!outcome) return fail(words.unsure);
  bar.hidden = true;
  form.querySelector('button[type="submit"]').disabled = false;
  document.getElementById("outcome").replaceChildren(...document.importNode(outcome, true).childNodes);
  const problems = document.getElementById("problems");
  problems?.focus();
  say(problems?.textContent.trim() ?? "");
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (form.elements.file.files[0]?.size > Number(words.max)) return fail(words.large);
  const request = new XMLHttpRequest();
  let isSent = false;
  request.open("POST", form.action || location.href);
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    const share = Math.floor((loaded * 100) / total);
    isSent = loaded === total;
    show(share < 100 ? `${words.sending} ${share} %` : words.checking, share);
  });
  request.addEventListener("load", () => take(request));
  // Once all of it is under way, nobody here knows whether it arrived.
  const lose = () => fail(isSent ? words.unsure : words.lost);
  request.addEventListener("error", lose);
  request.addEventListener("abort", lose);
  form.querySelector('button[type="submit"]').disabled = true;
  show(words.sending, 0);
  request.send(new FormData(form));
});

form.querySelector(".drop").addEventListener("dragover", (event) => event.preventDefault());
form.querySelector(".drop").addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files.length) form.elements.file.files = event.dataTransfer.files;
});
