import assert from "node:assert/strict";
import { test } from "node:test";
import { any, boolean, choice, integer, list, map, number, object, string } from "../src/index.js";
import { configSchema, readConfig } from "../src/config.js";

const type = object({
  longest: integer({ minimum: 1, maximum: 100 }).describe("How long."),
  ratio: number({ minimum: 0 }).default(0.5),
  on: boolean().default(true),
  side: choice("left", "right").default("left"),
  words: list(string({ minLength: 1, maxLength: 5 }), { maxItems: 2 }).default([]),
  names: map(integer()).optional(),
  nested: object({ deep: string({ pattern: "^[a-z]+$" }) }).optional(),
  free: any().optional(),
});

const read = (json) => readConfig(type, JSON.stringify(json));
const refuses = (json, message) => assert.throws(() => read(json), { class: "bad-configuration", code: "bad-config", message });

test("defaults are filled in", () => {
  assert.deepEqual(read({ longest: 3 }), {
    longest: 3,
    ratio: 0.5,
    on: true,
    side: "left",
    words: [],
    names: undefined,
    nested: undefined,
    free: undefined,
  });
  assert.notEqual(read({ longest: 3 }).words, read({ longest: 3 }).words);
});

test("a mistake names the key, its value and what would be right", () => {
  refuses({}, "config key `longest` is missing");
  refuses({ longest: 0 }, "config key `longest` is 0, expected at least 1");
  refuses({ longest: 101 }, "config key `longest` is 101, expected at most 100");
  refuses({ longest: 1.5 }, "config key `longest` is 1.5, expected a whole number");
  refuses({ longest: "3" }, 'config key `longest` is "3", expected a whole number');
  refuses({ longest: null }, "config key `longest` is null, expected a whole number");
  refuses({ longest: 3, ratio: "0" }, 'config key `ratio` is "0", expected a number');
  refuses({ longest: 3, on: 1 }, "config key `on` is 1, expected true or false");
  refuses({ longest: 3, side: "up" }, 'config key `side` is "up", expected one of "left", "right"');
  refuses({ longest: 3, words: "a" }, 'config key `words` is "a", expected a list');
  refuses({ longest: 3, words: ["a", ""] }, "config key `words[1]` has 0 characters, expected at least 1");
  refuses({ longest: 3, words: ["😀😀😀😀😀😀"] }, "config key `words[0]` has 6 characters, expected at most 5");
  refuses({ longest: 3, words: ["a", "b", "c"] }, "config key `words` has 3 entries, expected at most 2");
  refuses({ longest: 3, names: { a: "b" } }, 'config key `names.a` is "b", expected a whole number');
  refuses({ longest: 3, nested: [] }, "config key `nested` is [], expected a table");
  refuses({ longest: 3, nested: {} }, "config key `nested.deep` is missing");
  refuses({ longest: 3, nested: { deep: "A" } }, 'config key `nested.deep` is "A", expected text that fits ^[a-z]+$');
  refuses({ longest: 3, nested: { deep: "a", other: 1 } }, "config key `nested.other` is unknown, expected `deep`");
  refuses({ longest: 3, toString: 1 }, /^config key `toString` is unknown/);
  refuses([], "config is [], expected a table");
  assert.throws(() => readConfig(type, "{"), { class: "bad-configuration", message: /^config is not JSON/ });
  assert.throws(() => readConfig(type, JSON.stringify({ longest: "x".repeat(1000) })), (error) => error.message.length < 300);
});

test("the schema says the same", () => {
  assert.deepEqual(JSON.parse(configSchema(type)), {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    properties: {
      longest: { type: "integer", minimum: 1, maximum: 100, description: "How long." },
      ratio: { type: "number", minimum: 0, default: 0.5 },
      on: { type: "boolean", default: true },
      side: { enum: ["left", "right"], default: "left" },
      words: { type: "array", items: { type: "string", minLength: 1, maxLength: 5 }, maxItems: 2, default: [] },
      names: { type: "object", additionalProperties: { type: "integer" } },
      nested: { type: "object", properties: { deep: { type: "string", pattern: "^[a-z]+$" } }, required: ["deep"], additionalProperties: false },
      free: {},
    },
    required: ["longest"],
    additionalProperties: false,
  });
});

test("bounds that nothing lies between are refused when they are declared", () => {
  assert.throws(() => number({ minimum: 5, maximum: 1 }), /minimum 5 and maximum 1: nothing lies between/);
  assert.throws(() => integer({ minimum: 1.5 }), /minimum 1.5, expected a whole number/);
  assert.throws(() => number({ minimum: NaN }), /minimum NaN, expected a number/);
  assert.throws(() => number({ maximum: "5" }), /maximum 5, expected a number/);
  assert.throws(() => integer({ min: 1 }), /has the bound min, expected minimum, maximum/);
  assert.throws(() => string({ minLength: 2, maxLength: 1 }), /minLength 2 and maxLength 1/);
  assert.throws(() => string({ minLength: -1 }), /minLength -1, expected a whole number from 0 on/);
  assert.throws(() => list(any(), { maxItems: 0.5 }), /maxItems 0.5/);
  assert.throws(() => map(any(), { minProperties: 2, maxProperties: 1 }), /nothing lies between/);
  assert.equal(readConfig(object({ n: number({ minimum: 5, maximum: 5 }) }), '{"n": 5}').n, 5);
});

test("a number that is whole is an integer however it is written", () => {
  const whole = (text) => readConfig(object({ n: integer({ minimum: -5 }) }), `{"n": ${text}}`).n;
  assert.deepEqual(["1.0", "1e3", "0.5e1", "-0.0", "9007199254740991"].map(whole), [1, 1000, 5, -0, 2 ** 53 - 1]);
  for (const text of ["1.5", "1e-1", "9007199254740992", "1e400", "-6.0"]) {
    assert.throws(() => whole(text), { class: "bad-configuration", message: /^config key `n` is / });
  }
});

test("an empty text is an empty table, and a default has to fit", () => {
  assert.deepEqual(readConfig(object({}), ""), {});
  assert.throws(() => integer({ minimum: 1 }).default(0), /a default does not fit its own type/);
});
