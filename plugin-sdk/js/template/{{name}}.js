// `{{name}}`: puts a mask over words that nobody else should read.

import { list, object, operator, pass, replace, string } from "./tidegate/index.js";

export default operator({
  name: "{{name}}",
  version: "0.1.0",
  reads: ["value"],

  // The JSON Schema, the defaults and the errors of the configuration are made of this.
  config: object({
    words: list(string({ minLength: 1 })).default([]).describe("Words to look for, as they are written."),
    mask: string().default("***").describe("What stands in their place."),
  }),

  /** One outcome for each record. */
  process(record, { words, mask }) {
    // A value that is no text throws, and the record goes to the dead letters with the reason.
    const text = record.text;
    const masked = words.reduce((text, word) => text.replaceAll(word, mask), text);
    return masked === text ? pass : replace({ value: masked });
  },
});
