// The answer to a batch, outcome by outcome.

import * as arena from "./arena.js";
import { nameBytes } from "./names.js";
import { PairChange } from "./outcome.js";
import { encodeText } from "./text.js";
import { Writer } from "./writer.js";

const { ANSWER_HEADER, NULL } = arena;
const LONGEST_DELAY = 0xffffffff;
// Of a reason the host keeps 4 KiB: more characters than bytes are not needed.
const LONGEST_REASON = 4096;
// Memory of an answer that is kept for the next.
const LITTLE = 4096;
const MUCH = 4 << 20;

/** Writes answers, one after the other, into memory that is kept. */
export class Answer {
  /** `outputs` are the named outputs, by their numbers from 1 on. */
  constructor(name, outputs) {
    this.name = name;
    this.outputs = new Map(outputs.map((output, index) => [output, index + 1]));
    this.writer = new Writer(LITTLE);
    this.samples = new Writer(256);
    this.sampleCount = 0;
    this.records = 0;
  }

  /** Begins an answer in which every record passes. */
  begin(records) {
    if (this.writer.bytes.length > MUCH) this.writer = new Writer(LITTLE);
    const { writer } = this;
    this.records = records;
    this.samples.used = 0;
    this.sampleCount = 0;
    writer.used = 0;
    writer.room(ANSWER_HEADER + records);
    writer.used = ANSWER_HEADER + records;
    writer.bytes.fill(0, 0, writer.used);
  }

  /** Says that a record ends. */
  drop(record) {
    this.writer.bytes[ANSWER_HEADER + record] = arena.DROP;
  }

  /** Writes the outcome of a record. What cannot be written throws, and `takeBack` undoes it. */
  write(record, outcome) {
    switch (outcome?.action) {
      case arena.PASS:
        break;
      case arena.DROP:
        this.drop(record);
        break;
      case arena.REPLACE:
        if (this.#changes(outcome.what, MEMBERS)) this.#action(record, arena.REPLACE);
        // A patch that changes nothing is not written.
        else this.writer.used -= 1;
        break;
      case arena.SPLIT:
        this.#action(record, arena.SPLIT);
        this.#pieces(outcome.what);
        break;
      case arena.ROUTE:
        this.#action(record, arena.ROUTE);
        this.writer.u16(this.#number(outcome.more));
        this.#changes(outcome.what, MEMBERS);
        break;
      case arena.RETRY:
        this.#action(record, arena.RETRY);
        this.writer.u32(delay(outcome.more));
        this.#reason(outcome.what);
        break;
      case arena.DEAD_LETTER:
        this.#action(record, arena.DEAD_LETTER);
        this.#reason(outcome.what);
        break;
      default:
        throw new TypeError(`process answered with ${shown(outcome)}, expected an outcome: pass, drop, replace(...)`);
    }
  }

  /** Makes the outcome of a record a dead letter, over what was written from `used` on. */
  takeBack(record, used, reason) {
    this.writer.used = used;
    this.#action(record, arena.DEAD_LETTER);
    this.#reason(reason);
  }

  #action(record, action) {
    this.writer.bytes[ANSWER_HEADER + record] = action;
  }

  #reason(reason) {
    this.writer.text(String(reason).slice(0, LONGEST_REASON).toWellFormed());
  }

