// JSON text, read within bounds: engines read what is nested by recursion, and a component has little of a stack.

import { FieldError, decodeText } from "./text.js";

/** The deepest that lists and tables may lie in each other. */
export const DEEPEST = 128;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LIST = 0x5b;
const LIST_END = 0x5d;
const TABLE = 0x7b;
const TABLE_END = 0x7d;

/** What JSON text as UTF-8 says. Throws a FieldError; `what` names the bytes in it. */
export function readJson(bytes, what) {
  if (isDeep(bytes)) throw new FieldError(`${what} is not JSON: nested more than ${DEEPEST} deep`);
  try {
    return JSON.parse(decodeText(bytes, what));
  } catch (error) {
    // Of memory that was refused the text is not at fault.
    if (error instanceof SyntaxError || error instanceof FieldError) throw new FieldError(`${what} is not JSON: ${error.message}`);
    throw error;
  }
}

/** Whether lists and tables of JSON text lie deeper in each other than may be. */
function isDeep(bytes) {
  // To count what begins one is native code, and of most texts that is all.
  if (count(bytes, LIST) + count(bytes, TABLE) <= DEEPEST) return false;
  const { length } = bytes;
  let depth = 0;
  for (let at = 0; at < length; at++) {
    switch (bytes[at]) {
      case QUOTE:
        at = endOfText(bytes, at);
        break;
      case LIST:
      case TABLE:
        if (++depth > DEEPEST) return true;
        break;
      case LIST_END:
      case TABLE_END:
        depth--;
        break;
    }
  }
  return false;
}

/** How often a byte is there; no further than what is too deep. */
function count(bytes, byte) {
  let found = 0;
  for (let at = bytes.indexOf(byte); at >= 0 && found <= DEEPEST; at = bytes.indexOf(byte, at + 1)) found++;
  return found;
}

/** Where the text ends that begins with the quotation mark here: its last one, or the end of all. */
function endOfText(bytes, begin) {
  for (let end = begin; ; ) {
    end = bytes.indexOf(QUOTE, end + 1);
    if (end < 0) return bytes.length;
    let before = end - 1;
    while (bytes[before] === BACKSLASH) before--;
    // An even number of them: pairs, and the mark stands by itself.
    if ((end - before) % 2 === 1) return end;
  }
}
