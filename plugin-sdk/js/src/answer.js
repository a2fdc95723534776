// The answer to a batch, outcome by outcome.

import * as arena from "./arena.js";
import { MEMBERS, MEMBERS_OF_PIECE, shown, writeChanges } from "./patch.js";
import { NUMBERS, Writer } from "./writer.js";

const { ANSWER_HEADER, REPLACE } = arena;
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
    /** What becomes of each record; 0, as it begins, is pass. */
    this.actions = new Uint8Array(LITTLE);
    this.samples = new Writer(256);
    this.sampleCount = 0;
    this.records = 0;
  }

  /** Begins an answer in which every record passes. */
  begin(records) {
    if (this.writer.bytes.length > MUCH) this.writer = new Writer(LITTLE);
    if (this.actions.length < records) this.actions = new Uint8Array(records);
    else this.actions.fill(0, 0, records);
    const { writer } = this;
    this.records = records;
    this.samples.used = 0;
    this.sampleCount = 0;
    writer.used = 0;
    writer.room(ANSWER_HEADER + records + NUMBERS);
    writer.used = ANSWER_HEADER + records;
  }

  /** Writes the outcome of a record. What cannot be written throws, and `takeBack` undoes it. */
  write(record, outcome) {
    const { writer, actions } = this;
    switch (outcome?.action) {
      case REPLACE:
        if (writeChanges(writer, outcome.what, MEMBERS)) actions[record] = REPLACE;
        // A patch that changes nothing is not written.
        else writer.used -= 1;
        break;
      case arena.PASS:
        break;
      case arena.DROP:
        actions[record] = arena.DROP;
        break;
      case arena.SPLIT:
        actions[record] = arena.SPLIT;
        writer.room(NUMBERS);
        this.#pieces(outcome.what);
        break;
      case arena.ROUTE:
        actions[record] = arena.ROUTE;
        writer.room(NUMBERS);
        writer.u16(this.#number(outcome.what.output));
        writeChanges(writer, outcome.what.changes, MEMBERS);
        break;
      case arena.RETRY:
        actions[record] = arena.RETRY;
        writer.room(NUMBERS);
        writer.u32(delay(outcome.what.afterMs));
        this.#reason(outcome.what.reason);
        break;
      case arena.DEAD_LETTER:
        actions[record] = arena.DEAD_LETTER;
        this.#reason(outcome.what);
        break;
      default:
        throw new TypeError(`process answered with ${shown(outcome)}, expected an outcome: pass, drop, replace(...)`);
    }
  }

  /** Makes the outcome of a record a dead letter, over what was written from `used` on. */
  takeBack(record, used, reason) {
    this.writer.used = used;
    this.writer.room(NUMBERS);
    this.actions[record] = arena.DEAD_LETTER;
    this.#reason(reason);
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
      writer.room(NUMBERS);
      writer.u16(this.#number(piece.to));
      writeChanges(writer, piece, MEMBERS_OF_PIECE);
    }
    writer.u32At(at, count);
  }

  /** The answer as bytes, which the next answer writes over. */
  finish() {
    const { writer, samples, records } = this;
    const payloads = ANSWER_HEADER + records;
    const end = writer.used;
    writer.bytes.set(this.actions.subarray(0, records), ANSWER_HEADER);
    let table = 0;
    if (this.sampleCount > 0) {
      // With room for the table behind it.
      writer.put(samples.bytes.subarray(0, samples.used));
      table = writer.used;
      for (const number of [arena.SAMPLES, this.sampleCount, end, samples.used]) writer.u32(number);
    }
    const header = [arena.ANSWER_MAGIC, writer.used, ANSWER_HEADER, 0, records, ANSWER_HEADER, payloads, end - payloads, table === 0 ? 0 : 1, table];
    for (let word = 0; word < header.length; word++) writer.u32At(4 * word, header[word]);
    return writer.bytes.subarray(0, writer.used);
  }
}

function delay(afterMs) {
  if (typeof afterMs !== "number" || !(afterMs >= 0)) throw new RangeError(`retry after ${shown(afterMs)} ms, expected a number from 0`);
  return Math.min(Math.ceil(afterMs), LONGEST_DELAY);
}
