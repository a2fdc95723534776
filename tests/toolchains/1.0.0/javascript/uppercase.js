// What the operator does with a value; see ../../README.md. Bytes stay bytes: QuickJS has neither TextEncoder nor
// TextDecoder, and no console.

import { write } from "tidegate:operator/log@1.0.0";

const bytes = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
const WORDS = { drop: bytes("drop"), dead: bytes("dead"), log: bytes("log"), print: bytes("print"), fail: bytes("fail") };

export const REASON = "the record asks for it";
export const REASON_BYTES = bytes(REASON);

/** What the operator is, in the words of the contract. */
export const description = {
  name: "uppercase-javascript",
  version: "1.0.0",
  configSchema: "{}",
  reads: { value: true },
  outputs: [],
  metrics: [],
  handlers: [],
  extensions: [],
};

function begins(value, word) {
  // Past the end of a value there is nothing that is equal.
  for (let at = 0; at < word.length; at++) if (value[at] !== word[at]) return false;
  return true;
}

function uppercase(value) {
  const upper = new Uint8Array(value);
  for (let at = 0; at < upper.length; at++) {
    const byte = upper[at];
    if (byte >= 97 && byte <= 122) upper[at] = byte - 32;
  }
  return upper;
}

/** "pass", "drop", "dead", or the new value. */
export function decide(value) {
  if (value === null || value === undefined) return "pass";
  if (begins(value, WORDS.drop)) return "drop";
  if (begins(value, WORDS.dead)) return "dead";
  if (begins(value, WORDS.fail)) throw { class: "permanent", code: "asked-for", message: REASON };
  if (begins(value, WORDS.log)) write("info", "a line of the operator");
  if (begins(value, WORDS.print)) globalThis.console?.error("a line of the operator");
  return uppercase(value);
}
