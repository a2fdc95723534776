// An operator's configuration as a type: its JSON Schema, its defaults and its errors come from one description.

import { badConfiguration } from "./failure.js";
import { readJson } from "./json.js";
import { FieldError, encodeText } from "./text.js";

const DIALECT = "https://json-schema.org/draft/2020-12/schema";
// Most characters of a value that an error shows.
const SHOWN = 200;

class Mistake extends Error {}

/** Where a value stands: `rules[1].output`; empty for the configuration as a whole. */
function refuse(place, why) {
  throw new Mistake(place === "" ? `config ${why}` : `config key \`${place}\` ${why}`);
}

function wrong(place, json, expected) {
  const text = JSON.stringify(json) ?? String(json);
  const shown = text.length > SHOWN ? `${text.slice(0, SHOWN)} ...` : text;
  refuse(place, `is ${shown}, expected ${expected}`);
}

const below = (place, key) => (place === "" ? key : `${place}.${key}`);

/** What a value of the configuration can be. */
class ConfigType {
  #schema;
  #read;
  #more;

  /** `schema` without description and default; `read(json, place)` returns the value or refuses it. */
  constructor(schema, read, more = {}) {
    this.#schema = schema;
    this.#read = read;
    this.#more = more;
  }

  #with(more) {
    return new ConfigType(this.#schema, this.#read, { ...this.#more, ...more });
  }

  /** What it is for, in the schema and in editors. */
  describe(description) {
    return this.#with({ description });
  }

  /** What it is where its key is not there. */
  default(value) {
    try {
      this.#read(value, "");
    } catch (error) {
      throw new TypeError(`a default does not fit its own type: ${error.message}`);
    }
    return this.#with({ fallback: value, isOptional: false });
  }

  /** It may be left out; it is undefined then. */
  optional() {
    return this.#with({ isOptional: true });
  }

  /** Whether its key must be there. */
  get isRequired() {
    return !this.#more.isOptional && !("fallback" in this.#more);
  }

  /** Its JSON Schema. */
  get schema() {
    const { description, fallback } = this.#more;
    const schema = { ...this.#schema };
    if (description !== undefined) schema.description = description;
    if (fallback !== undefined) schema.default = fallback;
    return schema;
  }

  read(json, place) {
    return this.#read(json, place);
  }

  /** What it is where its key is not there; refused if the key must be. */
  absent(place) {
    if (this.isRequired) refuse(place, "is missing");
    // Read, so that no two configurations share one list or table.
    return "fallback" in this.#more ? this.#read(this.#more.fallback, place) : undefined;
  }
}

/** Refuses bounds that are none, or that nothing lies between: when they are declared. */
function checkBounds(given, [least, most], isOne, expected, others = []) {
  const known = [least, most, ...others];
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) throw new TypeError(`a type of a configuration has the bound ${name}, expected ${known.join(", ")}`);
  }
  for (const name of [least, most]) {
    const bound = given[name];
    if (bound !== undefined && !isOne(bound)) throw new TypeError(`a type of a configuration has ${name} ${String(bound)}, expected ${expected}`);
  }
  if (given[least] > given[most]) throw new TypeError(`a type of a configuration has ${least} ${given[least]} and ${most} ${given[most]}: nothing lies between`);
}

const isCount = (bound) => Number.isSafeInteger(bound) && bound >= 0;
const COUNT = "a whole number from 0 on";

/** Holds a number or a length against bounds. */
function bounded(place, found, least, most, unit, json) {
  const bound = found < least ? `at least ${least}` : found > most ? `at most ${most}` : null;
  if (bound === null) return;
  if (unit === null) wrong(place, json, bound);
  refuse(place, `has ${found} ${unit}, expected ${bound}`);
}

