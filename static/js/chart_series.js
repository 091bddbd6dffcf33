// What a chart computes with: points that grow, smoothing, scales and round numbers for axes.

// Points (x, value) with x rising, in typed arrays that double. NaN is a value that was no number.
export class Stretchy {
  #size = 64;
  #xs = new Float64Array(64);
  #ys = new Float64Array(64);
  length = 0;
  version = 0; // changes when anything but the end does

  static of(points) {
    const made = new Stretchy();
    for (const [x, value] of points) made.put(x, value ?? NaN);
    return made;
  }

  get xs() {
    return this.#xs.subarray(0, this.length);
  }

  get ys() {
    return this.#ys.subarray(0, this.length);
  }

  put(x, value) {
    const last = this.length - 1;
    if (last < 0 || x > this.#xs[last]) {
      if (this.length === this.#size) this.#grow();
      this.#xs[this.length] = x;
      this.#ys[this.length] = value;
      this.length += 1;
      return;
    }
    const index = this.#lowerBound(x);
    this.version += 1;
    if (this.#xs[index] !== x) {
      if (this.length === this.#size) this.#grow();
      this.#xs.copyWithin(index + 1, index, this.length);
      this.#ys.copyWithin(index + 1, index, this.length);
      this.#xs[index] = x;
      this.length += 1;
    }
    this.#ys[index] = value;
  }

  // The index of the point that is nearest to this x.
  nearest(x) {
    const index = this.#lowerBound(x);
    if (index === 0) return 0;
    if (index === this.length) return index - 1;
    return this.#xs[index] - x < x - this.#xs[index - 1] ? index : index - 1;
  }

  #lowerBound(x) {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#xs[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #grow() {
    this.#size *= 2;
    for (const [name, values] of [["xs", this.#xs], ["ys", this.#ys]]) {
      const larger = new Float64Array(this.#size);
      larger.set(values);
      if (name === "xs") this.#xs = larger;
      else this.#ys = larger;
    }
  }
}

// Exponential moving average with bias correction, as in Adam (Kingma and Ba, 2015): the mean of
// what came so far, newer values counting more, and not drawn towards zero at the start. On a
// log axis the logarithms are smoothed, since that is what is looked at. What was computed
// before (`known`) is gone on with.
export function smoothed(points, weight, isLog, known) {
  const { xs, ys, length, version } = points;
  const isFresh = !known || known.version !== version || known.done > length;
  const state = isFresh ? { version, done: 0, sum: 0, power: 1, values: new Float64Array(64) } : known;
  if (state.values.length < length) {
    const larger = new Float64Array(Math.max(length, state.values.length * 2));
    larger.set(state.values);
    state.values = larger;
  }
  for (let index = state.done; index < xs.length; index += 1) {
    const value = isLog ? Math.log(ys[index]) : ys[index];
    if (!Number.isFinite(value)) {
      state.values[index] = NaN;
      continue;
    }
    state.sum = state.sum * weight + value * (1 - weight);
    state.power *= weight;
    const mean = state.sum / (1 - state.power);
    state.values[index] = isLog ? Math.exp(mean) : mean;
  }
  state.done = length;
  return state;
}

// From values to pixels and back; a value that has no place on a log axis has no pixel.
export class Scale {
  constructor(domain, range, isLog) {
    Object.assign(this, { domain, range, isLog });
    this.from = this.#inner(domain[0]);
    this.to = this.#inner(domain[1]);
  }

  place(value) {
    const share = (this.#inner(value) - this.from) / (this.to - this.from);
    return this.range[0] + share * (this.range[1] - this.range[0]);
  }

  value(place) {
    const share = (place - this.range[0]) / (this.range[1] - this.range[0]);
    const inner = this.from + share * (this.to - this.from);
    return this.isLog ? Math.exp(inner) : inner;
  }

  #inner(value) {
    if (!this.isLog) return value;
    return value > 0 ? Math.log(value) : NaN;
  }
}

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

// About `number` round values between two ends.
export function niceTicks([low, high], number, { isLog = false, isTime = false, isWhole = false } = {}) {
  if (isLog && high / low > 10) return decades(low, high);
  const rough = (high - low) / number;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  if (isTime) step = TIMES.find((one) => one >= rough) ?? step;
  if (isWhole) step = Math.max(1, step);
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high * (1 + 1e-12); index += 1) ticks.push(index * step || 0); // no -0
  return ticks;
}

function decades(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const one of high / low > 1e4 ? [1] : [1, 2, 5]) {
      const tick = one * 10 ** power;
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks;
}
