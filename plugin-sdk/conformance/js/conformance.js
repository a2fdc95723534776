// The operator of the conformance suite: what it does stands in ../README.md.

import {
  FieldError,
  add,
  badConfiguration,
  boolean,
  choice,
  counter,
  deadLetter,
  decodeText,
  drop,
  end,
  gauge,
  histogram,
  integer,
  list,
  log,
  number,
  object,
  operator,
  pass,
  permanent,
  remove,
  replace,
  retry,
  route,
  set,
  split,
  string,
  transient,
} from "./tidegate/index.js";

const seen = counter("seen_total", "Records that were counted");
const words = counter("words_total", "Words by kind", { labels: ["kind"] });
const lastBytes = gauge("last_bytes", "Bytes of the last value");
const valueBytes = histogram("value_bytes", "Bytes of values", { bounds: [1, 10, 100, 1000] });

const COMMA = 44;
const PAIRS = [set("a", "1"), add("b", "2"), add("b", "3"), remove("c"), set("d", null), add("e", null)];
const WHY = "the record asks for it";

/** Text of a value, "" for null. */
const textOf = (record) => (record.value === null ? "" : record.text);

function hex(bytes) {
  if (bytes === null) return null;
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

const pairs = (given) => [...given].map(([name, value]) => [name, hex(value)]);

function show(record) {
  const { origin, source, partition, offset, emit } = record.id;
  const json = JSON.stringify;
  const id = json([origin, source, partition, String(offset), String(emit)]);
  const fields = [hex(record.key), hex(record.value), pairs(record.headers), pairs(record.attributes)].map((field) => json(field));
  // Times have 64 bits: more than a number of JSON.stringify.
  return `{"id":${id},"time":${record.exactEventTime},"clock":${record.exactNow},"key":${fields[0]},"value":${fields[1]},"headers":${fields[2]},"attributes":${fields[3]}}`;
}

function parts(value) {
  const pieces = [];
  for (let start = 0; start <= value.length; ) {
    const comma = value.indexOf(COMMA, start);
    const end = comma < 0 ? value.length : comma;
    pieces.push({ value: value.subarray(start, end), headers: { part: String(pieces.length) } });
    start = end + 1;
  }
  return pieces;
}

function upper(record) {
  let text;
  try {
    text = record.text;
  } catch (error) {
    if (error instanceof FieldError) return deadLetter("value is not UTF-8 text");
    throw error;
  }
  return replace({ value: text.replace(/[a-z]+/g, (letters) => letters.toUpperCase()) });
}

function measure(record) {
  const length = record.value?.length ?? 0;
  seen.add();
  words.add(2, { kind: "short" });
  lastBytes.set(length);
  valueBytes.observe(length);
}

function boom() {
  throw new Error("boom");
}

function grow() {
  const taken = [];
  for (;;) taken.push(new Uint8Array(1 << 20).fill(1));
}

function deep(depth) {
  return deep(depth + 1) + 1;
}

const BEHAVIOURS = {
  pass: () => pass,
  drop: () => drop,
  echo: (record) => replace({ value: record.value }),
  upper,
  show: (record) => replace({ value: show(record) }),
  "set-key": () => replace({ key: "a new key" }),
  "null-key": () => replace({ key: null }),
  "null-value": () => replace({ value: null }),
  "empty-value": () => replace({ value: "" }),
  headers: () => replace({ headers: PAIRS }),
  attributes: () => replace({ attributes: PAIRS }),
  time: (record) => replace({ eventTime: record.exactNow }),
  "no-time": () => replace({ eventTime: null }),
  same: () => replace({}),
  all: () => replace({ key: "k", value: "v", headers: { h: "1" }, attributes: { t: "2" }, eventTime: 5 }),
  split: (record) => split(parts(record.value)),
  "split-outputs": () => split([{ to: "left", value: "l" }, { to: "right", value: "r" }, { value: "m" }]),
  "split-none": () => split([]),
  "split-many": () => split(Array(4095).fill({})),
  "split-too-many": () => split(Array(4096).fill({})),
  route: (record) => route(record.headerText("to")),
  "route-changed": () => route("left", { value: "changed", headers: [remove("do")] }),
  "last-output": () => route("out-16"),
  retry: (record) => retry(1500, textOf(record)),
  "dead-letter": (record) => deadLetter(textOf(record)),
  throw: boom,
  "fail-transient": () => {
    throw transient("asked-for", WHY);
  },
  "fail-permanent": () => {
    throw permanent("asked-for", WHY);
  },
  "fail-configuration": () => {
    throw badConfiguration("asked-for", WHY);
  },
  spin: () => {
    for (;;);
  },
  grow,
  deep: () => deep(0),
  // Nothing in JavaScript stops harder than an exception.
  trap: boom,
  log: () => {
    log.trace("a trace line");
    log.debug("a debug line");
    log.info("an info line");
    log.warn("a warn line");
    log.error("an error line");
    return pass;
  },
  metrics: (record) => {
    measure(record);
    return pass;
  },
  "metrics-drop": (record) => {
    measure(record);
    return drop;
  },
  "metrics-throw": () => {
    seen.add();
    return boom();
  },
  json: (record) => replace({ value: record.json().name }),
  random: (record) => {
    const random = record.random();
    return replace({ value: `${random.bits()},${random.bits()}` });
  },
  config: (_record, { mode, limit, words, ratio, label, nested }) => {
    const shown = { mode, limit, words, ratio, label: label ?? null, nested: nested ?? null };
    return replace({ value: JSON.stringify(shown) });
  },
  "headers-count": (record) => replace({ value: String(record.headerCount) }),
  clock: (record) => replace({ value: String(record.exactNow) }),
};

const WORD = "END";

/** Ends the answer at the word, and holds back what may become it. */
function until(how) {
  let held = "";
  return (text, last) => {
    held += text;
    const at = held.indexOf(WORD);
    if (at >= 0) return end(held.slice(0, at), how);
    let kept = last ? 0 : Math.min(held.length, WORD.length - 1);
    while (!WORD.startsWith(held.slice(held.length - kept))) kept--;
    const through = held.slice(0, held.length - kept);
    held = held.slice(held.length - kept);
    return through;
  };
}

/** Holds back all but so many last units of the text. */
function holding(most) {
  let held = "";
  return (text, last) => {
    held += text;
    const through = held.slice(0, last ? held.length : -most);
    held = held.slice(through.length);
    return through;
  };
}

function told(lane) {
  const kind = lane.call === null ? lane.kind : `${lane.kind} ${lane.call}`;
  const attributes = lane.attributes.map(([name, value]) => `${name}=${decodeText(value)}`);
  return [lane.identity, lane.model, lane.choice, kind, ...attributes, `last a=${lane.attributeText("a") ?? ""}`].join("|");
}

const HANDLERS = {
  upper: () => (text) => text.replace(/[a-z]+/g, (letters) => letters.toUpperCase()),
  hold: () => holding(Infinity),
  // A character may have two units: the SDK keeps its halves together.
  tail: () => holding(1),
  silent: () => () => "",
  stop: () => until("stop"),
  filter: () => until("filtered"),
  lane: (lane) => (_, last) => (last ? told(lane) : ""),
  log: () => {
    log.info("a lane opens");
    return (text, last) => {
      if (last) log.debug("its text ends");
      return text;
    };
  },
  refuse: () => {
    throw permanent("no-lane", "the lane asks for it");
  },
  "refuse-transient": () => {
    throw transient("no-lane", "the lane asks for it");
  },
  fail: () => (text) => {
    if (text === "bad") throw permanent("asked-for", "the text asks for it");
    return text;
  },
  throw: () => boom,
};

export default operator({
  name: "conformance",
  version: "1.0.0",
  reads: ["key", "value", "headers", "attributes"],
  outputs: ["left", "right", ...Array.from({ length: 14 }, (_, index) => `out-${index + 3}`)],
  metrics: [seen, words, lastBytes, valueBytes],

  config: object({
    mode: choice("normal", "refuse", "transient", "panic").default("normal").describe("What it does when it starts."),
    limit: integer({ minimum: 1, maximum: 1_000_000 }).default(1000).describe("A whole number."),
    words: list(string({ minLength: 1 })).default([]).describe("Texts that are not empty."),
    ratio: number({ minimum: 0, maximum: 1 }).default(0.5).describe("A number."),
    label: string().optional().describe("A text that may be absent."),
    nested: object({
      name: string().describe("A text that must be there."),
      on: boolean().default(true).describe("Whether it is on."),
    })
      .optional()
      .describe("A table that may be absent."),
  }),

  start({ mode }) {
    if (mode === "refuse") throw badConfiguration("refused", 'config key "mode" is "refuse"');
    if (mode === "transient") throw transient("not-now", "asked to come later");
    if (mode === "panic") throw new Error("asked to fail in init");
  },

  process(record, config) {
    const asked = record.headerText("do");
    if (asked === null) return pass;
    if (!Object.hasOwn(BEHAVIOURS, asked)) return deadLetter(`unknown behaviour "${asked}"`);
    return BEHAVIOURS[asked](record, config);
  },

  tokens: (lane) => (Object.hasOwn(HANDLERS, lane.model) ? HANDLERS[lane.model](lane) : (text) => text),
});
