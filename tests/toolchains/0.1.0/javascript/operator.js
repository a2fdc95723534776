// Upper-cases values; see ../../README.md for what it does. The same file for SpiderMonkey and for QuickJS, which has
// neither TextEncoder nor TextDecoder, and no console.

import { write } from "tidegate:operator/log@0.1.0";
import { Answer, records, values } from "./arena.js";

const ascii = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
const REASON = ascii("the record asks for it");
const WORDS = { drop: ascii("drop"), dead: ascii("dead"), log: ascii("log"), print: ascii("print") };

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

export const operator = {
  describe: () => ({
    name: "uppercase-javascript",
    version: "1.0.0",
    configSchema: "{}",
    reads: ["value"],
    outputs: [],
  }),

  init(_config) {},

  process(batch) {
    const answer = new Answer(records(batch));
    let record = 0;
    for (const value of values(batch)) {
      if (value === null) {
        // It passes.
      } else if (begins(value, WORDS.drop)) {
        answer.drop(record);
      } else if (begins(value, WORDS.dead)) {
        answer.deadLetter(record, REASON);
      } else {
        if (begins(value, WORDS.log)) write("info", "a line of the operator");
        if (begins(value, WORDS.print)) globalThis.console?.error("a line of the operator");
        answer.replaceValue(record, uppercase(value));
      }
      record++;
    }
    return answer.finish();
  },
};
