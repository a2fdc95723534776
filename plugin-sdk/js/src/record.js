// The batch that is being answered, and the record that is being looked at. There is one batch at a time, so both stand
// in variables of this module: an interpreter reads those faster than members of objects, and a record costs no object.

import * as arena from "./arena.js";
import { permanent } from "./failure.js";
import { readJson } from "./json.js";
import { SHORT_TEXT, nameBytes, shortText } from "./names.js";
import { Random } from "./random.js";
import { FieldError, decodeText, textOrNull } from "./text.js";

// What an interpreter reads for every record stands here by itself.
const { NULL } = arena;

let bytes = null;
// The same memory as signed words, and where it begins in its buffer.
let words = null;
let buffer = null;
let base = 0;
// For numbers that are not aligned.
let numbers = null;
// The entry of the record, as an index into `words`, and the distance to the next.
let entry = 0;
let stride = 0;
let table = 0;
// Where the value of the pair that was found begins and ends. An end below the beginning is null.
let foundAt = 0;
let foundEnd = 0;

/** Takes a batch to be answered, looks at its first record, and returns how many there are. */
export function openBatch(batch) {
  // Words can be read where they are aligned; a batch that is not is copied.
  bytes = batch.byteOffset % 4 === 0 ? batch : batch.slice();
  buffer = bytes.buffer;
  base = bytes.byteOffset;
  words = new Int32Array(buffer, base, bytes.length >> 2);
  numbers = new DataView(buffer, base, bytes.length);
  const { HEADER, HEADER_BYTES, ENTRY_BYTES, SECTION_BYTES } = arena;
  const { length } = bytes;
  if (length < HEADER_BYTES || words[HEADER.magic] !== arena.BATCH_MAGIC) throw bad("it is no arena of layout 2");
  const unsigned = (word) => words[word] >>> 0;
  const [stated, own, flags, count] = [HEADER.length, HEADER.own, HEADER.flags, HEADER.records].map(unsigned);
  const [step, place, sections, sectionTable] = [HEADER.stride, HEADER.table, HEADER.sections, HEADER.sectionTable].map(unsigned);
  if (stated !== length) throw bad(`it has ${length} bytes and says ${stated}`);
  if ((flags & arena.CRITICAL_FLAGS) !== 0) throw unknown(`its flags are ${shown(flags)}`);
  const isLaidOut = own >= HEADER_BYTES && place >= own && step >= ENTRY_BYTES && ((own | step | place) & 7) === 0;
  if (!isLaidOut || place + count * step > length) throw bad("its records do not lie within it");
  if (sectionTable + sections * SECTION_BYTES > length) throw bad("its sections do not lie within it");
  for (let section = 0; section < sections; section++) {
    const kind = numbers.getUint32(sectionTable + SECTION_BYTES * section, true);
    if (kind >= arena.CRITICAL_KIND) throw unknown(`it has a section of kind ${shown(kind)}`);
  }
  table = place >> 2;
  entry = table;
  stride = step >> 2;
  return count;
}

function shown(word) {
  return `0x${word.toString(16).padStart(8, "0")}`;
}

function bad(why) {
  return permanent("bad-batch", `the batch cannot be read: ${why}`);
}

function unknown(why) {
  return permanent("unknown-arena", `the batch has what this operator does not know: ${why}`);
}

/** Goes on to the next record. */
export function nextRecord() {
  entry += stride;
}

/** The index of the record in the batch; -1 where there is no batch. */
export function recordIndex() {
  return words === null ? -1 : (entry - table) / stride;
}

/** Lets go of the batch: a record that is looked at later is an error. */
export function closeBatch() {
  bytes = null;
  words = null;
  numbers = null;
  buffer = null;
}

/** Bytes where they lie: what `subarray` makes, in a third of its time. */
const view = (start, length) => new Uint8Array(buffer, base + start, length);

/** A field's bytes where they lie, null for null. */
function field(word) {
  const length = words[entry + word + 1];
  if (length === NULL) return null;
  return view(words[entry + word], length);
}

function long(word) {
  return (BigInt(words[word + 1] >>> 0) << 32n) | BigInt(words[word] >>> 0);
}

