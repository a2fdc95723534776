import assert from "node:assert/strict";
import { test } from "node:test";
import { FieldError, counter, deadLetter, gauge, histogram, integer, log, object, operator, pass, permanent, remove, replace, retry, route, split, string, transient } from "../src/index.js";
import { packed } from "../src/component.js";
import { Harness, TestRecord } from "../src/testing.js";
import { encodeBatch } from "../src/testing/encode.js";
import { line } from "../src/world.js";

const base = { name: "try-out", version: "1.0.0", reads: ["value"] };
const started = (process, more = {}) => new Harness(operator({ ...base, ...more, process }));
const answers = (process, more) => started(process, more).run([{ value: "a" }, { value: "b" }, { value: "c" }]);
const kinds = (came) => came.map(({ kind }) => kind);

test("an exception is a dead letter of its record alone, with type, message and line", () => {
  const came = answers((record) => {
    if (record.text === "b") null.boom;
    return replace({ value: `${record.text}!` });
  });
  assert.deepEqual(kinds(came), ["replace", "dead-letter", "replace"]);
  assert.match(came[1].reason, /^TypeError: .*boom.* \(operator\.test\.js:\d+\)$/);
  assert.deepEqual([came[0].record.text, came[2].record.text], ["a!", "c!"]);
});

test("what cannot be written takes back what was written of it", () => {
  const came = answers((record) => (record.text === "b" ? split([{ value: "one" }, { value: 5 }]) : replace({ value: `${record.text}!` })));
  assert.deepEqual(kinds(came), ["replace", "dead-letter", "replace"]);
  assert.match(came[1].reason, /^TypeError: value is 5, expected text, a Uint8Array or null/);
  assert.equal(came[2].record.text, "c!");
});

test("a field that is not what was asked for says so without a line", () => {
  const harness = started((record) => (record.json().ok ? pass : pass));
  assert.deepEqual(harness.runOne({ value: Uint8Array.of(255) }).reason, "value is not JSON: value is not UTF-8 text: byte 0 of 1 is wrong");
  assert.equal(harness.runOne({}).reason, "value is null, expected JSON");
  assert.match(harness.runOne({ value: "{" }).reason, /^value is not JSON: /);
  assert.equal(harness.runOne({ value: "{}" }).kind, "pass");
  assert.equal(started((record) => (record.text, pass)).runOne({}).reason, "value is null, expected UTF-8 text");
  assert.ok(new FieldError("x") instanceof Error);
});

test("memory that is refused ends the instance, and is no answer", () => {
  const refused = (thrown, more = {}) => {
    const component = packed(operator({ ...base, ...more, process: () => { throw thrown; } }));
    const { definition } = operator({ ...base, process: () => pass });
    component.init("{}");
    return () => component.process(encodeBatch([new TestRecord({ value: "a" })], definition.reads, 0n, new Uint8Array(16)));
  };
  const outOfMemory = Object.assign(new Error("out of memory"), { name: "InternalError" });
  for (const thrown of [outOfMemory, "out of memory"]) {
    // What is no failure of the contract is a trap in a component.
    assert.throws(refused(thrown), (error) => error instanceof Error && error.class === undefined && error.message === "out of memory");
  }
  const starting = packed(operator({ ...base, start: () => { throw outOfMemory; }, process: () => pass }));
  assert.throws(() => starting.init("{}"), (error) => error instanceof Error && error.class === undefined);
  assert.match(answers(() => { throw null; })[0].reason, /^thrown: null/);
});

test("what is thrown may be anything", () => {
  const hostile = Object.defineProperty(new Error("x"), "message", { get: () => { throw new Error("no"); } });
  assert.equal(answers(() => { throw hostile; })[0].reason, "thrown: an error that cannot be shown");
  assert.equal(answers(() => { throw { toJSON: () => { throw new Error("no"); } }; })[0].reason, "thrown: object");
  assert.equal(answers(() => { throw { big: 5n }; })[0].reason, 'thrown: {"big":"5"}');
});

test("a line of the log is well-formed, and a console writes whatever it is given", () => {
  const harness = started(() => (log.info("a\ud800b"), pass));
  harness.runOne({});
  assert.deepEqual(harness.logLines, [["info", "a\ufffdb"]]);
  const round = {};
  round.round = round;
  const said = line([5n, { a: 5n }, new TypeError("boom"), round, Object.create(null), Symbol("s"), undefined, null]);
  assert.match(said, /^5 \{"a":"5"\} TypeError: boom \(operator\.test\.js:\d+\) object \{\} Symbol\(s\) undefined null$/);
});

