// Lines over steps, time or tokens, on a canvas, for pages that grow while they are looked at.
//
//   const chart = new LineChart(element, { label, words });
//   chart.setLines([{ key, label, color: 1-6, dash: 0-5, points: [[x, value|null], ...], smooth, dots }]);
//   chart.push(key, x, value);           // also out of order; an equal x is overwritten
//   chart.smoothing = 0.6; chart.isLog = true; chart.setVisible(key, false); chart.resetZoom();
//   chart.setAxis({ kind: "step" | "seconds" | "tokens", max, translate });
//   chart.onzoom = (isZoomed) => ...;
//
// Drag zooms in x, a double click or Escape shows all, + and - zoom at the crosshair, arrows,
// PageUp, PageDown, Home and End move it. The plot is a slider whose value text reads the values
// there, so that a screen reader needs no live region. All words come from the page.

import { niceTicks, Scale, smoothed, Stretchy } from "./chart_series.js";

const MARGIN = { left: 52, right: 12, top: 10, bottom: 26 };
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [5, 2], [1, 2]];
const COLORS = ["--card", "--line", "--quiet", "--text", "--series-1", "--series-2", "--series-3",
  "--series-4", "--series-5", "--series-6"]; 
const FAINT = 0.28;
const SHORT_AXIS = 20; // steps; shorter is not halved
const MIN_DRAG = 6; // pixels; less is a click

export class LineChart {
  #lines = new Map();
  #smoothing = 0;
  #isLog = false;
  #axis = { kind: "step" };
  #view = null; // [from, to] in x of the axis, null for all
  #cursor = null; // a step
  #drag = null;
  #frame = 0;
  #colors = null;
  onzoom = () => {};

  constructor(element, { label, words }) {
    this.words = words;
    const lang = document.documentElement.lang;
    this.format = new Intl.NumberFormat(lang, { maximumSignificantDigits: 4 });
    this.short = new Intl.NumberFormat(lang, { notation: "compact", maximumSignificantDigits: 3 });
    this.element = element;
    this.canvas = document.createElement("canvas");
    this.tip = Object.assign(document.createElement("div"), { className: "plot-tip", hidden: true });
    element.replaceChildren(this.canvas, this.tip);
    element.tabIndex = 0;
    element.setAttribute("role", "slider");
    element.setAttribute("aria-label", label);
    this.#listen();
    this.#describe();
  }

  get smoothing() {
    return this.#smoothing;
  }

  set smoothing(weight) {
    if (weight === this.#smoothing) return;
    this.#smoothing = Math.min(0.99, Math.max(0, weight));
    this.#changed();
  }

  get isLog() {
    return this.#isLog;
  }

  set isLog(isLog) {
    if (isLog === this.#isLog) return;
    this.#isLog = isLog;
    this.#changed();
  }

  setLines(lines) {
    const hidden = new Set([...this.#lines.values()].filter((line) => line.isHidden).map((line) => line.key));
    this.#lines = new Map(
      lines.map(({ points, ...line }) => [
        line.key,
        { ...line, isHidden: hidden.has(line.key), points: Stretchy.of(points), smooth: line.smooth ?? false },
      ]),
    );
    this.#changed();
  }

  push(key, x, value) {
    this.#lines.get(key)?.points.put(x, value ?? NaN);
    this.#changed();
  }

  has(key) {
    return this.#lines.has(key);
  }

  setVisible(key, isVisible) {
    this.#lines.get(key).isHidden = !isVisible;
    this.#changed();
  }

  setAxis(axis) {
    this.#axis = axis;
    this.#changed();
  }

  resetZoom() {
    this.#zoomTo(null);
  }

  // What stands for a line in a legend: its colour and its dashes.
  sample(key) {
    const { color, dash } = this.#lines.get(key);
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    picture.setAttribute("aria-hidden", "true");
    picture.setAttribute("viewBox", "0 0 26 8");
    const line = document.createElementNS(picture.namespaceURI, "line");
    const shape = { x1: 0, x2: 26, y1: 4, y2: 4, class: `line-${color}`, "stroke-width": 2 };
    shape["stroke-dasharray"] = (DASHES[dash] ?? []).join(" ");
    for (const [name, value] of Object.entries(shape)) line.setAttribute(name, value);
    picture.append(line);
    return picture;
  }

  toBlob() {
    this.#draw();
    return new Promise((resolve) => this.canvas.toBlob(resolve, "image/png"));
  }

  // --- Changes ---------------------------------------------------------------------------

  #changed() {
    if (this.#frame || document.hidden) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
      this.#describe();
    });
  }

  #zoomTo(view) {
    this.#view = view;
    this.onzoom(view !== null);
    this.#changed();
  }

