// The exports of an operator's component, in the words of the contract 1.0.0. The module that `tidegate build` writes
// hands the operator and the host's log in here; operators know nothing of it.

import { configSchema, readConfig } from "./config.js";
import { Failure, permanent } from "./failure.js";
import { logTo } from "./log.js";
import { endIfOutOfMemory } from "./memory.js";
import { Operator } from "./operator.js";
import { Runner, outputsOf } from "./runner.js";
import { reasonOf } from "./trace.js";
import { furnish } from "./world.js";

/** The interface `packed` of an operator. `write` is the host's log, where the component is granted it. */
export function packed(operator, write = null) {
  if (!(operator instanceof Operator)) {
    throw new TypeError("the entry of operator.toml has no operator as its default export: `export default operator({...})`");
  }
  logTo(write);
  // QuickJS: the other engines have a console, and a clock of the host's.
  if (typeof console === "undefined") furnish();
  let runner = null;
  return {
    describe: (config) => answered(() => describe(operator, config)),
    init: (config) => answered(() => void (runner = new Runner(operator, config))),
    process: (batch) =>
      answered(() => {
        if (runner === null) throw permanent("not-started", "`process` was called before `init`");
        return runner.process(batch);
      }),
  };
}

/** Has a call answered; what it throws is a failure as the contract has it. */
function answered(call) {
  try {
    return call();
  } catch (error) {
    endIfOutOfMemory(error);
    const failure = error instanceof Failure ? error : permanent("exception", reasonOf(error));
    throw { class: failure.class, code: failure.code, message: failure.message.toWellFormed() };
  }
}

/** What the operator is under a configuration. */
export function describe({ definition }, config) {
  const { name, version, reads, metrics } = definition;
  return {
    name,
    version,
    configSchema: configSchema(definition.config),
    reads: Object.fromEntries(["key", "value", "headers", "attributes"].map((field) => [field, reads.includes(field)])),
    outputs: described(definition, config),
    metrics: metrics.map(({ name, kind, help, labels, bounds }) => ({ name, kind, help, labels, bounds })),
    handlers: [],
    extensions: [],
  };
}

/**
 * A configuration that cannot be read is refused by the schema, and by `init`: who only asks what the operator is, with
 * an empty one, gets an answer.
 */
function described(definition, text) {
  let config;
  try {
    config = readConfig(definition.config, text);
  } catch (error) {
    endIfOutOfMemory(error);
    return typeof definition.outputs === "function" ? [] : outputsOf(definition);
  }
  return outputsOf(definition, config);
}
