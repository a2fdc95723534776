// The cases of a project, the same file for every language: see plugin-sdk/conformance/README.md. What only the sandbox
// can run is left out here.

import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Failure } from "../failure.js";
import { Harness } from "../testing.js";
import { bytesOf, pairsOf, patchOf, repeated } from "./format.js";
import { difference } from "./compare.js";
import { ofTokens } from "./tokens.js";

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
  if (one.tokens !== undefined) {
    let found;
    try {
      found = ofTokens(harness, one);
    } catch (error) {
      return failed(error, one.failure, "failure");
    }
    return [...found, ...lines(harness.logLines, one.log)];
  }
  let answers;
  try {
    answers = harness.run((one.records ?? []).map(recordOf));
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
  if (expected === undefined) return ["it expects neither outcomes nor a failure nor to be refused"];
  if (expected.length !== answers.length) return [`${answers.length} outcomes came, ${expected.length} expected`];
  return answers.flatMap((answer, record) => outcome(`record ${record + 1}`, answer, expected[record]));
}

const withoutRecord = ({ to = null, patch }) => ({ to, ...patch });

/** What means the same is the same, as for the host: a route to the main output, a replace without changes, no piece. */
function simplest(kind, patch, to, pieces) {
  if (kind === "split" && pieces === 0) return "drop";
  if (kind !== "replace" && (kind !== "route" || to !== null)) return kind;
  return Object.values(patch).every((change) => Array.isArray(change) && change.length === 0) ? "pass" : "replace";
}

function expectation(expected) {
  const [kind, what] = typeof expected === "string" ? [expected, undefined] : Object.entries(expected)[0];
  const { to, ...patch } = kind === "replace" || kind === "route" ? patchOf(what) : { to: null };
  const pieces = kind === "split" ? repeated(what) : [];
  return { kind: simplest(kind, patch, to, pieces.length), what, to, patch, pieces };
}

function outcome(place, answer, expected) {
  const { kind, what, to, patch, pieces } = expectation(expected);
  const came = simplest(answer.kind, answer.patch, answer.to ?? null, answer.pieces?.length);
  // What raised is a dead letter here; elsewhere it may be one of the host's.
  const wanted = kind === "raised" ? "dead-letter" : kind;
  if (came !== wanted) return [`${place}: ${came}${answer.reason === undefined ? "" : ` (${answer.reason})`} came, ${kind} expected`];
  switch (kind) {
    case "replace":
    case "route":
      return difference(place, withoutRecord(answer), { to, ...patch });
    case "split":
      if (pieces.length !== answer.pieces.length) return [`${place}: ${answer.pieces.length} pieces came, ${pieces.length} expected`];
      return answer.pieces.flatMap((piece, index) => difference(`${place}, piece ${index + 1}`, withoutRecord(piece), patchOf(pieces[index])));
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

/** Numbers are the same but for how sums were rounded; one that stayed at zero is as if it had not been measured. */
function metrics(came, expected) {
  if (expected === undefined) return [];
  const byName = (metrics) => new Map(metrics.map(({ name, labels = {}, value }) => [JSON.stringify([name, Object.entries(labels).sort()]), value]));
  const [found, wanted] = [byName(came), byName(expected)];
  return [...new Set([...found.keys(), ...wanted.keys()])]
    .filter((series) => !isNear(found.get(series), wanted.get(series)))
    .map((series) => `metrics: ${series}: ${JSON.stringify(found.get(series)) ?? "nothing"} came, ${JSON.stringify(wanted.get(series)) ?? "nothing"} expected`);
}

function isNear(one = 0, other = 0) {
  if (typeof one === "number" && typeof other === "number") return Math.abs(one - other) <= 1e-9 * Math.max(Math.abs(one), Math.abs(other));
  return one.count === other.count && isNear(one.sum, other.sum);
}
