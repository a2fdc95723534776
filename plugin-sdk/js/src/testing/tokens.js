// Cases of what handles tokens: a text in pieces, and what goes on of it.

import { Failure } from "../failure.js";
import { difference } from "./compare.js";
import { pairsOf } from "./format.js";

/** The differences of a case; what the operator fails it with is thrown. Only the lines of the pieces as they stand count. */
export function ofTokens(harness, one) {
  const { lane = "content", model, choice, record, attributes = [], pieces, through, end = null } = one.tokens;
  const [kind, call] = typeof lane === "string" ? [lane, undefined] : ["arguments", lane.arguments];
  const given = { identity: record, model, choice, kind, call, attributes: pairsOf(attributes) };
  const came = harness.open(given).run(pieces);
  const lines = [...harness.logLines];
  if (one.failure !== undefined) return ["the text is handled, expected to fail"];
  if (through === undefined) return ["it expects neither what goes through nor a failure"];
  const found = [
    ...difference("through", Array.isArray(through) ? came.each : came.text, through),
    ...difference("end", came.end, end),
  ];
  const whole = pieces.join("");
  const cuts = [
    ["in one piece", [whole]],
    ["character by character", [...whole]],
    // As every lane of a pipeline ends: it is known late that nothing more comes.
    ["with its end apart", [whole, ""]],
  ];
  for (const [cut, again] of cuts) {
    // What fails here only is a difference.
    const other = handled(harness, given, again.length === 0 ? [""] : again);
    const place = `the same text ${cut}`;
    if (other instanceof Failure) found.push(`${place}: fails: ${other.message}`);
    else found.push(...difference(`${place}: through`, other.text, came.text), ...difference(`${place}: end`, other.end, came.end));
  }
  harness.logLines = lines;
  return found;
}

function handled(harness, lane, pieces) {
  try {
    return harness.open(lane).run(pieces);
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
}
