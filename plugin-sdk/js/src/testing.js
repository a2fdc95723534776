// Runs an operator natively, in tests: through the same encoding as in the sandbox, with the same checks of what it
// answers. For node alone; components do not have it.

import { describe } from "./component.js";
import { logTo } from "./log.js";
import { beStrict } from "./patch.js";
import { Runner } from "./runner.js";
import { decodeAnswer } from "./testing/decode.js";
import { encodeBatch } from "./testing/encode.js";
import { OpenLane, laneOf } from "./testing/lane.js";
import { Measured } from "./testing/measured.js";
import { TestRecord } from "./testing/record.js";

// What is wrong in any member of changes shows in tests.
beStrict();

export { compareCases, runCases } from "./testing/cases.js";
export { TestRecord } from "./testing/record.js";

/** An operator under test. See testing.d.ts. */
export class Harness {
  #runner;
  #measured = new Measured();

  constructor(operator, config = {}) {
    this.clock = 1_700_000_000_000_000n;
    this.seed = new TextEncoder().encode("a seed for tests");
    this.logLines = [];
    this.operator = operator;
    this.#log();
    const text = typeof config === "string" ? config : JSON.stringify(config);
    this.description = describe(operator, text);
    this.#runner = new Runner(operator, text);
  }

  #log() {
    logTo((level, message) => this.logLines.push([level, message]));
  }

  get outputs() {
    return this.#runner.outputs;
  }

  run(records) {
    const given = records.map((record, index) => new TestRecord(record, index));
    const { definition } = this.operator;
    const batch = encodeBatch(given, definition.reads, BigInt(this.clock), this.seed);
    this.#log();
    const bytes = this.#runner.process(batch);
    const { outcomes, samples } = decodeAnswer(bytes, given.length, this.outputs, definition.metrics);
    const answers = outcomes.map((outcome, index) => answer(outcome, given[index]));
    // What belongs to a record that comes again does not count.
    this.#measured.add(samples.filter(({ record }) => answers[record].kind !== "retry"));
    return answers;
  }

  runOne(record) {
    return this.run([record])[0];
  }

  open(lane = {}) {
    const { tokens, name, reads } = this.operator.definition;
    if (tokens === undefined) throw new TypeError(`operator ${name} has no \`tokens\``);
    this.#log();
    // The operator is told what it reads, as by the host.
    return new OpenLane(this.#runner.lanes, laneOf(reads.includes("attributes") ? lane : { ...lane, attributes: [] }));
  }

  get metrics() {
    return this.#measured.metrics;
  }

  measured(name, labels = {}) {
    return this.#measured.of(name, labels);
  }
}

/** An outcome with the records that it makes. */
function answer(outcome, record) {
  switch (outcome.kind) {
    case "pass":
      return { ...outcome, record };
    case "replace":
    case "route":
      return { ...outcome, record: record.patched(outcome.patch) };
    case "split":
      return { ...outcome, pieces: outcome.pieces.map((piece) => ({ ...piece, record: record.patched(piece.patch) })) };
    default:
      return outcome;
  }
}
