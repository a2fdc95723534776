// What an operator is.

import { isConfigType, object } from "./config.js";
import { wrongMetrics, wrongName, wrongOutputs, wrongVersion } from "./declared.js";
import { isMetric } from "./metrics.js";
import { shown } from "./patch.js";

const FIELDS = ["key", "value", "headers", "attributes"];
const MEMBERS = ["name", "version", "reads", "outputs", "config", "metrics", "start", "process", "tokens"];

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
    throw new TypeError(`operator ${shown(name)}: ${why}`);
  };
  const check = (what, why) => {
    if (why !== null) refuse(`${what}${why}`);
  };
  if (name === undefined || name === "") refuse("name is missing, expected a verb such as redact-pii");
  check("name ", wrongName(name));
  for (const member of Object.keys(given)) {
    if (!MEMBERS.includes(member)) refuse(`${member} is unknown, expected ${MEMBERS.join(", ")}`);
  }
  const { version, reads, outputs = [], config = object({}), metrics = [], start, process, tokens } = given;
  check("version ", wrongVersion(version));
  if (!Array.isArray(reads)) refuse(`reads is missing, expected a list of ${FIELDS.join(", ")}`);
  for (const field of reads) if (!FIELDS.includes(field)) refuse(`reads has ${shown(field)}, expected ${FIELDS.join(", ")}`);
  if (typeof outputs !== "function") check("outputs", spaced(wrongOutputs(outputs)));
  if (!isConfigType(config)) refuse("config is not a type, expected object({...})");
  if (typeof process !== "function") refuse("process is missing, expected a function of a record");
  if (start !== undefined && typeof start !== "function") refuse("start is not a function of the configuration");
  if (tokens !== undefined && typeof tokens !== "function") refuse("tokens is not a function of a lane");
  if (!Array.isArray(metrics)) refuse("metrics is not a list of counter(...), gauge(...) and histogram(...)");
  metrics.forEach((metric, index) => {
    if (!isMetric(metric)) refuse(`metrics[${index}] is not one, expected counter(...), gauge(...) or histogram(...)`);
  });
  check("metrics", spaced(wrongMetrics(metrics)));
  metrics.forEach((metric, index) => {
    metric.index = index;
  });
  return new Operator({ name, version, reads: [...reads], outputs, config, metrics: [...metrics], start, process, tokens });
}

/** An index stands at the name of its list, anything else behind it. */
function spaced(why) {
  return why === null || why.startsWith("[") ? why : ` ${why}`;
}
