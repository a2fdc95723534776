import assert from "node:assert/strict";
import { test } from "node:test";
import { Harness, runCases } from "./tidegate/testing.js";
import operator from "./{{name}}.js";

test("a listed word is masked wherever it stands", () => {
  const harness = new Harness(operator, { words: ["secret", "hidden"], mask: "#" });
  const answer = harness.runOne({ value: "a secret is hidden, a secret" });
  assert.equal(answer.record?.text, "a # is #, a #");
});

test("without words every text passes", () => {
  assert.equal(new Harness(operator).runOne({ value: "a secret" }).kind, "pass");
});

// The same cases run in the sandbox with `tidegate test`. Paths are from the project's directory, where tests run.
runCases(operator, "cases/{{name}}.json");
