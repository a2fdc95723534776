// The cases of a project, the same file for every language: see plugin-sdk/conformance/README.md. What only the sandbox
// can run is left out here.

import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Failure } from "../failure.js";
import { Harness } from "../testing.js";
import { bytesOf, pairsOf, patchOf, repeated } from "./format.js";
import { difference } from "./compare.js";

/** Registers a test of node:test for each case of the files that runs outside of the sandbox. */
export function runCases(operator, ...paths) {
  for (const path of paths) {
    const { cases, config } = read(path);
    for (const one of cases) {
      if (one.sandbox === true) continue;
      test(`case: ${one.name}`, () => {
        const differences = differencesOf(operator, one, config);
        if (differences.length > 0) throw new Error(differences.join("\n"));
      });
    }
  }
}

/** The differences in the cases of a file, each with its case's name; none if all is as expected. */
export function compareCases(operator, path) {
  const { cases, config } = read(path);
  return cases
    .filter((one) => one.sandbox !== true)
    .flatMap((one) => differencesOf(operator, one, config).map((why) => `case ${JSON.stringify(one.name)}: ${why}`));
}

function read(path) {
  const { cases, config = {} } = JSON.parse(readFileSync(path, "utf8"));
  return { cases, config };
}

function differencesOf(operator, one, config) {
  let harness;
  try {
    harness = new Harness(operator, one.config ?? config);
  } catch (error) {
    return failed(error, one.refused, "refused");
  }
  if (one.refused !== undefined) return ["it starts, expected to be refused"];
  if (one.clock !== undefined) harness.clock = BigInt(one.clock);
  if (one.seed !== undefined) harness.seed = Uint8Array.from(Buffer.from(one.seed, "hex"));
  let answers;
  try {
    answers = harness.run(one.records.map(recordOf));
  } catch (error) {
    return failed(error, one.failure, "failure");
  }
  if (one.failure !== undefined) return ["the batch is answered, expected to fail"];
  return [...outcomes(answers, one.outcomes), ...lines(harness.logLines, one.log), ...metrics(harness.metrics, one.metrics)];
}

function recordOf(record) {
  const { "event-time": eventTime = null, key = null, value = null, headers = [], attributes = [], id = {} } = record;
  return { eventTime, key: bytesOf(key), value: bytesOf(value), headers: pairsOf(headers), attributes: pairsOf(attributes), id };
}

function failed(error, expected, what) {
  if (!(error instanceof Failure)) throw error;
  if (expected === undefined) return [`${what}: ${error.class}, ${error.code}: ${error.message}`];
  return ["class", "code", "message"].flatMap((member) => difference(`${what}: ${member}`, error[member], expected[member]));
}

function outcomes(answers, expected) {
  if (expected.length !== answers.length) return [`${answers.length} outcomes came, ${expected.length} expected`];
  return answers.flatMap((answer, record) => outcome(`record ${record + 1}`, answer, expected[record]));
}

const withoutRecord = ({ to = null, patch }) => ({ to, ...patch });

function outcome(place, answer, expected) {
  const [kind, what] = typeof expected === "string" ? [expected, undefined] : Object.entries(expected)[0];
  // What raised is a dead letter here; elsewhere it may be one of the host's.
  const wanted = kind === "raised" ? "dead-letter" : kind;
  if (answer.kind !== wanted) return [`${place}: ${answer.kind}${answer.reason === undefined ? "" : ` (${answer.reason})`} came, ${kind} expected`];
  switch (kind) {
    case "replace":
    case "route":
      return difference(place, withoutRecord(answer), patchOf(what));
    case "split": {
      const pieces = repeated(what);
      if (pieces.length !== answer.pieces.length) return [`${place}: ${answer.pieces.length} pieces came, ${pieces.length} expected`];
      return answer.pieces.flatMap((piece, index) => difference(`${place}, piece ${index + 1}`, withoutRecord(piece), patchOf(pieces[index])));
    }
    case "retry":
      return [...difference(`${place}: after-ms`, answer.afterMs, what["after-ms"]), ...difference(`${place}: reason`, answer.reason, what.reason)];
    case "dead-letter":
    case "raised":
      return difference(`${place}: reason`, answer.reason, what);
    case "pass":
    case "drop":
      return [];
    default:
      return [`${place}: ${kind} is no outcome outside of the sandbox`];
  }
}

function lines(came, expected) {
  if (expected === undefined) return [];
  if (came.length !== expected.length) return [`log: ${came.length} lines came, ${expected.length} expected: ${JSON.stringify(came)}`];
  return came.flatMap(([level, text], index) => [
    ...difference(`log: line ${index + 1}: level`, level, expected[index][0]),
    ...difference(`log: line ${index + 1}`, text, expected[index][1]),
  ]);
}

function metrics(came, expected) {
  if (expected === undefined) return [];
  const sorted = (metrics) => metrics.map(({ name, labels = {}, value }) => JSON.stringify([name, Object.entries(labels).sort(), value])).sort();
  return difference("metrics", sorted(came).join(" "), sorted(expected).join(" "));
}
