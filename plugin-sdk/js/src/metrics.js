// What an operator measures. A measurement counts if the outcome of its record does.

import { MAX_LABEL, MAX_SAMPLES } from "./arena.js";
import { recordIndex } from "./record.js";
import { cutText, encodeText } from "./text.js";
import { NUMBERS } from "./writer.js";

// The answer that is being written, and its last record that measured something: where its samples begin in the answer.
let answer = null;
let measured = -1;
let before = 0;
let beforeCount = 0;

/** Says which answer what is measured from now on belongs to. */
export function measureInto(into) {
  answer = into;
  measured = -1;
}

/** Takes back what a record measured: it raised. */
export function takeBackMeasured(record) {
  if (measured !== record) return;
  answer.samples.used = before;
  answer.sampleCount = beforeCount;
}

class Metric {
  constructor(kind, name, help, { labels = [], bounds = [] } = {}) {
    this.kind = kind;
    this.name = name;
    this.help = help;
    this.labels = [...labels];
    this.bounds = [...bounds];
    /** Its number in its operator's list; -1 until it is in one. */
    this.index = -1;
  }

  /** Writes a sample of the record that is being looked at. */
  measure(amount, isAmount, labels) {
    const record = recordIndex();
    if (answer === null || record < 0) throw new Error(`metric ${this.name} is measured outside of process`);
    if (this.index < 0) throw new Error(`metric ${this.name} is not among the metrics of its operator`);
    const texts = this.labels.map((label) => this.#label(label, labels));
    const { samples } = answer;
    if (measured !== record) {
      measured = record;
      before = samples.used;
      beforeCount = answer.sampleCount;
    } else if (answer.sampleCount - beforeCount >= MAX_SAMPLES) {
      throw new RangeError(`a record has more than ${MAX_SAMPLES} measurements, the limit`);
    }
    samples.room(NUMBERS);
    samples.u32(record);
    samples.u16(this.index);
    samples.u16(texts.length);
    if (isAmount) {
      samples.u32(amount % 2 ** 32);
      samples.u32(Math.floor(amount / 2 ** 32));
    } else {
      samples.f64(amount);
    }
    for (const text of texts) {
      const bytes = encodeText(text);
      samples.u16(bytes.length);
      samples.put(bytes);
    }
    answer.sampleCount++;
  }

  #label(label, given) {
    const value = given?.[label];
    if (typeof value !== "string") throw new TypeError(`metric ${this.name}: label ${label} is ${typeof value}, expected text`);
    return cutText(value, MAX_LABEL);
  }
}

class Counter extends Metric {
  add(amount = 1, labels = undefined) {
    if (!(Number.isSafeInteger(amount) && amount >= 0)) {
      throw new RangeError(`counter ${this.name}: amount is ${amount}, expected a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`);
    }
    this.measure(amount, true, labels);
  }
}

class Gauge extends Metric {
  set(value, labels = undefined) {
    if (Number.isFinite(value)) this.measure(value, false, labels);
  }
}

class Histogram extends Metric {
  observe(value, labels = undefined) {
    if (Number.isFinite(value)) this.measure(value, false, labels);
  }
}

/** A sum of amounts. */
export function counter(name, help, options) {
  return new Counter("counter", name, help, options);
}

/** The last of some values. */
export function gauge(name, help, options) {
  return new Gauge("gauge", name, help, options);
}

/** How often values fell between bounds. */
export function histogram(name, help, options) {
  return new Histogram("histogram", name, help, options);
}

/** Whether something is a metric. */
export function isMetric(value) {
  return value instanceof Metric;
}