const signed = (number) => BigInt.asIntN(64, number);

/** A signed number of 64 bits, exact from -2^53 to 2^53. */
const micros = (word) => words[word + 1] * 2 ** 32 + (words[word] >>> 0);

/** Finds the last pair of this name, and says whether there is one. */
function find(place, count, name) {
  const wanted = nameBytes(name);
  const length = wanted.length;
  let isFound = false;
  for (; count > 0; count--) {
    const named = numbers.getUint16(place, true);
    const valued = numbers.getInt32(place + 2, true);
    place += 6;
    const end = place + named;
    if (named === length) {
      let at = 0;
      while (at < length && bytes[place + at] === wanted[at]) at++;
      if (at === length) {
        foundAt = end;
        foundEnd = end + valued;
        isFound = true;
      }
    }
    place = valued === NULL ? end : end + valued;
  }
  return isFound;
}

const findHeader = (name) => find(words[entry + 14], words[entry + 8] & 0xffff, name);
const findAttribute = (name) => find(words[entry + 16], words[entry + 8] >>> 16, name);

function found() {
  return foundEnd < foundAt ? null : view(foundAt, foundEnd - foundAt);
}

function foundText() {
  const length = foundEnd - foundAt;
  if (length < 0) return null;
  return length <= SHORT_TEXT ? shortText(bytes, foundAt, length) : textOrNull(view(foundAt, length));
}

function* pairs(place, count) {
  for (; count > 0; count--) {
    const named = numbers.getUint16(place, true);
    const valued = numbers.getInt32(place + 2, true);
    const end = place + 6 + named;
    const name = decodeText(view(place + 6, named), "name");
    const value = valued === NULL ? null : view(end, valued);
    place = end + (value === null ? 0 : valued);
    yield [name, value];
  }
}

/** See index.d.ts. Every field is read from the arena when it is asked for. */
class Record {
  get key() {
    return field(arena.ENTRY.key);
  }

  get value() {
    const length = words[entry + 13];
    if (length === NULL) return null;
    return new Uint8Array(buffer, base + words[entry + 12], length);
  }

  get text() {
    const value = this.value;
    if (value === null) throw new FieldError("value is null, expected UTF-8 text");
    return decodeText(value, "value");
  }

  json() {
    const value = this.value;
    if (value === null) throw new FieldError("value is null, expected JSON");
    return readJson(value, "value");
  }

  header(name) {
    return findHeader(name) ? found() : null;
  }

  headerText(name) {
    return findHeader(name) ? foundText() : null;
  }

  get headers() {
    return pairs(words[entry + 14], words[entry + 8] & 0xffff);
  }

  get headerCount() {
    return words[entry + 8] & 0xffff;
  }

  attribute(name) {
    return findAttribute(name) ? found() : null;
  }

  attributeText(name) {
    return findAttribute(name) ? foundText() : null;
  }

  get attributes() {
    return pairs(words[entry + 16], words[entry + 8] >>> 16);
  }

  get attributeCount() {
    return words[entry + 8] >>> 16;
  }

  get id() {
    const origin = words[entry + arena.ENTRY.origin];
    return {
      origin: ((origin >>> 16) & 0xff) === 0 ? "source" : "timer",
      source: origin & 0xffff,
      partition: words[entry + arena.ENTRY.partition] >>> 0,
      offset: long(entry + arena.ENTRY.offset),
      emit: long(entry + arena.ENTRY.emit),
    };
  }

  get eventTime() {
    // The smallest number is none.
    return words[entry + 1] === -0x80000000 && words[entry] === 0 ? null : micros(entry);
  }

  get exactEventTime() {
    const time = signed(long(entry));
    return time === arena.NO_TIME ? null : time;
  }

  get now() {
    return micros(arena.HEADER.clock);
  }

  get exactNow() {
    return signed(long(arena.HEADER.clock));
  }

  random() {
    return new Random(long(arena.HEADER.seed), long(arena.HEADER.seed + 2), this.id);
  }
}

/** The one record: whichever the batch is at. */
export const record = new Record();
