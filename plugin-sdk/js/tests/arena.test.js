import assert from "node:assert/strict";
import { test } from "node:test";
import { operator, pass, set, add, remove, replace, split, route, retry, deadLetter, drop, counter, gauge, histogram } from "../src/index.js";
import { Runner } from "../src/runner.js";
import { TestRecord } from "../src/testing.js";
import { decodeAnswer } from "../src/testing/decode.js";
import { encodeBatch } from "../src/testing/encode.js";
import { golden } from "./golden.js";

const FIELDS = ["key", "value", "headers", "attributes"];
const CLOCK = 1_728_000_000_000_000n;
const SEED = Uint8Array.from({ length: 16 }, (_, index) => index);

const bytes = (given) => (given === null ? null : Buffer.from(given).toString("hex"));
const pairs = (given) => [...given].map(([name, value]) => [name, bytes(value)]);

/** An operator that notes every record it sees. */
function noting(seen) {
  return operator({
    name: "note",
    version: "1.0.0",
    reads: FIELDS,
    process(record) {
      const { key, value, headers, attributes, id, eventTime, exactEventTime, now, exactNow } = record;
      seen.push({ key: bytes(key), value: bytes(value), headers: pairs(headers), attributes: pairs(attributes), id, eventTime, exactEventTime, now, exactNow });
      return pass;
    },
  });
}

function seenIn(batch) {
  const seen = [];
  new Runner(noting(seen), "{}").process(batch);
  return seen;
}

const clock = new DataView(golden("batch-all").buffer).getBigInt64(40, true);

const RECORDS = [
  {
    key: "6b",
    value: "76c3a4726465",
    headers: [["h", "31"], ["h", null], ["", ""]],
    attributes: [["pii", "00ff"]],
    id: { origin: "source", source: 1, partition: 2, offset: 42n, emit: 0n },
  },
  { key: "", value: null, headers: [], attributes: [], id: { origin: "source", source: 1, partition: 2, offset: 43n, emit: 0n } },
  { key: null, value: "", headers: [], attributes: [], id: { origin: "timer", source: 0, partition: 7, offset: 44n, emit: 0x1001n } },
];

test("every field of the golden batch is read", () => {
  const seen = seenIn(golden("batch-all"));
  assert.equal(seen.length, 3);
  seen.forEach((record, index) => {
    for (const [field, value] of Object.entries(RECORDS[index])) assert.deepEqual(record[field], value, `record ${index}: ${field}`);
    assert.equal(record.exactNow, clock);
    assert.equal(record.now, Number(clock));
  });
  assert.deepEqual(seen.map((record) => record.exactEventTime === null), [false, true, false]);
  assert.equal(seen[0].eventTime, Number(seen[0].exactEventTime));
  assert.deepEqual([seen[2].eventTime, seen[2].exactEventTime], [-1, -1n]);
});

test("a batch of a later version has the same records", () => {
  assert.deepEqual(seenIn(golden("batch-grown")), seenIn(golden("batch-all")));
});

test("a batch may begin at any address", () => {
  const batch = golden("batch-all");
  for (let before = 0; before < 4; before++) {
    const memory = new Uint8Array(before + batch.length);
    memory.set(batch, before);
    assert.deepEqual(seenIn(memory.subarray(before)), seenIn(batch));
  }
});

test("of fields that are not read nothing is there", () => {
  const seen = seenIn(golden("batch-key"));
  assert.deepEqual(seen.map(({ key }) => key), ["6b", "", null]);
  for (const { value, headers, attributes } of seen) assert.deepEqual([value, headers, attributes], [null, [], []]);
});

test("a batch without a record is answered", () => {
  assert.deepEqual(seenIn(golden("batch-none")), []);
  const answer = new Runner(noting([]), "{}").process(golden("batch-none"));
  assert.deepEqual(Buffer.from(answer), Buffer.from(golden("answer-none")));
});

test("what must be known and is not fails for good", () => {
  const changed = (at, word) => {
    const batch = golden("batch-grown");
    new DataView(batch.buffer).setUint32(at, word, true);
    return batch;
  };
  const section = new DataView(golden("batch-grown").buffer).getUint32(32, true);
  for (const batch of [changed(12, 0x10000), changed(12, 0x80000000), changed(section, 0x80000000)]) {
    assert.throws(() => seenIn(batch), { class: "permanent", code: "unknown-arena" });
  }
  const broken = [[4, 0], [8, 0], [8, 68], [16, 1000], [16, 0xffffffff], [20, 0], [20, 64], [20, 73], [20, 0xfffffff8], [24, 0], [24, 8], [24, 0xfffffff8], [28, 1000], [28, 0xffffffff], [32, 0xffffffff]];
  const wrong = [golden("batch-layout-1"), ...broken.map(([at, word]) => changed(at, word))];
  for (let length = 0; length < golden("batch-all").length; length++) wrong.push(golden("batch-all").slice(0, length));
  for (const batch of wrong) assert.throws(() => seenIn(batch), { class: "permanent", code: "bad-batch" });
});

