import assert from "node:assert/strict";
import { test } from "node:test";
import { placeOf, reasonOf } from "../src/trace.js";

const withStack = (stack) => Object.assign(new TypeError("boom"), { stack });

test("the user's line is found in the stacks of every engine", () => {
  const quickjs = "    at putBytes (/tidegate/patch.js:12:5)\n    at inner (/redact.js:7:11)\n    at process (/redact.js:12:3)\n";
  const spidermonkey = "putBytes@/p/tidegate/patch.js:12:5\ninner@/p/redact.js:7:11\nprocess@/p/redact.js:12:3\n";
  const v8 = "TypeError: boom\n    at JSON.parse (<anonymous>)\n    at inner (file:///p/redact.js:7:11)\n    at file:///p/redact.js:12:3";
  for (const stack of [quickjs, spidermonkey, v8]) assert.equal(placeOf(withStack(stack)), "redact.js:7");
  assert.equal(reasonOf(withStack(quickjs)), "TypeError: boom (redact.js:7)");
});

test("a stack without the user's code says type and message", () => {
  for (const stack of ["", undefined, "    at native\n    at parse (native)\n", "    at run (/tidegate/runner.js:1:1)"]) {
    assert.equal(reasonOf(withStack(stack)), "TypeError: boom");
  }
});

test("what is thrown need not be an error", () => {
  const cyclic = {};
  cyclic.self = cyclic;
  assert.equal(reasonOf("text"), "thrown: text");
  assert.equal(reasonOf({ a: 1 }), 'thrown: {"a":1}');
  assert.equal(reasonOf(undefined), "thrown: undefined");
  assert.equal(reasonOf(Symbol("s")), "thrown: Symbol(s)");
  assert.equal(reasonOf(cyclic), "thrown: object");
});

test("lines of a bundle are those of its sources", () => {
  // Line 2 of the bundle is line 5 of tidegate/patch.js from column 0 on, and line 12 of redact.ts from column 4 on.
  const map = { version: 3, sources: ["../tidegate/patch.js", "../rédact.ts"], mappings: ";AAIA,ICOA" };
  globalThis.__tidegateSourceMap = Buffer.from(JSON.stringify(map)).toString("base64");
  try {
    assert.equal(placeOf(withStack("    at a (/build/bundle.js:2:3)\n    at b (/build/bundle.js:2:9)\n")), "rédact.ts:12");
    assert.equal(placeOf(withStack("    at a (/build/bundle.js:9:3)\n")), "bundle.js:9");
  } finally {
    delete globalThis.__tidegateSourceMap;
  }
});
