// Records that own what they hold: what goes into a test, and what comes out.

import { MAX_PAIRS } from "../arena.js";
import { decodeText, encodeText } from "../text.js";

/** A record as the harness has it: every field is there, bytes are a Uint8Array or null. */
export class TestRecord {
  constructor({ key = null, value = null, headers = [], attributes = [], eventTime = null, id = {} }, index = 0) {
    this.key = asBytes(key);
    this.value = asBytes(value);
    this.headers = asPairs(headers);
    this.attributes = asPairs(attributes);
    this.eventTime = eventTime === null ? null : BigInt(eventTime);
    const { origin = "source", source = 0, partition = 0, offset = index, emit = 0 } = id;
    this.id = { origin, source, partition, offset: BigInt(offset), emit: BigInt(emit) };
  }

  /** The value as text. */
  get text() {
    return this.value === null ? null : decodeText(this.value, "value");
  }

  /** The value as JSON. */
  json() {
    return JSON.parse(this.text);
  }

  /** The value of the last header of this name as text; null if there is none. */
  headerText(name) {
    return lastText(this.headers, name);
  }

  /** The value of the last attribute of this name as text; null if there is none. */
  attributeText(name) {
    return lastText(this.attributes, name);
  }

  /** The record with a patch, as the host makes it. */
  patched(patch) {
    const record = new TestRecord(this);
    if (patch.key !== undefined) record.key = patch.key;
    if (patch.value !== undefined) record.value = patch.value;
    if (patch.eventTime !== undefined) record.eventTime = patch.eventTime;
    record.headers = changed(this.headers, patch.headers, "headers");
    record.attributes = changed(this.attributes, patch.attributes, "attributes");
    return record;
  }
}

function lastText(pairs, name) {
  const found = pairs.findLast((pair) => pair[0] === name);
  return found === undefined || found[1] === null ? null : decodeText(found[1], `the value of ${name}`);
}

function changed(pairs, changes, what) {
  const after = changes.reduce((pairs, [operation, name, value]) => {
    const kept = operation === "add" ? pairs : pairs.filter((pair) => pair[0] !== name);
    return operation === "remove" ? kept : [...kept, [name, value]];
  }, pairs);
  if (after.length > MAX_PAIRS) throw new Error(`the host refuses the answer: a record with ${after.length} ${what}, limit ${MAX_PAIRS}`);
  return after;
}

/** Bytes of what a field is given as: text, bytes or null. */
export function asBytes(given) {
  if (given === null) return null;
  if (typeof given === "string") return encodeText(given);
  if (given instanceof Uint8Array) return given;
  throw new TypeError(`a field of a record is ${typeof given}, expected text, a Uint8Array or null`);
}

/** Pairs of what they are given as: a list, or an object. */
export function asPairs(given) {
  const pairs = Array.isArray(given) ? given : Object.entries(given);
  return pairs.map(([name, value]) => [name, asBytes(value)]);
}