test("what is no outcome says what it is", () => {
  const reason = (outcome) => answers(() => outcome)[0].reason;
  assert.match(reason(undefined), /^TypeError: process answered with undefined, expected an outcome/);
  assert.match(reason(Promise.resolve(pass)), /a Promise \(process must not be async\)/);
  assert.match(reason({ value: "x" }), /an object \(Object\)/);
  assert.match(reason(replace({ vaule: "x" })), /changes have the member "vaule", expected key, value, headers, attributes, eventTime/);
  assert.match(reason(replace({ headers: ["a"] })), /headers have "a", expected set\(\.\.\.\), add\(\.\.\.\) or remove\(\.\.\.\)/);
  assert.match(reason(replace({ headers: { a: 1 } })), /headers: the value of "a" is 1/);
  assert.match(reason(replace({ eventTime: "now" })), /eventTime is "now", expected microseconds/);
  assert.match(reason(replace({ eventTime: new Date(NaN) })), /eventTime is an object \(Date\)/);
  assert.match(reason(replace({ headers: { ["n".repeat(65536)]: "" } })), /headers have a name of 65536 bytes, limit 65535/);
  assert.match(reason(replace({ headers: Array(65536).fill(remove("a")) })), /headers have 65536 changes, limit 65535/);
});

test("a retry comes within what the contract can say", () => {
  const after = (given) => answers(() => retry(given, "busy"))[0].afterMs;
  assert.deepEqual([0, 0.4, 1500, 2 ** 32 - 1, 2 ** 32, Infinity].map(after), [0, 1, 1500, 2 ** 32 - 1, 2 ** 32 - 1, 2 ** 32 - 1]);
  for (const wrong of [-1, NaN, "5", undefined]) assert.equal(answers(() => retry(wrong, "busy"))[0].kind, "dead-letter", String(wrong));
});

test("true passes and false drops", () => {
  assert.deepEqual(kinds(answers((record) => record.text !== "b")), ["pass", "drop", "pass"]);
});

test("an output that is not declared is a dead letter that names it and those there are", () => {
  const [came] = answers(() => route("nowhere"), { outputs: ["left", "right"] });
  assert.match(came.reason, /^RangeError: operator try-out has no output "nowhere", it declares left, right/);
});

test("outputs can be those of the configuration", () => {
  const config = object({ many: integer() });
  const outputs = ({ many }) => Array.from({ length: many }, (_, index) => `out-${index}`);
  const harness = new Harness(operator({ ...base, config, outputs, process: () => route("out-1") }), { many: 2 });
  assert.deepEqual(harness.outputs, ["out-0", "out-1"]);
  assert.equal(harness.runOne({ value: "" }).to, "out-1");
});

test("a failure fails the whole batch", () => {
  const harness = started((record) => {
    if (record.text === "b") throw transient("not-now", "busy");
    return pass;
  });
  assert.throws(() => harness.run([{ value: "a" }, { value: "b" }]), { class: "transient", code: "not-now", message: "busy" });
  assert.equal(harness.runOne({ value: "a" }).kind, "pass");
});

test("what start throws keeps the operator from starting, with the line", () => {
  const starting = (start) => () => new Harness(operator({ ...base, start, process: () => pass }));
  assert.throws(starting(() => { throw permanent("broken", "why"); }), { class: "permanent", code: "broken" });
  assert.throws(starting(() => { throw new Error("boom"); }), { class: "permanent", code: "exception", message: /^Error: boom \(operator\.test\.js:\d+\)$/ });
});

test("what start returns is there for each record", () => {
  const harness = new Harness(operator({ ...base, start: () => ({ seen: 0 }), process: (_record, _config, state) => replace({ value: String(++state.seen) }) }));
  assert.deepEqual(harness.run([{}, {}]).map(({ record }) => record.text), ["1", "2"]);
});