  #listen() {
    const { element, canvas } = this;
    new ResizeObserver(() => this.#changed()).observe(element);
    document.addEventListener("visibilitychange", () => this.#changed());
    const repaint = () => {
      this.#colors = null;
      this.#changed();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    element.addEventListener("keydown", (event) => this.#key(event));
    element.addEventListener("dblclick", () => this.resetZoom());
    element.addEventListener("blur", () => this.#showTip(false));
    element.addEventListener("focus", () => this.#showTip(this.#cursor !== null));
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.#drag = { from: event.offsetX, to: event.offsetX };
      if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => this.#point(event));
    canvas.addEventListener("pointerup", () => this.#release());
    canvas.addEventListener("pointercancel", () => (this.#drag = null));
    canvas.addEventListener("pointerleave", () => this.#showTip(document.activeElement === element));
  }

  #point(event) {
    if (this.#drag) this.#drag.to = event.offsetX;
    this.#cursor = this.#nearest(this.#scaleX().value(event.offsetX));
    this.#showTip(true);
    this.#changed();
  }

  #release() {
    const drag = this.#drag;
    this.#drag = null;
    if (!drag || Math.abs(drag.to - drag.from) < MIN_DRAG) return this.#changed();
    const scale = this.#scaleX();
    this.#zoomTo([scale.value(Math.min(drag.from, drag.to)), scale.value(Math.max(drag.from, drag.to))]);
  }

  #key(event) {
    const steps = this.#steps();
    if (!steps.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = this.#cursor === null ? -1 : lowerBound(steps, this.#cursor);
    const far = Math.max(1, Math.round(steps.length / 10));
    const moves = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: far, PageDown: -far };
    if (event.key in moves) this.#moveTo(steps, here < 0 ? steps.length - 1 : here + moves[event.key]);
    else if (event.key === "Home") this.#moveTo(steps, 0);
    else if (event.key === "End") this.#moveTo(steps, steps.length - 1);
    else if (event.key === "+" || event.key === "=") this.#zoomAt(0.5);
    else if (event.key === "-") this.#zoomAt(2);
    else if (event.key === "Escape" && this.#view) this.resetZoom();
    else return;
    event.preventDefault();
  }

  #moveTo(steps, index) {
    this.#cursor = steps[Math.min(steps.length - 1, Math.max(0, index))];
    const x = this.#x(this.#cursor);
    const [from, to] = this.#range();
    // The crosshair stays in sight: a zoomed view follows it.
    if (this.#view && x < from) this.#zoomTo([x, x + to - from]);
    if (this.#view && x > to) this.#zoomTo([x - (to - from), x]);
    this.#showTip(true);
    this.#describe();
  }

  #zoomAt(factor) {
    const [from, to] = this.#range();
    const [first, last] = this.#whole();
    const middle = this.#cursor === null ? (from + to) / 2 : this.#x(this.#cursor);
    const left = Math.max(first, middle - (middle - from) * factor);
    const right = Math.min(last, middle + (to - middle) * factor);
    if (left <= first && right >= last) this.resetZoom();
    else if (right > left) this.#zoomTo([left, right]);
  }

  // --- Values ----------------------------------------------------------------------------

  get #shown() {
    return [...this.#lines.values()].filter((line) => !line.isHidden && line.points.length);
  }

  #x(step) {
    return this.#axis.kind === "step" ? step : this.#axis.translate(step);
  }

  // All steps that a shown line has, rising.
  #steps() {
    const steps = new Set(this.#shown.flatMap((line) => [...line.points.xs]));
    return [...steps].filter((step) => this.#x(step) !== null).sort((one, other) => one - other);
  }

  #nearest(x) {
    const steps = this.#steps();
    if (!steps.length) return null;
    let best = steps[0];
    for (const step of steps) if (Math.abs(this.#x(step) - x) < Math.abs(this.#x(best) - x)) best = step;
    return best;
  }

  #whole() {
    const ends = this.#shown.flatMap(({ points }) => [points.xs[0], points.xs[points.length - 1]]);
    const xs = ends.map((step) => this.#x(step)).filter((x) => x !== null);
    if (!xs.length) return [0, this.#axis.max ?? 1];
    const first = Math.min(...xs);
    const last = longEnough(first, Math.max(...xs), this.#axis.max ?? -Infinity);
    return first === last ? [first - 0.5, last + 0.5] : [first, last];
  }

  #range() {
    return this.#view ?? this.#whole();
  }

  #scaleX() {
    return new Scale(this.#range(), [MARGIN.left, this.element.clientWidth - MARGIN.right], false);
  }

  #smoothOf(line) {
    if (!line.smooth || !this.#smoothing) return null;
    const key = `${this.#smoothing} ${this.#isLog}`;
    line.smoothing = line.smoothing?.key === key ? line.smoothing : { key, state: null };
    line.smoothing.state = smoothed(line.points, this.#smoothing, this.#isLog, line.smoothing.state);
    return line.smoothing.state.values;
  }

  // The y range: nearly all raw values, and all of the smoothed. One wild value hides nothing.
  #rangeY(lines, [from, to]) {
    const raw = [];
    const sure = [];
    for (const { points, smooth } of lines) {
      for (let index = 0; index < points.length; index += 1) {
        const x = this.#x(points.xs[index]);
        if (x === null || x < from || x > to) continue;
        const value = points.ys[index];
        if (Number.isFinite(value) && (!this.#isLog || value > 0)) raw.push(value);
        if (smooth && Number.isFinite(smooth[index])) sure.push(smooth[index]);
      }
    }
    if (!raw.length) return null;
    raw.sort((one, other) => one - other);
    const few = raw.length < 100 ? 0 : Math.floor(raw.length / 100);
    const reduced = (values, pick, start) => values.reduce((one, other) => pick(one, other), start);
    const low = reduced(sure, Math.min, raw[few]);
    const high = reduced(sure, Math.max, raw[raw.length - 1 - few]);
    // All the same, but for the rounding of their mean.
    if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) return this.#isLog ? [low / 2, low * 2] : [low - Math.abs(low || 1) / 10, high + Math.abs(high || 1) / 10];
    if (this.#isLog) return [low * (low / high) ** 0.05, high * (high / low) ** 0.05];
    const room = (high - low) * 0.05;
    return [low - room, high + room];
  }

  // --- Drawing ---------------------------------------------------------------------------

  #draw() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    const ratio = devicePixelRatio || 1;
    const [pixels, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== pixels || this.canvas.height !== rows) {
      Object.assign(this.canvas, { width: pixels, height: rows });
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.#color("--card");
    context.fillRect(0, 0, width, height);
    context.font = `11px ${getComputedStyle(this.element).fontFamily}`;
    const lines = this.#shown.map((line) => ({ line, points: line.points, smooth: this.#smoothOf(line) }));
    const range = this.#range();
    const rangeY = this.#rangeY(lines, range);
    if (!rangeY) return this.#drawEmpty(context, width, height);
    const x = this.#scaleX();
    const y = new Scale(rangeY, [height - MARGIN.bottom, MARGIN.top], this.#isLog);
    this.#drawGrid(context, x, y, width, height);
    context.save();
    context.beginPath();
    context.rect(MARGIN.left - 1, 0, width - MARGIN.left - MARGIN.right + 2, height - MARGIN.bottom + 4);
    context.clip();
    for (const item of lines) this.#drawLine(context, item, x, y, height);
    this.#drawCursor(context, x, y, height);
    context.restore();
  }

  #drawEmpty(context, width, height) {
    context.fillStyle = this.#color("--quiet");
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(this.words.noData, width / 2, height / 2);
  }

  #drawGrid(context, x, y, width, height) {
    context.lineWidth = 1;
    context.strokeStyle = this.#color("--line");
    context.fillStyle = this.#color("--quiet");
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.beginPath();
    for (const tick of niceTicks(y.domain, Math.max(2, Math.floor(height / 60)), { isLog: this.#isLog })) {
      const place = Math.round(y.place(tick)) + 0.5;
      context.moveTo(MARGIN.left, place);
      context.lineTo(width - MARGIN.right, place);
      context.fillText(this.format.format(tick), MARGIN.left - 7, place);
    }
    context.stroke();
    context.textAlign = "center";
    context.textBaseline = "top";
    const isTime = this.#axis.kind === "seconds";
    for (const tick of niceTicks(x.domain, Math.max(2, Math.floor(width / 110)), { isTime, isWhole: true })) {
      const text = this.#axisText(tick);
      const room = context.measureText(text).width / 2;
      context.fillText(text, Math.min(x.place(tick), width - room - 2), height - MARGIN.bottom + 8);
    }
  }

  #drawLine(context, { line, points, smooth }, x, y, height) {
    context.strokeStyle = context.fillStyle = this.#color(`--series-${line.color}`);
    context.lineJoin = "bevel";
    if (smooth) {
      context.globalAlpha = FAINT;
      context.lineWidth = 1;
      this.#stroke(context, points.xs, points.ys, points.length, x, y);
      context.globalAlpha = 1;
    }
    context.lineWidth = 1.8;
    context.setLineDash(DASHES[line.dash] ?? []);
    this.#stroke(context, points.xs, smooth ?? points.ys, points.length, x, y);
    context.setLineDash([]);
    if (line.dots || points.length === 1) this.#dots(context, points, x, y);
    this.#gaps(context, points, x, height);
  }

  // Of each column of pixels the first, lowest, highest and last value: no spike is lost.
  #stroke(context, xs, ys, length, x, y) {
    context.beginPath();
    let column = null;
    let isPen = false;
    const flush = () => {
      if (!column) return;
      if (isPen) context.lineTo(column.place, column.first);
      else context.moveTo(column.place, column.first);
      isPen = true;
      if (column.low !== column.high) {
        context.lineTo(column.place, column.low);
        context.lineTo(column.place, column.high);
      }
      context.lineTo(column.place, column.last);
      column = null;
    };
    const [start, stop] = this.#inSight(xs, length, x.domain);
    for (let index = start; index < stop; index += 1) {
      const at = this.#x(xs[index]);
      const placeY = y.place(ys[index]);
      if (at === null || !Number.isFinite(placeY)) {
        flush();
        isPen = false;
        continue;
      }
      const place = Math.round(x.place(at) * 2) / 2;
      if (column && column.place === place) {
        column.low = Math.min(column.low, placeY);
        column.high = Math.max(column.high, placeY);
        column.last = placeY;
      } else {
        flush();
        column = { place, first: placeY, last: placeY, low: placeY, high: placeY };
      }
    }
    flush();
    context.stroke();
  }

  // The points of a view, and one on each side, from and to which lines go.
  #inSight(xs, length, [from, to]) {
    let [start, stop] = [0, length];
    while (start + 1 < length && this.#x(xs[start + 1]) < from) start += 1;
    while (stop - 1 > start && this.#x(xs[stop - 2] ?? from) > to) stop -= 1;
    return [start, stop];
  }

  #dots(context, points, x, y) {
    if (points.length > 300) return;
    context.beginPath();
    for (let index = 0; index < points.length; index += 1) {
      const [at, place] = [this.#x(points.xs[index]), y.place(points.ys[index])];
      if (at === null || !Number.isFinite(place)) continue;
      context.moveTo(x.place(at) + 3, place);
      context.arc(x.place(at), place, 3, 0, 2 * Math.PI);
    }
    context.fill();
  }

  // Where a value was no number.
  #gaps(context, points, x, height) {
    const bottom = height - MARGIN.bottom;
    context.beginPath();
    for (let index = 0; index < points.length; index += 1) {
      if (!Number.isNaN(points.ys[index])) continue;
      const at = this.#x(points.xs[index]);
      if (at === null) continue;
      const place = x.place(at);
      context.moveTo(place, bottom - 7);
      context.lineTo(place + 5, bottom);
      context.lineTo(place - 5, bottom);
    }
    context.fill();
  }

  #drawCursor(context, x, y, height) {
    if (this.#drag && Math.abs(this.#drag.to - this.#drag.from) >= MIN_DRAG) {
      context.globalAlpha = 0.14;
      context.fillStyle = this.#color("--series-1");
      context.fillRect(this.#drag.from, MARGIN.top, this.#drag.to - this.#drag.from, height - MARGIN.top - MARGIN.bottom);
      context.globalAlpha = 1;
    }
    if (this.#cursor === null || this.tip.hidden) return;
    const place = Math.round(x.place(this.#x(this.#cursor))) + 0.5;
    context.strokeStyle = this.#color("--quiet");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(place, MARGIN.top);
    context.lineTo(place, height - MARGIN.bottom);
    context.stroke();
    this.#placeTip(place);
  }

  #color(name) {
    if (!this.#colors) {
      // A probe resolves light-dark(), which the custom property itself does not.
      const probe = document.createElement("span");
      this.element.append(probe);
      this.#colors = {};
      for (const each of COLORS) {
        probe.style.color = `var(${each})`;
        this.#colors[each] = getComputedStyle(probe).color;
      }
      probe.remove();
    }
    return this.#colors[name];
  }

  // --- Words -----------------------------------------------------------------------------

  #axisText(value) {
    if (this.#axis.kind === "seconds") {
      const seconds = Math.round(value);
      const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
      return parts.map((part, index) => (index ? String(part).padStart(2, "0") : part)).join(":");
    }
    return Math.abs(value) >= 1e4 ? this.short.format(value) : this.format.format(value);
  }

  // Each shown line's value at a step, or its nearest one with the step where that is.
  #readings(step) {
    return this.#shown.map((line) => {
      const { points } = line;
      const index = points.nearest(step);
      const value = points.ys[index];
      const smooth = this.#smoothOf(line)?.[index];
      let text = Number.isNaN(value) ? this.words.noNumber : this.format.format(value);
      if (smooth !== undefined && Number.isFinite(smooth)) text += ` (${this.words.smoothed} ${this.format.format(smooth)})`;
      if (points.xs[index] !== step) text += ` ${this.words.at} ${this.format.format(points.xs[index])}`;
      return { key: line.key, label: line.label, text };
    });
  }

  #describe() {
    const shown = this.#shown;
    const { element } = this;
    const ends = shown.flatMap(({ points }) => [points.xs[0], points.xs[points.length - 1]]);
    element.setAttribute("aria-valuemin", ends.length ? Math.min(...ends) : 0);
    element.setAttribute("aria-valuemax", ends.length ? Math.max(...ends) : 0);
    const step = this.#cursor ?? (ends.length ? Math.max(...ends) : 0);
    element.setAttribute("aria-valuenow", step);
    const values = this.#readings(step).map(({ label, text }) => `${label} ${text}`);
    element.setAttribute(
      "aria-valuetext",
      values.length ? `${this.words.step} ${step}: ${values.join(", ")}` : this.words.noData,
    );
  }

  #showTip(isShown) {
    this.tip.hidden = !isShown || this.#cursor === null || !this.#shown.length;
    if (!this.tip.hidden) {
      const title = document.createElement("strong");
      const where = this.#axis.kind === "step" ? "" : ` · ${this.#axisText(this.#x(this.#cursor))}`;
      title.textContent = `${this.words.step} ${this.#cursor}${where}`;
      const rows = this.#readings(this.#cursor).map(({ key, label, text }) => {
        const row = document.createElement("div");
        row.append(this.sample(key), `${label} ${text}`);
        return row;
      });
      this.tip.replaceChildren(title, ...rows);
    }
    this.#changed();
  }

  #placeTip(place) {
    const isRight = place > this.element.clientWidth / 2;
    this.tip.style.left = isRight ? "" : `${place + 12}px`;
    this.tip.style.right = isRight ? `${this.element.clientWidth - place + 12}px` : "";
  }
}

// Where the axis ends: at `max`, or halved until the lines take up a quarter of it. The first
// steps of a long run can be seen, and the axis does not move with each new point.
function longEnough(first, last, max) {
  let length = max - first;
  while (length > SHORT_AXIS && length / 2 >= 2 * (last - first)) length /= 2;
  return Math.max(last, first + length);
}

function lowerBound(values, wanted) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
