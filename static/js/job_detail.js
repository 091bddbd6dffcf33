// One run, live: its head, its loss line, its checkpoints and its events.

import { eventText } from "./event_text.js";
import { LiveFeed, STATE_WORDS, readJson, throttled } from "./live_feed.js";
import { LossChart } from "./loss_chart.js";

const HEAD_MS = 500; // between two readings of the head, however many events come
const MAX_CAUGHT_UP = 2000; // events; further behind, the page is loaded anew

const live = document.getElementById("live").dataset;
const start = JSON.parse(document.getElementById("live-start").textContent);
const shown = { shownFields: start.shown_fields, bareFields: start.bare_fields };
const list = document.getElementById("events");
const emptyRow = document.getElementById("event-row").content.firstElementChild;
const emptyCheckpoint = document.getElementById("checkpoint-row").content.firstElementChild;
const chart = new LossChart(
  document.getElementById("loss-line"),
  document.getElementById("loss-words"),
  { series: start.series, attempt: start.attempt, nextSeq: start.next_seq },
);
let nextSeq = start.next_seq; // all events below it are on the page

function addEvent(event) {
  if (event.seq < nextSeq) return;
  nextSeq = event.seq + 1;
  const row = emptyRow.cloneNode(true);
  row.dataset.seq = row.value = event.seq;
  row.querySelector("time").textContent = `${event.created_at.slice(0, 19).replace("T", " ")} UTC`;
  row.querySelector(".kind").textContent = event.type;
  row.querySelector(".text").textContent = eventText(event, shown);
  list.prepend(row);
  while (list.children.length > start.feed_rows) list.lastElementChild.remove();
  if (event.type === "progress" || event.type === "eval") chart.add(event);
  if (event.type === "checkpoint" || event.type === "eval") readCheckpointsSoon();
}

async function catchUp() {
  const texts = await readHead();
  if (texts.next_seq - nextSeq > MAX_CAUGHT_UP) return location.reload();
  while (nextSeq < texts.next_seq) {
    const url = new URL(live.eventsUrl, location);
    url.searchParams.set("from", nextSeq);
    const { events } = await readJson(url);
    if (!events.length) return;
    events.forEach(addEvent);
  }
}

async function readHead() {
  const texts = await readJson(live.stateUrl);
  showHead(texts);
  return texts;
}

function showHead(texts) {
  for (const part of document.querySelectorAll("[data-live]")) {
    for (const node of part.querySelectorAll("[data-field]")) {
      const text = String(texts[node.dataset.field]);
      if (node.textContent !== text) node.textContent = text;
    }
    for (const node of part.querySelectorAll("[data-if]")) node.hidden = !texts[node.dataset.if];
    for (const node of part.querySelectorAll("progress")) node.value = texts.percent;
    for (const node of part.querySelectorAll(".pill")) node.className = `pill ${texts.status}`;
  }
  showWarnings(texts.warnings);
  document.getElementById("model").href = texts.model_url;
  const stop = document.getElementById("stop");
  if (stop) stop.disabled = !texts.can_stop;
}

function showWarnings(warnings) {
  const node = document.getElementById("warnings");
  node.hidden = !warnings.length;
  node.replaceChildren(
    ...warnings.map((warning) => {
      const item = document.createElement("li");
      item.className = "hostile";
      item.textContent = warning;
      return item;
    }),
  );
}

async function readCheckpoints() {
  const { rows } = await readJson(live.checkpointsUrl);
  const table = document.getElementById("checkpoints");
  table.hidden = !rows.length;
  table.tBodies[0].replaceChildren(
    ...rows.map((texts) => {
      const row = emptyCheckpoint.cloneNode(true);
      for (const cell of row.cells) cell.textContent = texts[cell.dataset.field];
      return row;
    }),
  );
}

const readCheckpointsSoon = throttled(readCheckpoints, HEAD_MS);
const catchUpSoon = throttled(catchUp, HEAD_MS);
const readHeadSoon = throttled(readHead, HEAD_MS);

function hear(event) {
  if (event.run_id !== start.run_id || event.seq < nextSeq) return;
  if (event.seq > nextSeq) return catchUpSoon();
  addEvent({ ...event, data: event });
  readHeadSoon();
}

new LiveFeed({
  url: live.feedUrl,
  name: live.db,
  types: start.types,
  onEvent: hear,
  onCatchUp: () => {
    catchUpSoon();
    readCheckpointsSoon();
  },
  onState: (state) => {
    document.getElementById("feed-state").textContent = STATE_WORDS[state];
  },
}).start();