/** The members of a schema that are there. */
function present(members) {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

function numeric(type, isOne, expected, bounds) {
  checkBounds(bounds, ["minimum", "maximum"], isOne, expected);
  const { minimum, maximum } = bounds;
  return new ConfigType(present({ type, minimum, maximum }), (json, place) => {
    if (!isOne(json)) wrong(place, json, expected);
    bounded(place, json, minimum ?? -Infinity, maximum ?? Infinity, null, json);
    return json;
  });
}

/** A whole number, exact up to 2^53. */
export function integer(bounds = {}) {
  return numeric("integer", Number.isSafeInteger, "a whole number", bounds);
}

/** A number. */
export function number(bounds = {}) {
  return numeric("number", Number.isFinite, "a number", bounds);
}

/** True or false. */
export function boolean() {
  return new ConfigType({ type: "boolean" }, (json, place) => {
    if (typeof json !== "boolean") wrong(place, json, "true or false");
    return json;
  });
}

/** A text; its length is counted in characters. */
export function string(bounds = {}) {
  checkBounds(bounds, ["minLength", "maxLength"], isCount, COUNT, ["pattern"]);
  const { minLength, maxLength, pattern } = bounds;
  const fits = pattern === undefined ? null : new RegExp(pattern, "u");
  return new ConfigType(present({ type: "string", minLength, maxLength, pattern }), (json, place) => {
    if (typeof json !== "string") wrong(place, json, "text");
    bounded(place, [...json].length, minLength ?? 0, maxLength ?? Infinity, "characters", json);
    if (fits !== null && !fits.test(json)) wrong(place, json, `text that fits ${pattern}`);
    return json;
  });
}

/** One of these texts. */
export function choice(...names) {
  return new ConfigType({ enum: names }, (json, place) => {
    if (!names.includes(json)) wrong(place, json, `one of ${names.map((name) => JSON.stringify(name)).join(", ")}`);
    return json;
  });
}

/** A list of values of one type. */
export function list(item, bounds = {}) {
  checkBounds(bounds, ["minItems", "maxItems"], isCount, COUNT);
  const { minItems, maxItems } = bounds;
  return new ConfigType(present({ type: "array", items: item.schema, minItems, maxItems }), (json, place) => {
    if (!Array.isArray(json)) wrong(place, json, "a list");
    bounded(place, json.length, minItems ?? 0, maxItems ?? Infinity, "entries", json);
    return json.map((entry, index) => item.read(entry, `${place}[${index}]`));
  });
}

const isTable = (json) => typeof json === "object" && json !== null && !Array.isArray(json);

/** A table whose keys are free. */
export function map(value, bounds = {}) {
  checkBounds(bounds, ["minProperties", "maxProperties"], isCount, COUNT);
  const { minProperties, maxProperties } = bounds;
  const schema = present({ type: "object", additionalProperties: value.schema, minProperties, maxProperties });
  return new ConfigType(schema, (json, place) => {
    if (!isTable(json)) wrong(place, json, "a table");
    const entries = Object.entries(json);
    bounded(place, entries.length, minProperties ?? 0, maxProperties ?? Infinity, "entries", json);
    return Object.fromEntries(entries.map(([key, entry]) => [key, value.read(entry, below(place, key))]));
  });
}

/** A table with these keys and no others. */
export function object(members) {
  const keys = Object.keys(members);
  const required = keys.filter((key) => members[key].isRequired);
  const schema = {
    type: "object",
    properties: Object.fromEntries(keys.map((key) => [key, members[key].schema])),
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: false,
  };
  return new ConfigType(schema, (json, place) => {
    if (!isTable(json)) wrong(place, json, "a table");
    for (const key of Object.keys(json)) {
      if (Object.hasOwn(members, key)) continue;
      const known = keys.map((known) => `\`${known}\``).join(", ") || "no key at all";
      refuse(below(place, key), `is unknown, expected ${known}`);
    }
    const read = {};
    for (const key of keys) {
      const at = below(place, key);
      read[key] = Object.hasOwn(json, key) ? members[key].read(json[key], at) : members[key].absent(at);
    }
    return read;
  });
}

/** Any JSON, as it stands there. */
export function any() {
  return new ConfigType({}, (json) => json);
}

/** Whether something is a type of a configuration. */
export function isConfigType(value) {
  return value instanceof ConfigType;
}

/** The JSON Schema of a configuration, as the host is told it. */
export function configSchema(type) {
  return JSON.stringify({ $schema: DIALECT, ...type.schema });
}

/** Reads a configuration from JSON text; an empty text is an empty table. Throws a Failure that names the key. */
export function readConfig(type, text) {
  const given = text.trim();
  try {
    return type.read(given === "" || given === "null" ? {} : readJson(encodeText(given), "config"), "");
  } catch (error) {
    if (error instanceof Mistake || error instanceof FieldError) throw badConfiguration("bad-config", error.message);
    throw error;
  }
}
