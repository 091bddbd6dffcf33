// Keeps the list of runs as the server's rows are: read again whenever an event came.

import { LiveFeed, STATE_WORDS, readJson, throttled } from "./live_feed.js";

const ROWS_MS = 500; // between two readings of the rows, however many events come

const live = document.getElementById("live").dataset;
const table = document.getElementById("jobs");
const body = table.tBodies[0];
const emptyRow = document.getElementById("job-row").content.firstElementChild;

function fill(row, texts) {
  for (const cell of row.querySelectorAll("[data-field]")) {
    const text = String(texts[cell.dataset.field]);
    if (cell.textContent !== text) cell.textContent = text;
  }
  row.dataset.run = texts.id;
  row.querySelector("a").href = texts.url;
  row.querySelector(".pill").className = `pill ${texts.status}`;
  row.querySelector("progress").value = texts.percent;
}

async function readRows() {
  const { rows } = await readJson(live.rowsUrl);
  const known = new Map([...body.rows].map((row) => [row.dataset.run, row]));
  rows.forEach((texts, index) => {
    const row = known.get(String(texts.id)) ?? emptyRow.cloneNode(true);
    known.delete(String(texts.id));
    fill(row, texts);
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
  for (const row of known.values()) row.remove();
  table.hidden = rows.length === 0;
  document.getElementById("no-jobs").hidden = rows.length > 0;
}

const readSoon = throttled(readRows, ROWS_MS);

new LiveFeed({
  url: live.feedUrl,
  name: live.db,
  types: JSON.parse(document.getElementById("feed-types").textContent),
  onEvent: readSoon,
  onCatchUp: readSoon,
  onState: (state) => {
    document.getElementById("feed-state").textContent = STATE_WORDS[state];
  },
}).start();
