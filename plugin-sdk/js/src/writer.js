// Bytes that grow, little-endian.

import { encodeText } from "./text.js";

/** Room that is left behind what is put in, for the numbers that follow. */
export const NUMBERS = 64;

/** What is written, in `bytes` up to `used`. The memory is kept for the next time. */
export class Writer {
  constructor(room) {
    this.bytes = new Uint8Array(room);
    this.view = new DataView(this.bytes.buffer);
    this.used = 0;
  }

  /** Makes room for this many bytes more. */
  room(more) {
    const needed = this.used + more;
    if (needed <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(needed, 2 * this.bytes.length));
    larger.set(this.bytes.subarray(0, this.used));
    this.bytes = larger;
    this.view = new DataView(larger.buffer);
  }

  // Numbers are written where room was made for them: a call less for each.

  u8(number) {
    this.bytes[this.used++] = number;
  }

  u16(number) {
    this.view.setUint16(this.used, number, true);
    this.used += 2;
  }

  u32(number) {
    this.view.setUint32(this.used, number, true);
    this.used += 4;
  }

  f64(number) {
    this.view.setFloat64(this.used, number, true);
    this.used += 8;
  }

  /** Writes over what is there. */
  u32At(at, number) {
    this.view.setUint32(at, number, true);
  }

  /** A BigInt of 64 bits, signed or not. */
  u64(number) {
    this.u32(Number(BigInt.asIntN(32, number)));
    this.u32(Number(BigInt.asIntN(32, number >> 32n)));
  }

  put(bytes) {
    const length = bytes.length;
    this.room(length + NUMBERS);
    this.bytes.set(bytes, this.used);
    this.used += length;
  }

  /** Length (4) and bytes. */
  sized(bytes) {
    const length = bytes.length;
    this.room(length + NUMBERS);
    const used = this.used;
    this.view.setUint32(used, length, true);
    this.bytes.set(bytes, used + 4);
    this.used = used + 4 + length;
  }

  /** Length (4) and UTF-8. */
  text(text) {
    this.sized(encodeText(text));
  }
}