test("measurements of a record that raised, and of one that comes again, do not count", () => {
  const seen = counter("seen_total", "Seen", { labels: ["kind"] });
  const last = gauge("last", "Last");
  const harness = started((record) => {
    seen.add(2, { kind: record.text });
    last.set(NaN);
    if (record.text === "b") throw new Error("boom");
    seen.add(1, { kind: record.text });
    return pass;
  }, { metrics: [seen, last] });
  harness.run([{ value: "a" }, { value: "b" }, { value: "c" }]);
  assert.deepEqual(harness.metrics, [
    { name: "seen_total", labels: { kind: "a" }, value: 3 },
    { name: "seen_total", labels: { kind: "c" }, value: 3 },
  ]);
  assert.equal(harness.measured("last"), undefined);
});

test("a measurement that the host would refuse is an error of its record", () => {
  const seen = counter("many_total", "Many", { labels: ["kind"] });
  const other = counter("other_total", "Other");
  const reason = (measure) => answers(() => (measure(), pass), { metrics: [seen] })[0].reason;
  assert.match(reason(() => { for (let index = 0; index < 257; index++) seen.add(1, { kind: "a" }); }), /more than 256 measurements/);
  assert.match(reason(() => seen.add(-1, { kind: "a" })), /counter many_total: amount is -1/);
  assert.match(reason(() => seen.add(1)), /metric many_total: label kind is undefined/);
  assert.match(reason(() => other.add()), /other_total is not among the metrics/);
  assert.throws(() => seen.add(1, { kind: "a" }), /outside of process/);
  const harness = started(() => (seen.add(1, { kind: "é".repeat(200) }), pass), { metrics: [seen] });
  harness.runOne({});
  assert.equal(harness.measured("many_total", { kind: "é".repeat(128) }), 1);
});

test("a declaration that is wrong throws", () => {
  const refused = (more, why) => assert.throws(() => operator({ ...base, process: () => pass, ...more }), why);
  refused({ name: "" }, /name is missing/);
  refused({ version: "1" }, /version is "1"/);
  refused({ reads: undefined }, /reads is missing/);
  refused({ reads: ["values"] }, /reads has "values"/);
  refused({ outputs: [""] }, /outputs\[0\] is ""/);
  refused({ config: {} }, /config is not a type/);
  refused({ process: undefined }, /process is missing/);
  refused({ metrics: [{ name: "x" }] }, /metrics\[0\] is not one/);
  refused({ metrics: [counter("Seen", "")] }, /metrics\[0\] has the name "Seen"/);
  refused({ metrics: [counter("a_total", ""), counter("a_total", "")] }, /a_total twice/);
  refused({ Process: () => pass }, /Process is unknown/);
});

