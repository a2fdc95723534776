// UTF-8 text to bytes and back, by what the engine has: TextEncoder and TextDecoder in SpiderMonkey and node, Base64 in
// QuickJS. Both are native code: in an interpreter every step over a byte costs some ten nanoseconds.

/** A field of a record that cannot be read as it was asked for: the record is at fault, not the operator's code. */
export class FieldError extends Error {
  get name() {
    return "FieldError";
  }
}

/** By TextEncoder and TextDecoder. */
export function webCodec() {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  return {
    encode: (text) => encoder.encode(text),
    decode: (bytes) => decoder.decode(bytes),
  };
}

/** By way of Base64 and percent escapes, for QuickJS. */
export function base64Codec() {
  return {
    encode(text) {
      let bytes;
      try {
        bytes = Uint8Array.fromBase64(btoa(text));
      } catch {
        // A character that is not one byte.
      }
      if (bytes !== undefined && isAscii(bytes)) return bytes;
      return Uint8Array.fromBase64(btoa(unescape(encodeURIComponent(text.toWellFormed()))));
    },
    decode(bytes) {
      const latin = atob(bytes.toBase64());
      return isAscii(bytes) ? latin : decodeURIComponent(escape(latin));
    },
  };
}

const HIGH_BITS = 0x80808080;
// Bytes of a block of words, and from how many bytes on words are worth it.
const BLOCK = 32;
const MANY = 64;

/** Whether no byte is above 127. */
function isAscii(bytes) {
  const length = bytes.length;
  let all = 0;
  let end = 0;
  if (length >= MANY) {
    // Words are read where they are aligned: what is before the first is looked at with the rest.
    end = -bytes.byteOffset & 3;
    for (let at = 0; at < end; at++) all |= bytes[at];
    const words = new Int32Array(bytes.buffer, bytes.byteOffset + end, 8 * Math.floor((length - end) / BLOCK));
    const count = words.length;
    let block = 0;
    for (let at = 0; at < count; at += 8) {
      block |= words[at] | words[at + 1] | words[at + 2] | words[at + 3] | words[at + 4] | words[at + 5] | words[at + 6] | words[at + 7];
    }
    if ((block & HIGH_BITS) !== 0) return false;
    end += 4 * count;
  }
  for (let at = end; at < length; at++) all |= bytes[at];
  return (all & 0x80) === 0;
}

const codec = typeof TextDecoder === "function" ? webCodec() : base64Codec();

/** The UTF-8 of a text. A surrogate that stands alone becomes U+FFFD. */
export function encodeText(text) {
  return codec.encode(text);
}

/** The text of UTF-8 bytes. Throws a FieldError that names the first byte that is wrong. */
export function decodeText(bytes, what = "text") {
  try {
    return codec.decode(bytes);
  } catch (error) {
    throw new FieldError(`${what} is not UTF-8 text: byte ${wrongByte(bytes, error)} of ${bytes.length} is wrong`);
  }
}

/** The text of UTF-8 bytes, or null if they are none. */
export function textOrNull(bytes) {
  try {
    return codec.decode(bytes);
  } catch (error) {
    wrongByte(bytes, error);
    return null;
  }
}

/** The byte that bytes could not be decoded for. Where none is wrong, the bytes are not at fault: the error goes on. */
function wrongByte(bytes, error) {
  const wrong = firstWrong(bytes);
  if (wrong === bytes.length) throw error;
  return wrong;
}

/** Where UTF-8 ends that begins right: the index of the first byte of the character that is none. */
export function firstWrong(bytes) {
  let at = 0;
  while (at < bytes.length) {
    const length = characterLength(bytes, at);
    if (length === 0) break;
    at += length;
  }
  return at;
}

/** Bytes of the well-formed character here (Unicode, table 3-7), 0 if there is none. */
function characterLength(bytes, at) {
  const first = bytes[at];
  if (first < 0x80) return 1;
  const length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  const least = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const most = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  for (let next = 1; next < length; next++) {
    // Past the end there is nothing that is in a range.
    const byte = bytes[at + next];
    const isRight = next === 1 ? byte >= least && byte <= most : byte >= 0x80 && byte <= 0xbf;
    if (!isRight) return 0;
  }
  return length;
}

/** As much of a text as fits into this many bytes of UTF-8, cut between two characters. */
export function cutText(text, most) {
  // No character of UTF-16 takes more than three bytes a unit.
  if (text.length * 3 <= most) return text;
  const bytes = encodeText(text);
  if (bytes.length <= most) return text;
  let end = most;
  while ((bytes[end] & 0xc0) === 0x80) end--;
  return codec.decode(bytes.subarray(0, end));
}
