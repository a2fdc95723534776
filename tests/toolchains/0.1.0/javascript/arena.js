// The packed arena, version 1, as far as this operator needs it. The layout is in wit/released/0.1.0/tidegate.wit.

const NULL = 0xffffffff;
const HEADER = 16;
const MASK_VALUE = 2;
const ACTION = { drop: 1, replace: 2, deadLetter: 6 };

/** The values of a batch's records as bytes, null for what is null or not there. */
export function* values(batch) {
  const view = new DataView(batch.buffer, batch.byteOffset, batch.byteLength);
  const table = view.getUint32(12, true);
  for (let entry = table; entry < table + 64 * view.getUint32(8, true); entry += 64) {
    const length = view.getUint32(entry + 44, true);
    const start = view.getUint32(entry + 40, true);
    const isThere = view.getUint8(entry + 30) & MASK_VALUE && length !== NULL;
    yield isThere ? batch.subarray(start, start + length) : null;
  }
}

/** How many records a batch has. */
export const records = (batch) => new DataView(batch.buffer, batch.byteOffset).getUint32(8, true);

/** An answer that grows: a record of which nothing is said passes. */
export class Answer {
  #bytes;
  #length;

  constructor(records) {
    this.#length = HEADER + records;
    this.#bytes = new Uint8Array(4096 + this.#length);
    this.#bytes.set([0x54, 0x47, 0x4f, 1]);
    this.#putU32(8, records);
    this.#putU32(12, this.#length);
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