test("the harness writes batches as the host does", () => {
  const times = seenIn(golden("batch-all")).map((record) => record.exactEventTime);
  const given = RECORDS.map(({ key, value, headers, attributes, id }, index) => {
    const from = (hex) => (hex === null ? null : Uint8Array.from(Buffer.from(hex, "hex")));
    const owned = (pairs) => pairs.map(([name, value]) => [name, from(value)]);
    return new TestRecord({ key: from(key), value: from(value), headers: owned(headers), attributes: owned(attributes), id, eventTime: times[index] });
  });
  assert.deepEqual(Buffer.from(encodeBatch(given, FIELDS, clock, SEED)), Buffer.from(golden("batch-all")));
  assert.deepEqual(seenIn(encodeBatch(given, ["key"], clock, SEED)), seenIn(golden("batch-key")));
  assert.deepEqual(Buffer.from(encodeBatch([], FIELDS, CLOCK, SEED)).subarray(0, 40), Buffer.from(golden("batch-none")).subarray(0, 40));
});

const EVERYTHING = {
  key: Uint8Array.of(0, 255),
  value: null,
  headers: [set("h", "new"), add("h", null), remove("gone")],
  attributes: { ä: "" },
  eventTime: -7,
};

const EVERY = [
  pass,
  drop,
  replace({}),
  replace({ key: null, value: "", eventTime: null }),
  replace(EVERYTHING),
  split([]),
  split([{}, { to: "second", value: "two" }, { to: "first", ...EVERYTHING }]),
  route("first", { value: "routed" }),
  route(null),
  retry(250, "later"),
  retry(Infinity, ""),
  deadLetter("nicht für mich"),
];

/** The answer of an operator that has these outcomes. */
function answerOf(outcomes) {
  let index = 0;
  const answering = operator({ name: "answer", version: "1.0.0", reads: [], outputs: ["first", "second"], process: () => outcomes[index++] });
  const records = outcomes.map((_, index) => new TestRecord({}, index));
  return new Runner(answering, "{}").process(encodeBatch(records, [], CLOCK, SEED));
}

test("every outcome and every change is written as in the golden answer", () => {
  const outcomes = (bytes) => decodeAnswer(bytes, EVERY.length, ["first", "second"], []).outcomes;
  const came = outcomes(answerOf(EVERY));
  const expected = outcomes(golden("answer-every"));
  // What the SDK says of two outcomes is shorter, and means the same.
  assert.equal(came[2].kind, "pass");
  assert.deepEqual(expected[2].patch, { headers: [], attributes: [] });
  for (const index of EVERY.keys()) if (index !== 2) assert.deepEqual(came[index], expected[index], `outcome ${index}`);
});

test("measurements are written as in the golden answer", () => {
  const metrics = [
    counter("seen_total", "Seen"),
    gauge("last", "Last", { labels: ["label"] }),
    histogram("sizes", "Sizes", { labels: ["one", "two"] }),
  ];
  const expected = golden("answer-samples");
  const { samples } = decodeAnswer(expected, 2, [], metrics);
  assert.equal(samples.length, 3);
  let index = 0;
  const measuring = operator({
    name: "measure",
    version: "1.0.0",
    reads: [],
    metrics,
    process() {
      for (const { record, metric, value, labels } of samples) {
        if (record !== index) continue;
        if (metric.kind === "counter") metric.add(value);
        else if (metric.kind === "gauge") metric.set(value, labels);
        else metric.observe(value, labels);
      }
      index++;
      return true;
    },
  });
  const batch = encodeBatch([new TestRecord({}), new TestRecord({}, 1)], [], CLOCK, SEED);
  assert.deepEqual(Buffer.from(new Runner(measuring, "{}").process(batch)), Buffer.from(expected));
});

test("an answer that grows keeps what is in it", () => {
  const large = "x".repeat(100_000);
  const outcomes = [replace({ value: "a" }), replace({ value: large }), drop, split([{ value: large }, { value: "b" }])];
  for (let round = 0; round < 3; round++) {
    const read = decodeAnswer(answerOf(outcomes), 4, ["first", "second"], []).outcomes;
    assert.equal(Buffer.from(read[0].patch.value).toString(), "a");
    assert.equal(read[1].patch.value.length, large.length);
    assert.equal(read[2].kind, "drop");
    assert.equal(Buffer.from(read[3].pieces[1].patch.value).toString(), "b");
  }
});
