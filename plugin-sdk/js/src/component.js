// The exports of an operator's component, in the words of the contract 1.0.0. The module that `tidegate build` writes
// hands the operator and the host's log in here; operators know nothing of it.

import { configSchema, readConfig } from "./config.js";
import { Failure, permanent } from "./failure.js";
import { logTo } from "./log.js";
import { endIfOutOfMemory } from "./memory.js";
import { Operator } from "./operator.js";
import { Runner, outputsOf } from "./runner.js";
import { Lane } from "./tokens.js";
import { reasonOf } from "./trace.js";
import { furnish } from "./world.js";

// What `init` has started, for all interfaces.
let runner = null;

/**
 * The interface `packed` of an operator. `handlers` are those of operator.toml, `write` is the host's log, where the
 * component is granted it.
 */
export function packed(operator, handlers = [], write = null) {
  if (!(operator instanceof Operator)) {
    throw new TypeError("the entry of operator.toml has no operator as its default export: `export default operator({...})`");
  }
  const { name, tokens } = operator.definition;
  if (handlers.includes("tokens") && tokens === undefined) {
    throw new TypeError(`operator.toml has the handler "tokens", and operator ${name} has no \`tokens\``);
  }
  if (!handlers.includes("tokens") && tokens !== undefined) {
    throw new TypeError(`operator ${name} has \`tokens\`: write handlers = ["tokens"] in operator.toml`);
  }
  runner = null;
  logTo(write);
  // QuickJS: the other engines have a console, and a clock of the host's.
  if (typeof console === "undefined") furnish();
  return {
    describe: (config) => answered(() => describe(operator, config)),
    init: (config) => answered(() => void (runner = new Runner(operator, config))),
    process: (batch) => answered(() => started("process").process(batch)),
  };
}

/** The interface `tokens` of the operator whose `packed` is exported. */
export const tokens = {
  open: (number, lane) => answered(() => started("open").lanes.open(number, laneOf(lane))),
  step: (pieces) =>
    answered(() => {
      const { lanes } = started("step");
      return pieces.map(({ lane, text, last }) => {
        const through = lanes.step(lane, text, last);
        return { text: through.text, end: through.end ?? undefined };
      });
    }),
  close: (number) => started("close").lanes.close(number),
};

function started(call) {
  if (runner === null) throw permanent("not-started", `\`${call}\` was called before \`init\``);
  return runner;
}

/** A lane as the contract has it: its kind is a variant, and attributes are records. */
function laneOf({ identity, model, choice, kind, attributes }) {
  return new Lane({
    identity,
    model,
    choice,
    kind: kind.tag,
    call: kind.tag === "arguments" ? kind.val : null,
    attributes: attributes.map(({ name, value }) => [name, Uint8Array.from(value)]),
  });
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
  const { name, version, reads, metrics, tokens } = definition;
  return {
    name,
    version,
    configSchema: configSchema(definition.config),
    reads: Object.fromEntries(["key", "value", "headers", "attributes"].map((field) => [field, reads.includes(field)])),
    outputs: described(definition, config),
    metrics: metrics.map(({ name, kind, help, labels, bounds }) => ({ name, kind, help, labels, bounds })),
    handlers: tokens === undefined ? [] : ["tokens"],
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
