// Runs an operator over packed batches: the component's exports and the harness both use it.

import { DROP, PASS } from "./arena.js";
import { Answer } from "./answer.js";
import { readConfig } from "./config.js";
import { wrongOutputs } from "./declared.js";
import { Failure, permanent } from "./failure.js";
import { isOutOfMemory } from "./memory.js";
import { measureInto, takeBackMeasured } from "./metrics.js";
import { closeBatch, nextRecord, openBatch, record } from "./record.js";
import { FieldError } from "./text.js";
import { Lanes } from "./tokens.js";
import { reasonOf } from "./trace.js";

/** An operator that was started with a configuration, and answers batches. */
export class Runner {
  #process;
  #config;
  #state;
  #answer;

  /** Reads the configuration (JSON text) and starts the operator. Throws a Failure. */
  constructor({ definition }, text) {
    const config = readConfig(definition.config, text);
    const outputs = outputsOf(definition, config);
    let state;
    try {
      state = definition.start?.(config);
    } catch (error) {
      if (error instanceof Failure || isOutOfMemory(error)) throw error;
      throw permanent("exception", reasonOf(error));
    }
    this.outputs = outputs;
    /** Of an operator that handles tokens. */
    this.lanes = new Lanes(definition.tokens, config, state);
    this.#process = definition.process;
    this.#config = config;
    this.#state = state;
    this.#answer = new Answer(definition.name, outputs);
  }

  /** Answers a batch. What it returns is written over by the next answer. Throws a Failure. */
  process(batch) {
    const process = this.#process;
    const config = this.#config;
    const state = this.#state;
    const answer = this.#answer;
    const count = openBatch(batch);
    answer.begin(count);
    measureInto(answer);
    const { writer, actions } = answer;
    let index = 0;
    // Where what is written of a record begins, for one whose outcome cannot be written.
    let used = writer.used;
    try {
      while (index < count) {
        // One `try` for as many records as do not raise.
        try {
          for (; index < count; index++) {
            const outcome = process(record, config, state);
            const action = outcome?.action;
            if (action === DROP || outcome === false) actions[index] = DROP;
            else if (action !== PASS && outcome !== true) {
              answer.write(index, outcome);
              used = writer.used;
            }
            nextRecord();
          }
        } catch (error) {
          if (error instanceof Failure || isOutOfMemory(error)) throw error;
          takeBackMeasured(index);
          // What a record is at fault for says so itself; in code the place counts.
          answer.takeBack(index, used, error instanceof FieldError ? error.message : reasonOf(error));
          used = writer.used;
          index++;
          nextRecord();
        }
      }
      return answer.finish();
    } finally {
      measureInto(null);
      closeBatch();
    }
  }
}

/** The named outputs under a configuration. Throws a TypeError if they are none. */
export function outputsOf({ outputs }, config) {
  if (typeof outputs !== "function") return [...new Set(outputs)];
  const made = outputs(config);
  const named = Array.isArray(made) ? [...new Set(made)] : made;
  const why = wrongOutputs(named);
  if (why !== null) throw new TypeError(`the list of outputs ${why}`);
  return named;
}
