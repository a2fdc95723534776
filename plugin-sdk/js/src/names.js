// Names of headers and attributes as bytes: an operator uses few, and they are made once.

import { encodeText } from "./text.js";

const MANY = 1000;
const known = new Map();
let last = null;
let lastBytes = null;

/** The UTF-8 of a name; not to be changed. */
export function nameBytes(name) {
  if (name === last) return lastBytes;
  if (typeof name !== "string") throw new TypeError(`a name is ${typeof name}, expected text`);
  let bytes = known.get(name);
  if (bytes === undefined) {
    if (known.size >= MANY) known.clear();
    bytes = encodeText(name);
    known.set(name, bytes);
  }
  last = name;
  lastBytes = bytes;
  return bytes;
}
