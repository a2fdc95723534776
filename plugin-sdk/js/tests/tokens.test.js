import assert from "node:assert/strict";
import { test } from "node:test";
import { packed, tokens as exported } from "../src/component.js";
import { end, log, object, operator, pass, permanent, string } from "../src/index.js";
import { Harness, compareCases } from "../src/testing.js";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const base = { name: "try-out", version: "1.0.0", reads: ["attributes"], process: () => pass };
const harness = (tokens, more = {}, config) => new Harness(operator({ ...base, ...more, tokens }), config);

test("what a lane keeps is its own", () => {
  const opened = harness(() => {
    let count = 0;
    return (text, last) => `${text}${++count}${last ? "." : ""}`;
  });
  const [one, other] = [opened.open(), opened.open()];
  assert.deepEqual(one.step("a"), { text: "a1", end: null });
  assert.deepEqual(other.step("b"), { text: "b1", end: null });
  assert.deepEqual(one.step("c", true), { text: "c2.", end: null });
});

test("a handler has the configuration and what start made of it", () => {
  const more = { config: object({ word: string() }), start: ({ word }) => word.toUpperCase() };
  const opened = harness((_lane, { word }, upper) => () => `${word} ${upper}`, more, { word: "w" }).open();
  assert.equal(opened.step("x").text, "w W");
});

test("a lane tells what the operator reads", () => {
  const tell = (lane) => () => [lane.kind, lane.call, lane.attributeText("a"), lane.attributeText("b"), lane.attribute("c")].join();
  const lane = { kind: "arguments", call: 2, attributes: [["a", "1"], ["a", "2"], ["b", Uint8Array.of(255)]] };
  assert.equal(harness(tell).open(lane).step("").text, "arguments,2,2,,");
  assert.equal(harness(tell, { reads: [] }).open(lane).step("").text, "arguments,2,,,");
  assert.equal(harness(tell).open().step("").text, "content,,,,");
});

test("an answer ends where the handler says", () => {
  const opened = harness(() => (text) => (text === "bad" ? end("so far", "filtered") : text)).open();
  assert.deepEqual(opened.run(["good", "bad", "more"]), { text: "goodso far", each: ["good", "so far"], end: "filtered" });
  assert.throws(() => end("x", "now"), /an answer ends as "now", expected stop or filtered/);
});

test("halves of a character that the operator has cut stay together", () => {
  const cut = harness(() => {
    let held = "";
    return (text, last) => {
      held += text;
      const through = held.slice(0, last ? held.length : -1);
      held = held.slice(through.length);
      return through;
    };
  });
  assert.deepEqual(cut.open().run(["a😀", "b😀", "c"]).each, ["a", "😀b", "😀c"]);
  // What stays a half at the end is none.
  assert.deepEqual(harness(() => () => "\ud83d").open().run(["x", "y"]).each, ["", "\ufffd\ufffd"]);
});

test("what is thrown fails the lane, with its line", () => {
  const refuses = harness(() => { throw permanent("no-lane", "not this one"); });
  assert.throws(() => refuses.open(), { code: "no-lane" });
  assert.throws(() => harness(() => "text").open(), /tokens answered with "text", expected a function of text/);
  assert.throws(() => harness(() => () => 5).open().step("x"), /a step answered with 5, expected text or end/);
  const component = packed(operator({ ...base, tokens: () => () => null.boom }), ["tokens"]);
  component.init("{}");
  exported.open(1n, { identity: "i", model: "m", choice: 0, kind: { tag: "content" }, attributes: [] });
  assert.throws(
    () => exported.step([{ lane: 1n, text: "x", last: false }]),
    ({ class: kind, code, message }) => kind === "permanent" && code === "exception" && /boom.*\(tokens\.test\.js:\d+\)/.test(message),
  );
  assert.throws(() => exported.step([{ lane: 2n, text: "x", last: false }]), { code: "unknown-lane" });
});

