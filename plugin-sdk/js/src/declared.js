// What the host refuses of a declaration, told where it is declared: at the build, and in tests.

import { shown } from "./patch.js";
import { encodeText } from "./text.js";

const VERSION = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(?!0\d+(\.|\+|$))[0-9A-Za-z-]+(\.(?!0\d+(\.|\+|$))[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$/;
const METRIC_NAME = /^[a-z][a-z0-9_]{0,63}$/;
// Control characters, ends of lines, marks of direction, and what cannot be seen.
const DISTURBING =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]/u;
const JOINERS = /[\u200c\u200d]/;
const LARGEST_NUMBER = 2n ** 64n - 1n;
const NAME_BYTES = 128;
const OUTPUTS = 256;
const METRICS = 64;
const LABELS = 8;
const BOUNDS = 32;
const HELP_BYTES = 512;
const RESERVED = ["slot", "revision", "le"];
const OF_THE_HOST = "series_refused_total";

const length = (text) => encodeText(text).length;

/** What is wrong with a name of the operator or an output; null if nothing is. */
export function wrongName(name) {
  if (typeof name !== "string" || name.length === 0) return `is ${shown(name)}, expected a name`;
  if (length(name) > NAME_BYTES) return `is ${shown(name)}, of ${length(name)} bytes, limit ${NAME_BYTES}`;
  if (DISTURBING.test(name) || JOINERS.test(name) || !name.isWellFormed()) return `is ${shown(name)}, which has characters that cannot be shown`;
  return null;
}

/** What is wrong with a version; null if nothing is. */
export function wrongVersion(version) {
  const found = typeof version === "string" ? VERSION.exec(version) : null;
  const isOne = found !== null && version.length <= NAME_BYTES && found.slice(1, 4).every((number) => BigInt(number) <= LARGEST_NUMBER);
  return isOne ? null : `is ${shown(version)}, expected one such as 0.1.0`;
}

/** What is wrong with a list of outputs; null if nothing is. */
export function wrongOutputs(outputs) {
  if (!Array.isArray(outputs)) return "is neither a list of names nor a function of the configuration that makes one";
  if (outputs.length > OUTPUTS) return `has ${outputs.length} names, limit ${OUTPUTS}`;
  for (let index = 0; index < outputs.length; index++) {
    const why = wrongName(outputs[index]);
    if (why !== null) return `[${index}] ${why}`;
  }
  return null;
}

/** The names that the lines of a metric have, as they are shown, without what all begin with. */
function allShown({ kind, name }) {
  if (kind === "counter") return [name.endsWith("_total") ? name : `${name}_total`];
  return kind === "histogram" ? [name, `${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];
}

/** What is wrong with metrics; null if nothing is. */
export function wrongMetrics(metrics) {
  if (metrics.length > METRICS) return `has ${metrics.length}, limit ${METRICS}`;
  const names = new Set();
  const taken = new Map([[OF_THE_HOST, "a metric of the host"]]);
  for (let index = 0; index < metrics.length; index++) {
    const metric = metrics[index];
    const why = wrongMetric(metric);
    if (why !== null) return `[${index}] ${why}`;
    if (names.has(metric.name)) return `has ${metric.name} twice`;
    names.add(metric.name);
    for (const name of allShown(metric)) {
      if (taken.has(name)) return `[${index}] ${metric.name} is shown as ${name}, as ${taken.get(name)} is`;
      taken.set(name, metric.name);
    }
  }
  return null;
}

function wrongMetric({ kind, name, help, labels, bounds }) {
  if (typeof name !== "string" || !METRIC_NAME.test(name)) return `has the name ${shown(name)}, expected [a-z][a-z0-9_]*, at most 64`;
  if (typeof help !== "string") return `${name} has the help ${shown(help)}, expected text`;
  if (length(help) > HELP_BYTES || DISTURBING.test(help) || !help.isWellFormed()) return `${name} has a help that is not one line of at most ${HELP_BYTES} bytes`;
  if (labels.length > LABELS) return `${name} has ${labels.length} labels, limit ${LABELS}`;
  for (const label of labels) {
    if (typeof label !== "string" || !METRIC_NAME.test(label)) return `${name} has the label ${shown(label)}, expected [a-z][a-z0-9_]*, at most 64`;
    if (RESERVED.includes(label)) return `${name} has the label ${shown(label)}, which the host has`;
    if (labels.indexOf(label) !== labels.lastIndexOf(label)) return `${name} has the label ${shown(label)} twice`;
  }
  if (kind !== "histogram" && bounds.length > 0) return `${name} has bounds and is no histogram`;
  if (bounds.length > BOUNDS) return `${name} has ${bounds.length} bounds, limit ${BOUNDS}`;
  const ascends = bounds.every((bound, index) => Number.isFinite(bound) && (index === 0 || bounds[index - 1] < bound));
  return ascends ? null : `${name} has the bounds ${bounds.map(String).join(", ")}, expected finite numbers that ascend`;
}
