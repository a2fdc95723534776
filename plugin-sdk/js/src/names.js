// Texts that come again and again, made once: names of headers and attributes, and their values where those are short.

import { encodeText, textOrNull } from "./text.js";

const MANY = 1000;
const LONGEST = 256;
const known = new Map();
let last = null;
let lastBytes = null;

/** The UTF-8 of a name; not to be changed. */
export function nameBytes(name) {
  if (name === last) return lastBytes;
  if (typeof name !== "string") throw new TypeError(`a name is ${typeof name}, expected text`);
  let bytes = known.get(name);
  if (bytes === undefined) {
    bytes = encodeText(name);
    // Names may be made of data: what is kept is bounded.
    if (bytes.length > LONGEST) return bytes;
    if (known.size >= MANY) known.clear();
    known.set(name, bytes);
  }
  last = name;
  lastBytes = bytes;
  return bytes;
}

/** The longest text that is kept, bytes. */
export const SHORT_TEXT = 16;
const SLOTS = 256;
const texts = Array(SLOTS).fill(null);

/** The text of short UTF-8, or null if it is none: the one from before if the same bytes were there before. */
export function shortText(bytes, at, length) {
  if (length === 0) return "";
  const slot = (31 * length + 7 * bytes[at] + bytes[at + length - 1]) % SLOTS;
  const kept = texts[slot];
  if (kept !== null && kept.bytes.length === length) {
    const before = kept.bytes;
    let index = 0;
    while (index < length && bytes[at + index] === before[index]) index++;
    if (index === length) return kept.text;
  }
  const copy = bytes.slice(at, at + length);
  const text = textOrNull(copy);
  if (text !== null) texts[slot] = { bytes: copy, text };
  return text;
}