test("the component tells of a lane and of its text in the words of the contract", () => {
  const seen = [];
  const component = packed(operator({ ...base, tokens: (lane) => (seen.push(lane), (text) => (text === "" ? end("!", "stop") : text)) }), ["tokens"]);
  assert.deepEqual(component.describe("{}").handlers, ["tokens"]);
  component.init("{}");
  const lane = { identity: "i", model: "m", choice: 1, kind: { tag: "arguments", val: 3 }, attributes: [{ name: "a", value: Uint8Array.of(49) }] };
  assert.equal(exported.open(7n, lane), undefined);
  assert.deepEqual([seen[0].kind, seen[0].call, seen[0].choice, seen[0].attributeText("a")], ["arguments", 3, 1, "1"]);
  const pieces = [{ lane: 7n, text: "x", last: false }, { lane: 7n, text: "", last: false }];
  assert.deepEqual(exported.step(pieces), [{ text: "x", end: undefined }, { text: "!", end: "stop" }]);
  exported.close(7n);
  assert.throws(() => exported.step(pieces), { code: "unknown-lane" });
});

test("an operator and its manifest say the same of handlers", () => {
  const handles = operator({ ...base, tokens: () => (text) => text });
  assert.throws(() => packed(handles, []), /operator try-out has `tokens`: write handlers = \["tokens"\] in operator.toml/);
  assert.throws(() => packed(operator(base), ["tokens"]), /operator.toml has the handler "tokens", and operator try-out has no `tokens`/);
  assert.deepEqual(packed(operator(base), []).describe("{}").handlers, []);
  assert.throws(() => operator({ ...base, tokens: {} }), /tokens is not a function of a lane/);
  assert.throws(() => new Harness(operator(base)).open(), /operator try-out has no `tokens`/);
});

const written = (...cases) => {
  const path = join(mkdtempSync(join(tmpdir(), "cases-")), "tokens.json");
  writeFileSync(path, JSON.stringify({ cases }));
  return path;
};

test("what is thrown is a failure natively as in the sandbox", () => {
  const throws = (when) => (lane) => {
    if (when === "open") throw new Error("boom");
    return () => null.boom;
  };
  for (const when of ["open", "step"]) {
    const failure = { class: "permanent", code: "exception" };
    const path = written({ name: "one", tokens: { pieces: ["x"] }, failure }, { name: "two", tokens: { pieces: ["x"], through: "x" } });
    const found = compareCases(operator({ ...base, tokens: throws(when) }), path);
    assert.equal(found.length, 1);
    assert.match(found[0], /^case "two": failure: permanent, exception: .*boom.*\(tokens\.test\.js:\d+\)$/);
  }
});

test("cases find what is lost where the end comes without a text", () => {
  const forgets = () => {
    let held = "";
    return (text, last) => {
      if (text === "") return "";
      held += text;
      return last ? held : "";
    };
  };
  const found = compareCases(operator({ ...base, tokens: forgets }), written({ name: "one", tokens: { pieces: ["a", "b"], through: "ab" } }));
  assert.deepEqual(found, ['case "one": the same text with its end apart: through: "" came, "ab" expected']);
});

test("cases say what differs, and that another cut matters", () => {
  const tokens = { pieces: ["ab", "c"], through: ["ab", "d"], end: "stop" };
  const path = written({ name: "one", tokens, log: [["info", "x"]] });
  const found = compareCases(operator({ ...base, tokens: () => (text) => (log.info("y"), text.length > 2 ? "long" : text) }), path);
  assert.deepEqual(found, [
    'case "one": through[1]: "c" came, "d" expected',
    'case "one": end: null came, "stop" expected',
    'case "one": the same text in one piece: through: "long" came, "abc" expected',
    'case "one": the same text with its end apart: through: "long" came, "abc" expected',
    'case "one": log: 2 lines came, 1 expected: [["info","y"],["info","y"]]',
  ]);
});
