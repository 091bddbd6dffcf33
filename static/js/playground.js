// Asks a model, and its base model beside it. Answers stream; a screen reader hears of the end.

import { say } from "./frame.js";

const form = document.getElementById("ask");
const words = form?.dataset;
let abort = null;

// Resolves to what is to be said of the end: that the answer is complete, or what is wrong.
async function ask(base, signal) {
  const place = document.getElementById(base ? "untuned" : "tuned");
  const text = place.querySelector(".words");
  const state = place.querySelector(".state");
  place.hidden = false;
  text.textContent = "";
  const started = performance.now();
  let pieces = 0;
  let end = "";
  const seconds = () => ((performance.now() - started) / 1000).toFixed(0);
  const waiting = setInterval(() => {
    if (!pieces) state.textContent = words.loading.replace("{seconds}", seconds());
  }, 1000);
  const fail = (sentence) => {
    end = sentence;
    state.textContent = "";
    // What has come so far stays.
    if (text.textContent) text.append("\n\n");
    text.append(Object.assign(document.createElement("span"), { className: "problem", textContent: sentence }));
  };
  const hear = (kind, data) => {
    if (kind === "token") {
      pieces += 1;
      text.append(data.text);
      state.textContent = "";
    } else if (kind === "note") {
      state.textContent = data.text;
    } else if (kind === "error") {
      fail(data.error);
    } else if (kind === "done") {
      end = words.done;
      text.textContent = data.response;
      const cut = data.finish_reason === "length" ? `${words.cut} ` : "";
      state.textContent = cut + words.speed.replace("{number}", pieces).replace("{seconds}", seconds());
    }
  };
  try {
    await stream(body(base), signal, hear);
    if (!end) fail(words.lost); // the answer broke off
  } catch (error) {
    if (error.name === "AbortError") end = state.textContent = words.stopped;
    else fail(error.sentence ?? words.lost);
  } finally {
    clearInterval(waiting);
  }
  return end;
}

function body(base) {
  const { system, prompt, max_tokens: maxTokens, temperature } = form.elements;
  const messages = [{ role: "user", content: prompt.value }];
  if (system.value.trim()) messages.unshift({ role: "system", content: system.value });
  return {
    messages,
    max_tokens: Number(maxTokens.value),
    temperature: Number(temperature.value),
    base,
    stream: true,
  };
}

async function stream(question, signal, hear) {
  const answer = await fetch(words.url, {
    method: "POST",
    body: JSON.stringify(question),
    headers: {
      "Content-Type": "application/json",
      Accept: "text/event-stream, application/json",
      "X-CSRFToken": form.elements.csrfmiddlewaretoken.value,
    },
    signal,
  });
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    const sentence = answer.status === 401 ? words.ended : said.error;
    throw Object.assign(new Error(answer.status), { sentence });
  }
  let rest = "";
  for await (const chunk of chunks(answer.body.pipeThrough(new TextDecoderStream()))) {
    const messages = (rest + chunk).split("\n\n");
    rest = messages.pop();
    for (const message of messages) {
      const [kind, data] = message.split("\n").map((line) => line.slice(line.indexOf(":") + 2));
      hear(kind, JSON.parse(data));
    }
  }
}

async function* chunks(body) {
  const reader = body.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
  } finally {
    reader.releaseLock();
  }
}

async function askAll() {
  if (abort || !form.reportValidity()) return;
  abort = new AbortController();
  form.elements.go.disabled = true;
  form.elements.stop.hidden = false;
  document.getElementById("untuned").hidden = !form.elements.base.checked;
  try {
    // One after the other: both models share the same memory and the same processor.
    let end = await ask(false, abort.signal);
    const isOver = end === words.stopped || end === words.ended;
    if (form.elements.base.checked && !isOver) {
      const second = await ask(true, abort.signal);
      if (end === words.done) end = second;
    }
    say(end);
  } finally {
    abort = null;
    form.elements.go.disabled = false;
    form.elements.stop.hidden = true;
  }
}

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  askAll();
});
form?.elements.stop.addEventListener("click", () => abort?.abort());
form?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) askAll();
});
