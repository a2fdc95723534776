// What an operator measured in a test, summed up as the host does it.

const keyOf = (name, labels) => JSON.stringify([name, Object.entries(labels).sort()]);

/** Sums of counters, last values of gauges, count and sum of histograms, by name and labels. */
export class Measured {
  #sums = new Map();

  add(samples) {
    for (const { metric, value, labels } of samples) {
      const key = keyOf(metric.name, labels);
      const found = this.#sums.get(key);
      const sum = { name: metric.name, labels, value };
      if (metric.kind === "histogram") {
        sum.value = { count: (found?.value.count ?? 0) + 1, sum: (found?.value.sum ?? 0) + value };
      } else if (metric.kind === "counter") {
        sum.value = (found?.value ?? 0) + value;
      }
      this.#sums.set(key, sum);
    }
  }

  get metrics() {
    return [...this.#sums.values()];
  }

  of(name, labels) {
    return this.#sums.get(keyOf(name, labels))?.value;
  }
}
