// Records as a packed batch, as the host writes it: with the fields that the operator reads and no others.

import * as arena from "../arena.js";
import { encodeText } from "../text.js";
import { NUMBERS, Writer } from "../writer.js";

/** A batch of records (see `asRecord`) with a clock (BigInt) and a seed of 16 bytes. */
export function encodeBatch(records, reads, clock, seed) {
  const heap = new Writer(4096);
  heap.used = arena.HEADER_BYTES;
  heap.bytes.fill(0, 0, heap.used);
  const bits = (reads.includes("key") && arena.KEY) | (reads.includes("value") && arena.VALUE) | (reads.includes("headers") && arena.HEADERS) | (reads.includes("attributes") && arena.ATTRIBUTES);
  const entries = records.map((record) => ({
    record,
    key: reads.includes("key") ? field(heap, record.key) : NOT_THERE,
    value: reads.includes("value") ? field(heap, record.value) : NOT_THERE,
    headers: reads.includes("headers") ? block(heap, record.headers) : NO_PAIRS,
    attributes: reads.includes("attributes") ? block(heap, record.attributes) : NO_PAIRS,
  }));
  heap.room(NUMBERS);
  while (heap.used % 8 !== 0) heap.u8(0);
  const table = heap.used;
  for (const { record, key, value, headers, attributes } of entries) {
    const { id } = record;
    heap.room(arena.ENTRY_BYTES);
    heap.u64(record.eventTime ?? arena.NO_TIME);
    heap.u64(id.offset);
    heap.u64(id.emit);
    heap.u32(id.partition);
    heap.u16(id.source);
    heap.u8(id.origin === "timer" ? 1 : 0);
    heap.u8(bits);
    heap.u16(headers.count);
    heap.u16(attributes.count);
    heap.u32(0);
    for (const { start, length } of [key, value, headers, attributes]) {
      heap.u32(start);
      heap.u32(length);
    }
  }
  const header = [arena.BATCH_MAGIC, heap.used, arena.HEADER_BYTES, 0, records.length, arena.ENTRY_BYTES, table, 0, 0, 0];
  const length = heap.used;
  header.forEach((word, index) => heap.u32At(4 * index, word));
  heap.used = 4 * arena.HEADER.clock;
  heap.u64(clock);
  heap.put(seed);
  return heap.bytes.slice(0, length);
}

const NOT_THERE = { start: 0, length: arena.NULL };
const NO_PAIRS = { start: 0, length: 0, count: 0 };

function field(heap, bytes) {
  const start = heap.used;
  if (bytes === null) return { start, length: arena.NULL };
  heap.put(bytes);
  return { start, length: bytes.length };
}

function block(heap, pairs) {
  const start = heap.used;
  if (pairs.length > arena.MAX_PAIRS) throw new RangeError(`a record has ${pairs.length} headers or attributes, limit ${arena.MAX_PAIRS}`);
  for (const [name, value] of pairs) {
    const named = encodeText(name);
    if (named.length > arena.MAX_NAME) throw new RangeError(`a name has ${named.length} bytes, limit ${arena.MAX_NAME}`);
    heap.room(NUMBERS);
    heap.u16(named.length);
    heap.u32(value === null ? arena.NULL : value.length);
    heap.put(named);
    if (value !== null) heap.put(value);
  }
  return { start, length: heap.used - start, count: pairs.length };
}
