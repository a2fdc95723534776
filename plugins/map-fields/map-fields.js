// `map-fields`: expressions of the configuration shape the record. They are JMESPath (https://jmespath.org), over the
// value's JSON.

import {
  FieldError,
  badConfiguration,
  boolean,
  choice,
  deadLetter,
  decodeText,
  drop,
  list,
  map,
  object,
  operator,
  pass,
  replace,
  route,
  set,
  string,
} from "./tidegate/index.js";
import { isFalse, prepare } from "./jmespath/jmespath.js";
import { bytesOf, timeOf, without } from "./shape.js";

const MOST = 64;
const expression = () => string({ minLength: 1, maxLength: 16_384 });

const config = object({
  value: expression().optional().describe("What the value becomes, as JSON. Without it the value stays."),
  key: expression().optional().describe("What the key becomes: text as it is, null as null, other results as JSON."),
  headers: map(expression(), { maxProperties: MOST }).default({}).describe("Headers that are set, each to its result: text as it is, other results as JSON. One whose result is null is left as it was."),
  "event-time": expression().optional().describe("What the event time becomes: RFC 3339 text, microseconds since the Unix epoch, or null for none."),
  keep: expression().optional().describe("Records for which this is false (false, null, or an empty text, list or object) are dropped."),
  routes: list(
    object({
      to: string({ minLength: 1, maxLength: 128 }).describe("The output."),
      when: expression().describe("The condition."),
    }),
    { maxItems: MOST },
  )
    .default([])
    .describe("Outputs: a record goes to the first one whose condition holds, and to the main one if none does."),
  nulls: boolean().default(true).describe("Whether members that are null stay in the value that is made."),
  missing: choice("dead-letter", "drop", "pass", "null")
    .default("dead-letter")
    .describe("What becomes of a record for which `value` gives null: it goes to the dead letters, ends, passes unchanged, or has a null value."),
  other: choice("dead-letter", "drop", "pass").default("dead-letter").describe("What becomes of a record whose value is no JSON."),
});

// The record that expressions ask about, beside its value.
let asked;
const TEXT = [{ types: [2] }];
const FUNCTIONS = {
  header: { _func: ([name]) => asked.headerText(name), _signature: TEXT },
  attribute: { _func: ([name]) => asked.attributeText(name), _signature: TEXT },
  record: { _func: ([name]) => part(name), _signature: TEXT },
};

function part(name) {
  switch (name) {
    case "key":
      return asked.key === null ? null : decodeText(asked.key, "key");
    case "event-time":
      return asked.eventTime;
    case "now":
      return asked.now;
    case "partition":
      return asked.id.partition;
    case "offset":
      return String(asked.id.offset);
    default:
      throw new RangeError(`record('${name}') is unknown, expected key, event-time, now, partition or offset`);
  }
}

/** The function of an expression of the configuration; null where there is none. */
function prepared(place, text) {
  if (text === undefined) return null;
  let evaluate;
  try {
    evaluate = prepare(text, FUNCTIONS);
  } catch (error) {
    throw badConfiguration("bad-expression", `config key \`${place}\` is ${JSON.stringify(text)}: ${error.message}`);
  }
  return (data) => {
    try {
      return evaluate(data);
    } catch (error) {
      // Memory that was refused is nothing that the record is at fault for: QuickJS throws null, or its own error.
      if (!(error instanceof Error) || error.name === "InternalError") throw error;
      throw new Unanswered(`${place}: ${error.message}`);
    }
  };
}

/** An expression that has no result for a record: the record is at fault, and its reason is all that is said. */
class Unanswered extends Error {}

const FALLBACKS = { drop, pass };

export default operator({
  name: "map-fields",
  version: "0.1.0",
  reads: ["key", "value", "headers", "attributes"],
  outputs: ({ routes }) => routes.map(({ to }) => to),
  config,

  start(config) {
    return {
      value: prepared("value", config.value),
      key: prepared("key", config.key),
      time: prepared("event-time", config["event-time"]),
      keep: prepared("keep", config.keep),
      headers: Object.entries(config.headers).map(([name, text]) => [name, prepared(`headers.${name}`, text)]),
      routes: config.routes.map(({ to, when }, index) => ({ to, holds: prepared(`routes[${index}].when`, when) })),
    };
  },

  process(record, config, state) {
    let data;
    try {
      data = record.json();
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      return FALLBACKS[config.other] ?? deadLetter(error.message);
    }
    asked = record;
    try {
      return shaped(data, config, state);
    } catch (error) {
      if (error instanceof Unanswered) return deadLetter(error.message);
      throw error;
    }
  },
});

function shaped(data, config, state) {
  if (state.keep !== null && isFalse(state.keep(data))) return drop;
  const changes = {};
  if (state.value !== null) {
    const value = state.value(data);
    if (value !== null) changes.value = JSON.stringify(config.nulls ? value : without(value));
    else if (config.missing === "null") changes.value = null;
    else return FALLBACKS[config.missing] ?? deadLetter("value: the result is null");
  }
  if (state.key !== null) changes.key = bytesOf(state.key(data));
  if (state.time !== null) changes.eventTime = timeOf(state.time(data), Unanswered);
  const headers = [];
  for (const [name, evaluate] of state.headers) {
    const result = bytesOf(evaluate(data));
    if (result !== null) headers.push(set(name, result));
  }
  if (headers.length > 0) changes.headers = headers;
  const taken = state.routes.find(({ holds }) => !isFalse(holds(data)));
  return taken === undefined ? replace(changes) : route(taken.to, changes);
}
