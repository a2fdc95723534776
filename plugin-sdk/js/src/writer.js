// Bytes that grow, little-endian.

import { encodeText } from "./text.js";

// Shorter ASCII is written character by character.
const SHORT = 12;

/** What is written, in `bytes` up to `used`. The memory is kept for the next time. */
export class Writer {
  constructor(room) {
    this.bytes = new Uint8Array(room);
    this.used = 0;
  }

  /** Makes room for this many bytes more. */
  room(more) {
    const needed = this.used + more;
    if (needed <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(needed, 2 * this.bytes.length));
    larger.set(this.bytes.subarray(0, this.used));
    this.bytes = larger;
  }

  u8(number) {
    this.room(1);
    this.bytes[this.used++] = number;
  }

  u16(number) {
    this.room(2);
    const { bytes, used } = this;
    bytes[used] = number;
    bytes[used + 1] = number >>> 8;
    this.used = used + 2;
  }

  u32(number) {
    this.room(4);
    this.u32At(this.used, number);
    this.used += 4;
  }

  /** Writes over what is there. */
  u32At(at, number) {
    const bytes = this.bytes;
    bytes[at] = number;
    bytes[at + 1] = number >>> 8;
    bytes[at + 2] = number >>> 16;
    bytes[at + 3] = number >>> 24;
  }

  /** A BigInt of 64 bits, signed or not. */
  u64(number) {
    this.u32(Number(BigInt.asIntN(32, number)));
    this.u32(Number(BigInt.asIntN(32, number >> 32n)));
  }

  put(bytes) {
    this.room(bytes.length);
    this.bytes.set(bytes, this.used);
    this.used += bytes.length;
  }

  /** Length (4) and bytes. */
  sized(bytes) {
    this.u32(bytes.length);
    this.put(bytes);
  }

  /** Length (4) and UTF-8. */
  text(text) {
    const length = text.length;
    if (length > SHORT) return this.sized(encodeText(text));
    this.room(4 + length);
    const { bytes, used } = this;
    for (let at = 0; at < length; at++) {
      const unit = text.charCodeAt(at);
      if (unit > 127) return this.sized(encodeText(text));
      bytes[used + 4 + at] = unit;
    }
    this.u32At(used, length);
    this.used = used + 4 + length;
  }
}