  #number(output) {
    if (output === undefined || output === null) return 0;
    const number = this.outputs.get(output);
    if (number !== undefined) return number;
    const known = [...this.outputs.keys()].join(", ") || "none";
    throw new RangeError(`operator ${this.name} has no output ${JSON.stringify(output)}, it declares ${known}`);
  }

  #pieces(pieces) {
    const { writer } = this;
    const at = writer.used;
    writer.u32(0);
    let count = 0;
    for (const piece of pieces) {
      if (++count > arena.MAX_PIECES) {
        throw new RangeError(`split into ${pieces.length ?? `${count} or more`} pieces, limit ${arena.MAX_PIECES}`);
      }
      writer.u16(this.#number(piece.to));
      this.#changes(piece, MEMBERS_OF_PIECE);
    }
    writer.u32At(at, count);
  }

  /** Writes a patch, and says whether it changes anything. */
  #changes(changes, members) {
    if (typeof changes !== "object" || changes === null) throw new TypeError(`changes are ${shown(changes)}, expected an object`);
    for (const name in changes) {
      if (members[name] !== true) {
        throw new TypeError(`changes have the member ${JSON.stringify(name)}, expected ${Object.keys(members).join(", ")}`);
      }
    }
    const { writer } = this;
    const { key, value, headers, attributes, eventTime } = changes;
    const at = writer.used;
    let mask = 0;
    writer.u8(0);
    if (key !== undefined) {
      mask |= arena.KEY;
      this.#bytes(key, "key");
    }
    if (value !== undefined) {
      mask |= arena.VALUE;
      this.#bytes(value, "value");
    }
    if (headers !== undefined && this.#pairs(headers, "headers")) mask |= arena.HEADERS;
    if (attributes !== undefined && this.#pairs(attributes, "attributes")) mask |= arena.ATTRIBUTES;
    if (eventTime !== undefined) {
      mask |= arena.EVENT_TIME;
      writer.u64(eventTime === null ? arena.NO_TIME : time(eventTime));
    }
    writer.bytes[at] = mask;
    return mask !== 0;
  }

  #bytes(value, what) {
    if (typeof value === "string") this.writer.text(value);
    else if (value === null) this.writer.u32(NULL);
    else if (value instanceof Uint8Array) this.writer.sized(value);
    else throw new TypeError(`${what} is ${shown(value)}, expected text, a Uint8Array or null`);
  }

  /** Writes changes of headers or attributes, and says whether there are any. */
  #pairs(pairs, what) {
    const { writer } = this;
    const at = writer.used;
    let count = 0;
    writer.u16(0);
    if (Array.isArray(pairs)) {
      for (const change of pairs) {
        if (!(change instanceof PairChange)) throw new TypeError(`${what} have ${shown(change)}, expected set(...), add(...) or remove(...)`);
        this.#pair(change.operation, change.name, change.value, what);
      }
      count = pairs.length;
    } else {
      for (const name of Object.keys(pairs)) {
        this.#pair(arena.SET, name, pairs[name], what);
        count++;
      }
    }
    if (count > arena.MAX_PAIRS) throw new RangeError(`${what} have ${count} changes, limit ${arena.MAX_PAIRS}`);
    if (count === 0) {
      writer.used = at;
      return false;
    }
    writer.bytes[at] = count;
    writer.bytes[at + 1] = count >>> 8;
    return true;
  }

  #pair(operation, name, value, what) {
    const { writer } = this;
    const named = nameBytes(name);
    if (named.length > arena.MAX_NAME) throw new RangeError(`${what} have a name of ${named.length} bytes, limit ${arena.MAX_NAME}`);
    writer.u8(operation);
    writer.u16(named.length);
    // The length of the value stands before the name, the value after it.
    const bytes = typeof value === "string" ? encodeText(value) : value;
    if (bytes === null) {
      writer.u32(NULL);
      writer.put(named);
    } else if (bytes instanceof Uint8Array) {
      writer.u32(bytes.length);
      writer.put(named);
      writer.put(bytes);
    } else {
      throw new TypeError(`${what}: the value of ${JSON.stringify(name)} is ${shown(value)}, expected text, a Uint8Array or null`);
    }
  }

  /** The answer as bytes, which the next answer writes over. */
  finish() {
    const { writer, samples, records } = this;
    const payloads = ANSWER_HEADER + records;
    const end = writer.used;
    let table = 0;
    if (this.sampleCount > 0) {
      writer.put(samples.bytes.subarray(0, samples.used));
      table = writer.used;
      for (const number of [arena.SAMPLES, this.sampleCount, end, samples.used]) writer.u32(number);
    }
    const header = [arena.ANSWER_MAGIC, writer.used, ANSWER_HEADER, 0, records, ANSWER_HEADER, payloads, end - payloads, table === 0 ? 0 : 1, table];
    for (let word = 0; word < header.length; word++) writer.u32At(4 * word, header[word]);
    return writer.bytes.subarray(0, writer.used);
  }
}

const MEMBERS = { key: true, value: true, headers: true, attributes: true, eventTime: true };
const MEMBERS_OF_PIECE = { ...MEMBERS, to: true };

function delay(afterMs) {
  if (typeof afterMs !== "number" || !(afterMs >= 0)) throw new RangeError(`retry after ${shown(afterMs)} ms, expected a number from 0`);
  return Math.min(Math.ceil(afterMs), LONGEST_DELAY);
}

/** Microseconds of what an event time may be given as. */
function time(given) {
  if (typeof given === "bigint") {
    if (given === BigInt.asIntN(64, given)) return given;
  } else if (given instanceof Date) {
    if (Number.isFinite(given.getTime())) return BigInt(given.getTime()) * 1000n;
  } else if (typeof given === "number" && Number.isFinite(given) && Math.abs(given) < 2 ** 63) {
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
