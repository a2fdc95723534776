// The packed arena, layout 2, as far as this operator needs it: see wit/README.md.

const NULL = 0xffffffff;
const HEADER = 40;
const MASK_VALUE = 2;
// Of flags and of kinds of sections: an arena with one that a reader does not know is not to be read.
const CRITICAL_FLAGS = 0xffff0000;
const CRITICAL_KIND = 0x80000000;
const ACTION = { drop: 1, replace: 2, deadLetter: 6 };

const viewOf = (batch) => new DataView(batch.buffer, batch.byteOffset, batch.byteLength);

/** How many records a batch has. */
export function records(batch) {
  const view = viewOf(batch);
  let isKnown = (view.getUint32(12, true) & CRITICAL_FLAGS) === 0;
  for (let section = 0; section < view.getUint32(28, true); section++) {
    isKnown &&= view.getUint32(view.getUint32(32, true) + 16 * section, true) < CRITICAL_KIND;
  }
  if (!isKnown) throw { class: "permanent", code: "unknown-arena", message: "the batch has what this operator does not know" };
  return view.getUint32(16, true);
}

/** The values of a batch's records as bytes, null for what is null or not there. */
export function* values(batch) {
  const view = viewOf(batch);
  const stride = view.getUint32(20, true);
  const table = view.getUint32(24, true);
  for (let entry = table; entry < table + stride * view.getUint32(16, true); entry += stride) {
    const length = view.getUint32(entry + 52, true);
    const start = view.getUint32(entry + 48, true);
    const isThere = view.getUint8(entry + 31) & MASK_VALUE && length !== NULL;
    yield isThere ? batch.subarray(start, start + length) : null;
  }
}

/** An answer that grows: a record of which nothing is said passes. */
export class Answer {
  #records;
  #bytes;
  #length;

  constructor(records) {
    this.#records = records;
    this.#length = HEADER + records;
    this.#bytes = new Uint8Array(4096 + this.#length);
    this.#bytes.set([0x54, 0x47, 0x4f, 2]);
    this.#putU32(8, HEADER);
    this.#putU32(16, records);
    this.#putU32(20, HEADER);
    this.#putU32(24, this.#length);
  }

  drop(record) {
    this.#bytes[HEADER + record] = ACTION.drop;
  }

  replaceValue(record, value) {
    this.#bytes[HEADER + record] = ACTION.replace;
    this.#more(1);
    this.#bytes[this.#length++] = MASK_VALUE;
    this.#put(value);
  }

  deadLetter(record, reason) {
    this.#bytes[HEADER + record] = ACTION.deadLetter;
    this.#put(reason);
  }

  finish() {
    this.#putU32(4, this.#length);
    this.#putU32(28, this.#length - HEADER - this.#records);
    return this.#bytes.subarray(0, this.#length);
  }

  /** Length and bytes. */
  #put(bytes) {
    this.#more(4 + bytes.length);
    this.#putU32(this.#length, bytes.length);
    this.#bytes.set(bytes, this.#length + 4);
    this.#length += 4 + bytes.length;
  }

  #putU32(at, number) {
    for (let byte = 0; byte < 4; byte++) this.#bytes[at + byte] = number >>> (8 * byte);
  }

  #more(length) {
    if (this.#length + length <= this.#bytes.length) return;
    const larger = new Uint8Array(2 * this.#bytes.length + length);
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}
