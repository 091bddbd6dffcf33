// The loss line: the same drawing as the server's (training/console/loss_line.py), from points
// that are keyed by step, so that an event told twice changes nothing.

import { numberText } from "./event_text.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 56;
const RIGHT = 708;
const TOP = 12;
const BOTTOM = 212;
const MAX_DRAWN = 1400; // points; two for each pixel column

const LINES = { loss: "Training loss", eval_loss: "Eval loss" };

export class LossChart {
  constructor(group, words, { series, attempt, nextSeq }) {
    Object.assign(this, { group, words, frame: 0, byStep: {} });
    for (const name of Object.keys(LINES)) {
      const known = (series[name] ?? []).map(([step, loss]) => [
        step,
        { loss, attempt, seq: nextSeq - 1 },
      ]);
      this.byStep[name] = new Map(known);
    }
  }

  // The newest attempt counts, and within it what was stored last.
  add({ attempt, seq, data }) {
    if (data.step === undefined || data.step === null) return;
    for (const [name, byStep] of Object.entries(this.byStep)) {
      const known = byStep.get(data.step);
      const isOlder = known && (attempt - known.attempt || seq - known.seq) <= 0;
      if (!(name in data) || isOlder) continue;
      byStep.set(data.step, { loss: data[name], attempt, seq });
      this.frame ||= requestAnimationFrame(() => this.draw());
    }
  }

  draw() {
    this.frame = 0;
    const [points, evals] = Object.keys(LINES).map((name) => this.points(name));
    const losses = [...points, ...evals].map(([, loss]) => loss).filter((loss) => loss !== null);
    if (!losses.length) return;
    const low = losses.reduce((one, other) => Math.min(one, other));
    const high = losses.reduce((one, other) => Math.max(one, other));
    const ends = [points, evals].filter((line) => line.length);
    const first = Math.min(...ends.map((line) => line[0][0]));
    const last = Math.max(...ends.map((line) => line.at(-1)[0]));
    const x = (step) => scaled(step, first, last, LEFT, RIGHT);
    const y = (loss) => scaled(loss, low, high, BOTTOM, TOP);
    const shapes = (runs, attributes) =>
      runs.map((run) => shape(run.map(([step, loss]) => [x(step), y(loss)]), attributes));
    const { runs, gaps } = runsOf(thin(points));
    this.group.replaceChildren(
      text(50, 20, "end", numberText(high)),
      text(50, 212, "end", numberText(low)),
      text(56, 232, "start", `step ${first}`),
      text(708, 232, "end", String(last)),
      ...shapes(runs, {}),
      ...shapes(runsOf(thin(evals)).runs, { class: "eval" }),
      ...gaps.map((step) => element("path", { class: "gap", d: `M${x(step)} 206l6 12h-12z` })),
    );
    const words = [wordsOf(LINES.loss, points), wordsOf(LINES.eval_loss, evals)];
    this.words.textContent = words.filter(Boolean).join(" ");
  }

  points(name) {
    const points = [...this.byStep[name]].map(([step, { loss }]) => [step, loss]);
    return points.sort((one, other) => one[0] - other[0]);
  }
}

function scaled(value, low, high, start, end) {
  const share = high > low ? (value - low) / (high - low) : 0.5;
  return Math.round((start + share * (end - start)) * 10) / 10;
}

function runsOf(points) {
  const runs = [[]];
  const gaps = [];
  for (const point of points) {
    if (point[1] === null) {
      gaps.push(point[0]);
      runs.push([]);
    } else {
      runs.at(-1).push(point);
    }
  }
  return { runs: runs.filter((run) => run.length), gaps };
}

// Of each stretch the lowest and the highest stay, and the first gap.
function thin(points) {
  if (points.length <= MAX_DRAWN) return points;
  const size = Math.ceil((points.length * 2) / MAX_DRAWN);
  const kept = [];
  for (let start = 0; start < points.length; start += size) {
    const stretch = points.slice(start, start + size);
    const known = stretch.filter(([, loss]) => loss !== null);
    const gap = stretch.find(([, loss]) => loss === null);
    known.sort((one, other) => one[1] - other[1]);
    const some = new Set([known[0], known.at(-1), gap].filter(Boolean));
    kept.push(...[...some].sort((one, other) => one[0] - other[0]));
  }
  return kept;
}

function shape(places, attributes) {
  const [cx, cy] = places[0];
  if (places.length === 1) return element("circle", { cx, cy, r: 3, ...attributes });
  const points = places.map((place) => place.join(",")).join(" ");
  return element("polyline", { points, ...attributes });
}

function element(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function text(x, y, anchor, words) {
  const node = element("text", { x, y, "text-anchor": anchor });
  node.textContent = words;
  return node;
}

function wordsOf(name, points) {
  const known = points.filter(([, loss]) => loss !== null);
  if (!known.length) return "";
  const [[firstStep, first], [lastStep, last]] = [known[0], known.at(-1)];
  const low = known.map(([, loss]) => loss).reduce((one, other) => Math.min(one, other));
  const words =
    `${name} from ${numberText(first)} at step ${firstStep} to ` +
    `${numberText(last)} at step ${lastStep}; lowest ${numberText(low)}.`;
  const numGaps = points.length - known.length;
  return numGaps ? `${words} At ${numGaps} of ${points.length} steps the loss was no number.` : words;
}
