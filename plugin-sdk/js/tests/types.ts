// What the types allow and refuse: `tsc --strict --noEmit --module esnext --moduleResolution bundler --target es2022 --lib es2024 tests/types.ts`.

import { type Infer, boolean, choice, counter, deadLetter, end, integer, list, map, object, operator, pass, remove, replace, route, set, split, string } from "../src/index.js";

const config = object({
  longest: integer({ minimum: 1 }).default(80),
  side: choice("left", "right"),
  words: list(string()),
  names: map(integer()).optional(),
  nested: object({ on: boolean().default(true) }).optional(),
});
type Config = Infer<typeof config>;

const typed: Config = { longest: 1, side: "left", words: [], names: undefined, nested: { on: true } };
// @ts-expect-error: it is none of the choices
typed.side = "up";

const words = counter("words_total", "Words", { labels: ["kind"] });
const plain = counter("plain_total", "Plain");
words.add(1, { kind: "short" });
plain.add();
// @ts-expect-error: the label is missing
words.add(1);
// @ts-expect-error: there is no such label
words.add(1, { sort: "short" });
// @ts-expect-error: it has no labels
plain.add(1, { kind: "short" });

export default operator({
  name: "typed",
  version: "0.1.0",
  reads: ["value", "headers"],
  outputs: ["left", "right"],
  config,
  metrics: [words, plain],
  start: ({ words }) => new Set(words),
  process(record, { longest, side, nested }, state) {
    if (state.has(record.text)) return route(side, { headers: { on: String(nested?.on ?? false) } });
    if (record.text.length > longest) return split([{ value: "a", headers: [set("n", null), remove("m")] }, { to: "left" }]);
    if (record.value === null) return deadLetter("null");
    for (const [name, value] of record.headers) if (name === "x" && value !== null) return replace({ value, key: null, eventTime: new Date() });
    return pass;
  },
});

operator({
  name: "wrong-output",
  version: "0.1.0",
  reads: [],
  outputs: ["left"],
  // @ts-expect-error: an output that is not declared
  process: () => route("nowhere"),
});

operator({
  name: "no-output",
  version: "0.1.0",
  reads: [],
  // @ts-expect-error: no outputs are declared
  process: () => route("left"),
});

operator({
  name: "wrong-field",
  version: "0.1.0",
  // @ts-expect-error: there is no such field
  reads: ["values"],
  process: () => true,
});

operator({
  name: "asynchronous",
  version: "0.1.0",
  reads: [],
  // @ts-expect-error: process must not be async
  process: async () => pass,
});

// @ts-expect-error: there is no such member
replace({ vaule: "x" });
// @ts-expect-error: a number is no bytes
replace({ value: 5 });

operator({
  name: "tokens",
  version: "0.1.0",
  reads: ["attributes"],
  config,
  start: ({ words }) => new Set(words),
  process: () => pass,
  tokens(lane, { longest }, state) {
    const kind: "content" | "reasoning" | "arguments" = lane.kind;
    let length = lane.attribute(kind)?.length ?? lane.choice + (lane.call ?? 0);
    return (text, last) => {
      length += text.length;
      return length > longest || state.has(text) ? end(text, last ? "stop" : "filtered") : text;
    };
  },
});

operator({
  name: "wrong-tokens",
  version: "0.1.0",
  reads: [],
  process: () => pass,
  // @ts-expect-error: a step answers with text or an end
  tokens: () => () => pass,
});
