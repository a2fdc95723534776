// What an operator is.

import { isConfigType, object } from "./config.js";
import { isMetric } from "./metrics.js";

const FIELDS = ["key", "value", "headers", "attributes"];
const MEMBERS = ["name", "version", "reads", "outputs", "config", "metrics", "start", "process"];
const VERSION = /^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$/;
const METRIC_NAME = /^[a-z][a-z0-9_]{0,63}$/;

/** An operator that was declared; `operator` makes one. */
export class Operator {
  constructor(definition) {
    this.definition = definition;
  }
}

/**
 * Declares an operator. What is wrong in the declaration throws here, when the module is loaded: at the build, and in
 * tests.
 */
export function operator(given) {
  const name = given?.name;
  const refuse = (why) => {
    throw new TypeError(`operator ${JSON.stringify(name)}: ${why}`);
  };
  if (typeof name !== "string" || name.length === 0) refuse("name is missing, expected a verb such as redact-pii");
  for (const member of Object.keys(given)) {
    if (!MEMBERS.includes(member)) refuse(`${member} is unknown, expected ${MEMBERS.join(", ")}`);
  }
  const { version, reads, outputs = [], config = object({}), metrics = [], start, process } = given;
  if (!VERSION.test(version)) refuse(`version is ${JSON.stringify(version)}, expected one such as 0.1.0`);
  if (!Array.isArray(reads)) refuse(`reads is missing, expected a list of ${FIELDS.join(", ")}`);
  for (const field of reads) if (!FIELDS.includes(field)) refuse(`reads has ${JSON.stringify(field)}, expected ${FIELDS.join(", ")}`);
  if (typeof outputs !== "function") {
    if (!Array.isArray(outputs)) refuse("outputs is neither a list of names nor a function of the configuration");
    for (const output of outputs) {
      if (typeof output !== "string" || output.length === 0) refuse(`outputs has ${JSON.stringify(output)}, expected a name`);
    }
  }
  if (!isConfigType(config)) refuse("config is not a type, expected object({...})");
  if (typeof process !== "function") refuse("process is missing, expected a function of a record");
  if (start !== undefined && typeof start !== "function") refuse("start is not a function of the configuration");
  const names = new Set();
  metrics.forEach((metric, index) => {
    if (!isMetric(metric)) refuse(`metrics[${index}] is not one, expected counter(...), gauge(...) or histogram(...)`);
    for (const label of [metric.name, ...metric.labels]) {
      if (!METRIC_NAME.test(label)) refuse(`metrics[${index}] has the name ${JSON.stringify(label)}, expected [a-z][a-z0-9_]*, at most 64`);
    }
    if (names.has(metric.name)) refuse(`metrics has ${metric.name} twice`);
    names.add(metric.name);
    metric.index = index;
  });
  return new Operator({ name, version, reads: [...reads], outputs, config, metrics: [...metrics], start, process });
}
