// How a record differs from the one it came from, as it lies in an answer.

import * as arena from "./arena.js";
import { nameBytes } from "./names.js";
import { PairChange } from "./outcome.js";
import { encodeText } from "./text.js";
import { NUMBERS } from "./writer.js";

const { KEY, NULL, VALUE } = arena;

/** Members that changes can have, and those that a piece of a split can have. */
export const MEMBERS = { key: true, value: true, headers: true, attributes: true, eventTime: true };
export const MEMBERS_OF_PIECE = { ...MEMBERS, to: true };

// To look for members that there are not takes as long as the rest of a patch: the harness always does, a component where
// there is nothing else.
let isStrict = false;

/** Has every member of all changes looked at. */
export function beStrict() {
  isStrict = true;
}

/** Writes a patch, and says whether it changes anything. */
export function writeChanges(writer, changes, members) {
  const { key, value, headers, attributes, eventTime } = changes;
  writer.room(NUMBERS);
  const at = writer.used;
  let mask = 0;
  writer.used = at + 1;
  if (key !== undefined) {
    mask |= KEY;
    writeBytes(writer, key, "key");
  }
  if (value !== undefined) {
    mask |= VALUE;
    if (value instanceof Uint8Array) writer.sized(value);
    else writeBytes(writer, value, "value");
  }
  if (headers !== undefined && writePairs(writer, headers, "headers")) mask |= arena.HEADERS;
  if (attributes !== undefined && writePairs(writer, attributes, "attributes")) mask |= arena.ATTRIBUTES;
  if (eventTime !== undefined) {
    mask |= arena.EVENT_TIME;
    writer.u64(eventTime === null ? arena.NO_TIME : micros(eventTime));
  }
  if (isStrict || mask === 0) checkMembers(changes, members);
  writer.bytes[at] = mask;
  return mask !== 0;
}

function checkMembers(changes, members) {
  if (typeof changes !== "object") throw new TypeError(`changes are ${shown(changes)}, expected an object`);
  for (const name of Object.keys(changes)) {
    if (members[name] === true) continue;
    throw new TypeError(`changes have the member ${JSON.stringify(name)}, expected ${Object.keys(members).join(", ")}`);
  }
}

function writeBytes(writer, value, what) {
  if (typeof value === "string") writer.text(value);
  else if (value === null) writer.u32(NULL);
  else if (value instanceof Uint8Array) writer.sized(value);
  else throw new TypeError(`${what} is ${shown(value)}, expected text, a Uint8Array or null`);
}

/** Writes changes of headers or attributes, and says whether there are any. */
function writePairs(writer, pairs, what) {
  const at = writer.used;
  let count = 0;
  writer.u16(0);
  if (Array.isArray(pairs)) {
    for (const change of pairs) {
      if (!(change instanceof PairChange)) throw new TypeError(`${what} have ${shown(change)}, expected set(...), add(...) or remove(...)`);
      writePair(writer, change.operation, change.name, change.value, what);
    }
    count = pairs.length;
  } else {
    if (typeof pairs !== "object" || pairs === null) throw new TypeError(`${what} are ${shown(pairs)}, expected a list or an object`);
    for (const name of Object.keys(pairs)) {
      writePair(writer, arena.SET, name, pairs[name], what);
      count++;
    }
  }
  if (count > arena.MAX_PAIRS) throw new RangeError(`${what} have ${count} changes, limit ${arena.MAX_PAIRS}`);
  if (count === 0) writer.used = at;
  else writer.view.setUint16(at, count, true);
  return count !== 0;
}

function writePair(writer, operation, name, value, what) {
  const named = nameBytes(name);
  if (named.length > arena.MAX_NAME) throw new RangeError(`${what} have a name of ${named.length} bytes, limit ${arena.MAX_NAME}`);
  const bytes = typeof value === "string" ? encodeText(value) : value;
  if (bytes !== null && !(bytes instanceof Uint8Array)) {
    throw new TypeError(`${what}: the value of ${JSON.stringify(name)} is ${shown(value)}, expected text, a Uint8Array or null`);
  }
  writer.room(NUMBERS);
  // The length of the value stands before the name, the value after it.
  writer.u8(operation);
  writer.u16(named.length);
  writer.u32(bytes === null ? NULL : bytes.length);
  writer.put(named);
  if (bytes !== null) writer.put(bytes);
}

/** Microseconds of what an event time may be given as. */
function micros(given) {
  if (typeof given === "bigint") {
    if (given === BigInt.asIntN(64, given)) return given;
  } else if (given instanceof Date) {
    if (Number.isFinite(given.getTime())) return BigInt(given.getTime()) * 1000n;
  } else if (typeof given === "number" && Math.abs(given) < 2 ** 63) {
    return BigInt(Math.trunc(given));
  }
  throw new RangeError(`eventTime is ${shown(given)}, expected microseconds since the Unix epoch, a Date or null`);
}

/** A value as an error shows it. */
export function shown(value) {
  if (value instanceof Promise) return "a Promise (process must not be async)";
  if (typeof value === "string") return JSON.stringify(value.length > 100 ? `${value.slice(0, 100)}...` : value);
  if (typeof value === "object" && value !== null) return `an object (${value.constructor?.name ?? "without a prototype"})`;
  return String(value);
}