test("a declaration that the host would refuse throws, with what it would say", () => {
  const refused = (more, why) => assert.throws(() => operator({ ...base, process: () => pass, ...more }), why);
  const metric = (options, help = "", make = histogram, name = "m") => ({ metrics: [make(name, help, options)] });
  for (const version of ["01.2.3", "1.2", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+", "v1.2.3", "18446744073709551616.0.0", `1.2.3-${"a".repeat(130)}`, 1]) {
    refused({ version }, /version is /);
  }
  for (const version of ["0.1.0", "1.2.3-rc.1", "1.2.3-0.a01+build.01"]) operator({ ...base, version, process: () => pass });
  refused({ name: "n".repeat(300) }, /name is ".*", of 300 bytes, limit 128/);
  for (const wrong of ["two\nlines", "a\u2028b", "a\u200bb", "a\u200db", "a\u202eb", "\ud800", "bell\u0007"]) {
    refused({ name: wrong }, /name is .*, which has characters that cannot be shown/s);
    refused({ outputs: ["left", wrong] }, /outputs\[1\] is .*, which has characters that cannot be shown/s);
  }
  refused({ outputs: ["é".repeat(65)] }, /outputs\[0\] is ".*", of 130 bytes, limit 128/);
  refused({ outputs: Array.from({ length: 257 }, (_, index) => `o${index}`) }, /outputs has 257 names, limit 256/);
  refused({ metrics: Array.from({ length: 65 }, (_, index) => gauge(`g${index}`, "")) }, /metrics has 65, limit 64/);
  refused({ metrics: [counter("seen", ""), counter("seen_total", "")] }, /metrics\[1\] seen_total is shown as seen_total, as seen is/);
  refused({ metrics: [histogram("time", ""), gauge("time_sum", "")] }, /metrics\[1\] time_sum is shown as time_sum, as time is/);
  refused(metric({}, "", counter, "series_refused"), /as a metric of the host is/);
  refused(metric({ bounds: [3, 1, NaN] }), /metrics\[0\] m has the bounds 3, 1, NaN, expected finite numbers that ascend/);
  for (const bounds of [[1, 1], [Infinity], ["1"]]) refused(metric({ bounds }), /expected finite numbers that ascend/);
  refused(metric({ bounds: Array.from({ length: 33 }, (_, index) => index) }), /has 33 bounds, limit 32/);
  refused(metric({ bounds: [1] }, "", gauge), /has bounds and is no histogram/);
  refused(metric({ labels: ["kind", "kind"] }), /has the label "kind" twice/);
  refused(metric({ labels: ["le", "le"] }), /has the label "le", which the host has/);
  refused(metric({ labels: ["Kind"] }), /has the label "Kind", expected \[a-z\]/);
  refused(metric({ labels: Array.from({ length: 9 }, (_, index) => `l${index}`) }), /has 9 labels, limit 8/);
  refused(metric({}, "two\nlines"), /has a help that is not one line/);
  refused(metric({}, "h".repeat(513)), /has a help that is not one line/);
  refused(metric({}, 5), /has the help 5, expected text/);
  const config = object({ name: string() });
  const made = operator({ ...base, config, outputs: ({ name }) => [name], process: () => pass });
  assert.throws(() => new Harness(made, { name: "two\nlines" }), /the list of outputs \[0\] is .*cannot be shown/s);
});

test("a record that the host would refuse is refused in tests", () => {
  const harness = new Harness(operator({ ...base, reads: ["headers"], process: () => replace({ headers: { one: "more" } }) }));
  const many = (length) => ({ headers: Array.from({ length }, (_, index) => [`h${index}`, ""]) });
  assert.equal(harness.runOne(many(65_534)).record.headers.length, 65_535);
  assert.throws(() => harness.runOne(many(65_535)), /the host refuses the answer: a record with 65536 headers, limit 65535/);
});

test("the component says what the operator is, and fails in the words of the contract", () => {
  const lines = [];
  const component = packed(
    operator({ ...base, outputs: ["left"], metrics: [counter("a_total", "A", { labels: ["k"] })], config: object({ n: integer() }), process: () => (log.info("line"), pass) }),
    [],
    (level, line) => lines.push([level, line]),
  );
  const described = component.describe("{}");
  assert.deepEqual(described.reads, { key: false, value: true, headers: false, attributes: false });
  assert.deepEqual(described.metrics, [{ name: "a_total", kind: "counter", help: "A", labels: ["k"], bounds: [] }]);
  assert.deepEqual(described.outputs, ["left"]);
  assert.equal(JSON.parse(described.configSchema).properties.n.type, "integer");
  assert.throws(() => component.process(new Uint8Array(64)), { class: "permanent", code: "not-started" });
  assert.throws(() => component.init('{"n": "x"}'), (failure) => !(failure instanceof Error) && failure.class === "bad-configuration");
  assert.equal(component.init('{"n": 1}'), undefined);
  assert.throws(() => packed({}), /has no operator as its default export/);
});

test("a reason that is not well-formed text is made so, and cut", () => {
  const [came] = answers(() => deadLetter(`\ud800${"x".repeat(10_000)}`));
  assert.equal(came.reason.length, 4096);
  assert.equal(came.reason[0], "\ufffd");
});

test("a record that is kept is none when its batch is over", () => {
  let kept;
  started((record) => ((kept = record), pass)).runOne({ value: "a" });
  assert.throws(() => kept.value);
});

test("names and short texts that are kept from before stay those of their own records", () => {
  const harness = new Harness(
    operator({ ...base, reads: ["headers"], process: (record) => replace({ headers: { [`n-${record.headerText("name")}`]: record.headerText("text") } }) }),
  );
  const given = Array.from({ length: 3000 }, (_, index) => ({ headers: [["name", `${index}`.padEnd(index % 300, "x")], ["text", ["", "é", "debug", "index"][index % 4] + (index % 7)]] }));
  harness.run(given).forEach(({ patch }, index) => {
    const [[, name], [, text]] = given[index].headers;
    assert.deepEqual(patch.headers, [["set", `n-${name}`, Uint8Array.from(Buffer.from(text))]]);
  });
});
