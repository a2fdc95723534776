import assert from "node:assert/strict";
import { test } from "node:test";
import { Harness, runCases } from "./tidegate/testing.js";
import operator from "./map-fields.js";
import { prepare } from "./jmespath/jmespath.js";
import { timeOf, without } from "./shape.js";

runCases(operator, new URL("cases/map-fields.json", import.meta.url));

test("outputs are those of the routes", () => {
  const routes = [{ to: "a", when: "x" }, { to: "b", when: "y" }, { to: "a", when: "z" }];
  assert.deepEqual(new Harness(operator, { routes }).outputs, ["a", "b"]);
});

test("times are exact to the microsecond", () => {
  for (let micros = 0; micros < 1_000_000; micros++) {
    const time = `1970-01-01T00:00:00.${String(micros).padStart(6, "0")}Z`;
    if (timeOf(time, RangeError) !== micros) assert.equal(timeOf(time, RangeError), micros, time);
  }
  assert.equal(timeOf("1970-01-01T00:00:00.000001Z", RangeError), 1);
  assert.equal(timeOf("1969-12-31T23:59:59.5Z", RangeError), -500_000);
  assert.equal(timeOf("2026-11-22t10:00:00.999999999-00:30", RangeError), 1_795_343_400_999_999);
  assert.equal(timeOf("0001-01-01T00:00:00Z", RangeError), -62_135_596_800_000_000n);
  assert.equal(timeOf("9999-12-31T23:59:59.999999Z", RangeError), 253_402_300_799_999_999n);
  assert.equal(timeOf("2024-02-29 23:59:59.1234567+23:59", RangeError), Date.UTC(2024, 1, 29, 0, 0, 59, 123) * 1000 + 456);
  for (const wrong of ["2026-11-22", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00-00:60", "2026-01-01T00:00:00.Z", "", "now", true, 1.5, [], {}]) {
    assert.throws(() => timeOf(wrong, RangeError), RangeError, String(wrong));
  }
});

test("members that are null are left out at every depth", () => {
  assert.deepEqual(without({ a: null, b: [{ c: null, d: 1 }, null], e: { f: null } }), { b: [{ d: 1 }, null], e: {} });
});

// From the examples of jmespath.org.
const EXAMPLES = [
  ["a.b.c[0].d[1][0]", { a: { b: { c: [{ d: [0, [1, 2]] }] } } }, 1],
  ["[1:3]", [0, 1, 2, 3], [1, 2]],
  ["[::-1]", [0, 1, 2], [2, 1, 0]],
  ["people[*].first", { people: [{ first: "J" }, { first: "K" }, { other: 1 }] }, ["J", "K"]],
  ["ops.*.n", { ops: { a: { n: 1 }, b: { n: 2 }, c: 3 } }, [1, 2]],
  ["reservations[].instances[].state", { reservations: [{ instances: [{ state: "a" }, { state: "b" }] }] }, ["a", "b"]],
  ["machines[?state=='running'].name | [0]", { machines: [{ name: "x", state: "off" }, { name: "y", state: "running" }] }, "y"],
  ["sort_by(@, &age)[-1].name", [{ name: "b", age: 2 }, { name: "a", age: 1 }], "b"],
  ["join(', ', keys(@))", { a: 1, b: 2 }, "a, b"],
  ["to_number('12') || `0`", {}, 12],
  ["!missing && 'none'", {}, "none"],
  ["max_by(@, &n).n", [{ n: 1 }, { n: 3 }], 3],
  ["merge(a, `{\"x\": 1}`)", { a: { y: 2 } }, { y: 2, x: 1 }],
  ["\"quoted name\"", { "quoted name": "é" }, "é"],
];

test("expressions give what jmespath.org says", () => {
  for (const [expression, data, result] of EXAMPLES) assert.deepEqual(prepare(expression)(data), result, expression);
});
