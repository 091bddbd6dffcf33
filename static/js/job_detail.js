// One run, live: its chart and its events go on from what the page has; the rest of the page is
// read again as on every page (live_page.js).

import { live } from "./frame.js";
import { LineChart } from "./line_chart.js";
import { morph } from "./live_page.js";

const MAX_EVENTS = 200;
const TABLE_ROWS = 50;
const LINES = {
  loss: { color: 1, dash: 0, smooth: true },
  eval_loss: { color: 2, dash: 1, dots: true },
};
const OTHER = { color: 1, dash: 0, smooth: true };

const words = JSON.parse(document.getElementById("chart-words").textContent);
const tools = document.getElementById("chart-tools");
const events = document.getElementById("events");
const table = document.getElementById("chart-table");
const chart = new LineChart(document.getElementById("plot"), { label: words.chart, words });
const start = readChart(document);
const state = { num_train_steps: start.num_train_steps, series: {}, hasAll: false };

function readChart(page) {
  return JSON.parse(page.querySelector("#chart-data script").textContent);
}

// All series, by step. Those that the page did not bring are read when they are wanted.
async function needAll() {
  if (state.hasAll) return;
  const answer = await fetch(tools.dataset.metricsUrl, { headers: { Accept: "application/json" } });
  if (!answer.ok) return;
  const { series, last_seq: lastSeq } = await answer.json();
  if (lastSeq < state.next_seq - 1) return needAll();
  state.hasAll = true;
  for (const [name, points] of Object.entries(series)) state.series[name] = new Map(points);
}

function keep(news) {
  if (news.is_whole) {
    state.hasAll = false;
    state.series = {};
    for (const [name, points] of Object.entries(news.lines)) state.series[name] = new Map(points);
  } else {
    for (const [name, step, value] of news.points) {
      (state.series[name] ??= new Map()).set(step, value);
    }
  }
  state.next_seq = news.next_seq;
  state.attempt = news.attempt;
}

function shownNames() {
  const option = tools.metric.selectedOptions[0];
  return [option.value, option.dataset.also].filter(Boolean);
}

async function draw() {
  const axis = tools.axis.value;
  if (axis !== "step" || tools.metric.value !== "loss") await needAll();
  const kinds = { step: null, seconds: "elapsed_seconds", tokens: "tokens" };
  const translate = translator(state.series[kinds[axis]]);
  chart.setAxis({ kind: axis, max: axis === "step" ? state.num_train_steps : undefined, translate });
  chart.setLines(
    shownNames()
      .filter((name) => state.series[name]?.size || name === "loss")
      .map((name) => ({
        key: name,
        label: words[name],
        points: [...(state.series[name] ?? [])].sort((one, other) => one[0] - other[0]),
        ...(LINES[name] ?? OTHER),
      })),
  );
  legend();
  fillTable();
}

// From a step to the time or the tokens that were told with it, or to those of its neighbours.
function translator(known) {
  if (!known) return (step) => step;
  const places = [...known].filter(([, value]) => value !== null).sort((one, other) => one[0] - other[0]);
  return (step) => {
    let low = 0;
    let high = places.length - 1;
    if (high < 0 || step < places[0][0] || step > places[high][0]) return known.get(step) ?? null;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (places[middle][0] <= step) low = middle;
      else high = middle;
    }
    const [[firstStep, first], [lastStep, last]] = [places[low], places[high]];
    return lastStep === firstStep ? first : first + ((step - firstStep) / (lastStep - firstStep)) * (last - first);
  };
}

function legend() {
  const list = document.getElementById("legend");
  list.replaceChildren(
    ...shownNames()
      .filter((name) => state.series[name]?.size)
      .map((name) => {
        const item = document.createElement("li");
        const label = document.createElement("label");
        const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
        box.addEventListener("change", () => chart.setVisible(name, box.checked));
        label.append(box, chart.sample(name), words[name]);
        item.append(label);
        return item;
      }),
  );
}

function fillTable() {
  if (!table.open) return;
  const names = shownNames().filter((name) => state.series[name]?.size);
  const steps = [...new Set(names.flatMap((name) => [...state.series[name].keys()]))];
  const last = steps.sort((one, other) => other - one).slice(0, TABLE_ROWS);
  const cell = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
  const number = new Intl.NumberFormat(document.documentElement.lang, { maximumSignificantDigits: 4 });
  const shown = (value) => (value === undefined ? "" : value === null ? words.noNumber : number.format(value));
  table.querySelector("thead tr").replaceChildren(
    ...[words.step, ...names.map((name) => words[name])].map((text) => cell("th", text)),
  );
  table.querySelector("tbody").replaceChildren(
    ...last.map((step) => {
      const row = document.createElement("tr");
      row.append(cell("td", step), ...names.map((name) => cell("td", shown(state.series[name].get(step)))));
      return row;
    }),
  );
}

function addEvents(page, isWhole) {
  const news = [...page.getElementById("events").children];
  const isAtTop = events.scrollTop < 4;
  const height = events.scrollHeight;
  if (isWhole) {
    morph(events, document.importNode(page.getElementById("events"), true));
  } else {
    const known = new Set([...events.children].map((row) => row.dataset.key));
    events.prepend(...news.filter((row) => !known.has(row.dataset.key)).map((row) => document.importNode(row, true)));
    while (events.children.length > MAX_EVENTS) events.lastElementChild.remove();
  }
  // Who reads further down is not moved by what comes on top.
  if (!isAtTop) events.scrollTop += events.scrollHeight - height;
}

async function readLog() {
  const box = document.getElementById("log");
  if (!box.open) return;
  const answer = await fetch(box.dataset.url, { redirect: "error" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const lines = document.getElementById("log-lines");
  const isAtEnd = lines.scrollTop + lines.clientHeight > lines.scrollHeight - 8;
  lines.textContent = page.getElementById("log-lines").textContent.split("\n").slice(-201).join("\n");
  if (isAtEnd) lines.scrollTop = lines.scrollHeight;
}

live.address = () => {
  const url = live.place();
  url.searchParams.set("since", state.next_seq);
  url.searchParams.set("attempt", state.attempt);
  return url.href;
};
live.onPage = (page) => {
  const news = readChart(page);
  keep(news);
  addEvents(page, news.is_whole);
  if (news.is_whole || tools.axis.value !== "step" || isNewLine(news)) draw();
  else {
    const shown = new Set(shownNames());
    for (const [name, step, value] of news.points) if (shown.has(name)) chart.push(name, step, value);
    fillTable();
  }
  readLog();
};

function isNewLine(news) {
  return news.points.some(([name]) => shownNames().includes(name) && !chart.has(name));
}

tools.addEventListener("input", () => {
  chart.smoothing = Number(tools.smoothing.value);
  chart.isLog = tools.log.checked;
  tools.smoothed.value = tools.smoothing.value;
});
tools.metric.addEventListener("change", draw);
tools.axis.addEventListener("change", () => {
  chart.resetZoom();
  draw();
});
tools.reset.addEventListener("click", () => chart.resetZoom());
chart.onzoom = (isZoomed) => (tools.reset.hidden = !isZoomed);
tools.png.addEventListener("click", async () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await chart.toBlob());
  link.download = `${document.querySelector("h1").textContent}.png`;
  link.click();
  URL.revokeObjectURL(link.href);
});
table.addEventListener("toggle", fillTable);
document.getElementById("log").addEventListener("toggle", readLog);

keep(start);
chart.smoothing = Number(tools.smoothing.value);
draw();
