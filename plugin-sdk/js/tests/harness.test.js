import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { add, badConfiguration, counter, deadLetter, log, object, operator, pass, replace, retry, route, set, split, string } from "../src/index.js";
import { Harness, compareCases } from "../src/testing.js";

const seen = counter("seen_total", "Seen");
const subject = operator({
  name: "subject",
  version: "1.0.0",
  reads: ["value"],
  outputs: ["left"],
  metrics: [seen],
  config: object({ word: string().default("w") }),
  start({ word }) {
    if (word === "bad") throw badConfiguration("refused", "the word is bad");
  },
  process(record, { word }) {
    seen.add();
    log.info(`saw ${record.text}`);
    switch (record.text) {
      case "replace":
        return replace({ key: word, headers: [set("a", "1"), add("b", null)], eventTime: 5 });
      case "split":
        return split([{ value: "x" }, { to: "left" }]);
      case "main":
        return route(null, { value: "x" });
      case "nothing":
        return split([]);
      case "dead":
        return deadLetter("a reason");
      case "retry":
        return retry(10, "later");
      default:
        return pass;
    }
  },
});

/** The differences of one case. */
function differences(one, config) {
  const directory = mkdtempSync(join(tmpdir(), "cases-"));
  try {
    const path = join(directory, "cases.json");
    writeFileSync(path, JSON.stringify({ config, cases: [{ name: "one", ...one }] }));
    return compareCases(subject, path);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const outcome = (value, expected) => differences({ records: [{ value }], outcomes: [expected] });

test("cases that are as expected have no difference", () => {
  assert.deepEqual(outcome("x", "pass"), []);
  assert.deepEqual(outcome("replace", { replace: { key: "w", headers: [["set", "a", "1"], ["add", "b", null]], "event-time": 5 } }), []);
  assert.deepEqual(outcome("split", { split: [{ value: "x" }, { to: "left" }] }), []);
  assert.deepEqual(outcome("dead", { "dead-letter": { contains: ["reason"] } }), []);
  assert.deepEqual(outcome("retry", { retry: { "after-ms": 10, reason: "later" } }), []);
  assert.deepEqual(differences({ records: [{ value: "x" }], outcomes: ["pass"], log: [["info", "saw x"]], metrics: [{ name: "seen_total", value: 1 }] }), []);
  assert.deepEqual(differences({ refused: { class: "bad-configuration", code: "refused" } }, { word: "bad" }), []);
  assert.deepEqual(differences({ sandbox: true, records: [{}], outcomes: ["drop"] }), []);
});

test("what means the same is the same, as in the sandbox", () => {
  assert.deepEqual(outcome("main", { replace: { value: "x" } }), []);
  assert.deepEqual(outcome("nothing", "drop"), []);
  assert.deepEqual(outcome("nothing", { split: [] }), []);
  assert.deepEqual(outcome("x", { replace: {} }), []);
  assert.deepEqual(differences({ metrics: [{ value: 1.0000000001, name: "seen_total" }], records: [{ value: "x" }], outcomes: ["pass"] }), []);
  assert.equal(differences({ metrics: [{ value: 1.00001, name: "seen_total" }], records: [{ value: "x" }], outcomes: ["pass"] }).length, 1);
  assert.equal(differences({ records: [{ value: "x" }] }).length, 1);
});

test("a difference names case, record, field and both values", () => {
  const only = (came, expected) => assert.deepEqual(came, [`case "one": ${expected}`]);
  only(outcome("x", "drop"), "record 1: pass came, drop expected");
  only(outcome("dead", "pass"), "record 1: dead-letter (a reason) came, pass expected");
  only(outcome("dead", { "dead-letter": "another" }), 'record 1: reason: "a reason" came, "another" expected');
  only(outcome("split", { split: [{ value: "y" }, { to: "left" }] }), 'record 1, piece 1: value: "x" came, "y" expected');
  only(outcome("split", { split: [{ value: "x" }, {}] }), 'record 1, piece 2: to: "left" came, null expected');
  only(outcome("split", { split: [] }), "record 1: split came, drop expected");
  const patch = { key: "w", headers: [["set", "a", "1"], ["add", "b", null]], "event-time": 5 };
  only(outcome("replace", { replace: { ...patch, key: null } }), 'record 1: key: "w" came, null expected');
  only(outcome("replace", { replace: { ...patch, value: "" } }), 'record 1: value does not change, expected ""');
  only(outcome("replace", { replace: { ...patch, "event-time": null } }), "record 1: eventTime: 5 came, null expected");
  only(outcome("replace", { replace: { ...patch, headers: [] } }), "record 1: headers: 2 came, 0 expected");
  only(differences({ records: [{ value: "x" }], outcomes: ["pass"], log: [["warn", "saw x"]] }), 'log: line 1: level: "info" came, "warn" expected');
  only(differences({ records: [{ value: "x" }], outcomes: ["pass"], log: [] }), 'log: 1 lines came, 0 expected: [["info","saw x"]]');
  assert.equal(differences({ records: [{ value: "x" }], outcomes: ["pass"], metrics: [] }).length, 1);
  only(differences({ refused: {} }), "it starts, expected to be refused");
  only(differences({ records: [], outcomes: [] }, { word: "bad" }), "refused: bad-configuration, refused: the word is bad");
  only(differences({ records: [{ value: "x" }], failure: { class: "transient" } }), "the batch is answered, expected to fail");
});

test("clock, seed and identity are those that were asked for", () => {
  const drawing = operator({ name: "draw", version: "1.0.0", reads: [], process: (record) => replace({ value: `${record.exactNow} ${record.id.offset} ${record.random().bits()}` }) });
  const harness = new Harness(drawing);
  assert.equal(harness.runOne({}).record.text, "1700000000000000 0 4654127698191776692");
  harness.clock = 5n;
  harness.seed = Uint8Array.from({ length: 16 }, (_, index) => index);
  assert.equal(harness.runOne({ id: { offset: 0 } }).record.text, "5 0 9768842319945953961");
});
