// The answer of an operator, read and checked as the host does it.

import * as arena from "../arena.js";
import { decodeText } from "../text.js";

const NULL = 0xffffffff;
const OPERATIONS = ["set", "add", "remove"];

/** Reads bytes from a place on; past the end is an error that names the place. */
class Reader {
  constructor(bytes, at, end = bytes.length) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = at;
    this.end = end;
    if (at > end || end > bytes.length) throw new Error(`a part from byte ${at} to ${end} lies outside of ${bytes.length} bytes`);
  }

  take(length) {
    const { at } = this;
    if (at + length > this.end) throw new Error(`byte ${at}: ${length} bytes expected, ${this.end - at} are left`);
    this.at += length;
    return at;
  }

  u8 = () => this.view.getUint8(this.take(1));
  u16 = () => this.view.getUint16(this.take(2), true);
  u32 = () => this.view.getUint32(this.take(4), true);
  u64 = () => this.view.getBigUint64(this.take(8), true);
  i64 = () => this.view.getBigInt64(this.take(8), true);
  f64 = () => this.view.getFloat64(this.take(8), true);

  copy(length) {
    const at = this.take(length);
    return this.bytes.slice(at, at + length);
  }

  text(length) {
    return decodeText(this.copy(length), `text at byte ${this.at - length}`);
  }

  nullable() {
    const length = this.u32();
    return length === NULL ? null : this.copy(length);
  }
}

/**
 * The outcomes and samples of an answer to a batch of so many records. An outcome is
 * `{ kind, patch, to, pieces, afterMs, reason }`, of which it has what its kind has; a patch has `key`, `value`,
 * `eventTime` where they change, and always `headers` and `attributes`, lists of `[operation, name, value]`.
 */
export function decodeAnswer(bytes, records, outputs, metrics) {
  const header = new Reader(bytes, 0);
  const magic = header.u32();
  if (magic !== arena.ANSWER_MAGIC) throw new Error(`answer begins with ${magic.toString(16)}`);
  const [length, own, flags, count, actions, payloads, payloadLength, sections, table] = Array.from({ length: 9 }, header.u32);
  if (length !== bytes.length) throw new Error(`answer states ${length} bytes but has ${bytes.length}`);
  if (own < arena.ANSWER_HEADER) throw new Error(`answer has a header of ${own} bytes, expected ${arena.ANSWER_HEADER}`);
  if ((flags & arena.CRITICAL_FLAGS) !== 0) throw new Error(`answer has the flags ${flags}, which must be known and are not`);
  if (count !== records) throw new Error(`answer has ${count} outcomes for ${records} records`);
  const codes = new Reader(bytes, actions, actions + count);
  const payload = new Reader(bytes, payloads, payloads + payloadLength);
  const outcomes = Array.from({ length: count }, (_, record) => {
    try {
      return outcome(codes.u8(), payload, outputs);
    } catch (error) {
      throw new Error(`outcome of record ${record + 1} is malformed: ${error.message}`);
    }
  });
  if (payload.at !== payload.end) throw new Error(`answer has ${payload.end - payload.at} bytes after its last outcome`);
  const samples = [];
  const entries = new Reader(bytes, sections === 0 ? bytes.length : table);
  for (let section = 0; section < sections; section++) {
    const [kind, number, start, size] = Array.from({ length: 4 }, entries.u32);
    if (kind === arena.SAMPLES) samples.push(...samplesOf(new Reader(bytes, start, start + size), number, records, metrics));
    else if (kind >= arena.CRITICAL_KIND) throw new Error(`answer has the section ${kind}, which must be known and is not`);
  }
  return { outcomes, samples };
}

function outcome(action, reader, outputs) {
  switch (action) {
    case arena.PASS:
      return { kind: "pass" };
    case arena.DROP:
      return { kind: "drop" };
    case arena.REPLACE:
      return { kind: "replace", patch: patch(reader) };
    case arena.SPLIT: {
      const count = reader.u32();
      if (count > arena.MAX_PIECES) throw new Error(`${count} pieces, limit ${arena.MAX_PIECES}`);
      return { kind: "split", pieces: Array.from({ length: count }, () => emission(reader, outputs)) };
    }
    case arena.ROUTE:
      return { kind: "route", ...emission(reader, outputs) };
    case arena.RETRY: {
      const afterMs = reader.u32();
      return { kind: "retry", afterMs, reason: reader.text(reader.u32()) };
    }
    case arena.DEAD_LETTER:
      return { kind: "dead-letter", reason: reader.text(reader.u32()) };
    default:
      throw new Error(`unknown action ${action}`);
  }
}

function emission(reader, outputs) {
  const number = reader.u16();
  if (number > outputs.length) throw new Error(`output ${number}, the operator declares ${outputs.length}`);
  return { to: number === 0 ? null : outputs[number - 1], patch: patch(reader) };
}

function patch(reader) {
  const mask = reader.u8();
  if (mask > 31) throw new Error(`mask ${mask} has unknown bits`);
  const read = {};
  if (mask & arena.KEY) read.key = reader.nullable();
  if (mask & arena.VALUE) read.value = reader.nullable();
  read.headers = mask & arena.HEADERS ? pairChanges(reader) : [];
  read.attributes = mask & arena.ATTRIBUTES ? pairChanges(reader) : [];
  if (mask & arena.EVENT_TIME) {
    const time = reader.i64();
    read.eventTime = time === arena.NO_TIME ? null : time;
  }
  return read;
}

function pairChanges(reader) {
  return Array.from({ length: reader.u16() }, () => {
    const operation = OPERATIONS[reader.u8()];
    if (operation === undefined) throw new Error("a change that is neither set, add nor remove");
    const named = reader.u16();
    const valued = reader.u32();
    const name = reader.text(named);
    const value = valued === NULL ? null : reader.copy(valued);
    return operation === "remove" ? [operation, name] : [operation, name, value];
  });
}

function samplesOf(reader, count, records, metrics) {
  const measured = new Map();
  const samples = Array.from({ length: count }, () => {
    const record = reader.u32();
    if (record >= records) throw new Error(`a sample of record ${record + 1}, the batch has ${records}`);
    const metric = metrics[reader.u16()];
    if (metric === undefined) throw new Error("a sample of a metric that is not declared");
    const labels = reader.u16();
    if (labels !== metric.labels.length) throw new Error(`metric ${metric.name} has ${labels} labels, expected ${metric.labels.length}`);
    const value = metric.kind === "counter" ? Number(reader.u64()) : reader.f64();
    const texts = Array.from({ length: labels }, () => reader.text(reader.u16()));
    measured.set(record, (measured.get(record) ?? 0) + 1);
    return { record, metric, value, labels: Object.fromEntries(metric.labels.map((label, index) => [label, texts[index]])) };
  });
  for (const [record, number] of measured) {
    if (number > arena.MAX_SAMPLES) throw new Error(`record ${record + 1} has ${number} measurements, limit ${arena.MAX_SAMPLES}`);
  }
  if (reader.at !== reader.end) throw new Error("bytes after the last sample");
  return samples;
}
