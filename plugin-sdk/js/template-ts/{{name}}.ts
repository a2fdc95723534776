// `{{name}}`: puts a mask over words that nobody else should read.

import { type Infer, type Record, list, object, operator, pass, replace, string } from "./tidegate/index.js";

// The JSON Schema, the defaults and the errors of the configuration are made of this, and its type.
const config = object({
  words: list(string({ minLength: 1 })).default([]).describe("Words to look for, as they are written."),
  mask: string().default("***").describe("What stands in their place."),
});
type Config = Infer<typeof config>;

/** The text with every listed word masked. */
export function masked(text: string, { words, mask }: Config): string {
  return words.reduce((text, word) => text.replaceAll(word, mask), text);
}

export default operator({
  name: "{{name}}",
  version: "0.1.0",
  reads: ["value"],
  config,

  /** One outcome for each record. */
  process(record: Record, config: Config) {
    // A value that is no text throws, and the record goes to the dead letters with the reason.
    const text = record.text;
    const changed = masked(text, config);
    return changed === text ? pass : replace({ value: changed });
  },
});
