import assert from "node:assert/strict";
import { test } from "node:test";
import { DEEPEST, readJson } from "../src/json.js";
import { encodeText } from "../src/text.js";

const read = (text) => readJson(encodeText(text), "value");
const nested = (depth, within = "1") => `${"[".repeat(depth)}${within}${"]".repeat(depth)}`;
const TOO_DEEP = { name: "FieldError", message: "value is not JSON: nested more than 128 deep" };

test("JSON is read up to a depth, and refused below it before an engine overflows", () => {
  assert.equal(JSON.stringify(read(nested(DEEPEST))), nested(DEEPEST));
  assert.throws(() => read(nested(DEEPEST + 1)), TOO_DEEP);
  assert.throws(() => read("[".repeat(1_000_000)), TOO_DEEP);
  assert.throws(() => read('{"a":'.repeat(DEEPEST + 1)), TOO_DEEP);
  assert.throws(() => read(`${nested(1).repeat(DEEPEST)}`), /^FieldError: value is not JSON: /);
});

test("what is beside each other is not deep, and brackets in texts are none", () => {
  assert.equal(read(`[${Array(10_000).fill("[{}]").join()}]`).length, 10_000);
  for (const text of ["[".repeat(200), '"['.repeat(200), "\\".repeat(200) + "[".repeat(200), '\\"{'.repeat(200)]) {
    assert.deepEqual(read(JSON.stringify({ [text]: [text, [text]] })), { [text]: [text, [text]] });
  }
  assert.throws(() => read(`{"a":"${"[".repeat(200)}`), { message: /^value is not JSON: (?!nested)/ });
  assert.throws(() => read(`["${'\\"'.repeat(100)}\\\\",${nested(DEEPEST)}]`), TOO_DEEP);
});

test("what stands there twice, without a pair, or beyond all numbers", () => {
  assert.deepEqual(read('{"a":1,"a":2}'), { a: 2 });
  assert.equal(read('"a\\ud800b"'), "a\ud800b");
  assert.equal(read("1e400"), Infinity);
});
