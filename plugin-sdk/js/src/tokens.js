// Answers of models as they are made: lanes that are open, and what goes on of each piece of their text.

import { Failure, permanent } from "./failure.js";
import { isOutOfMemory } from "./memory.js";
import { shown } from "./patch.js";
import { textOrNull } from "./text.js";
import { reasonOf } from "./trace.js";

const ENDINGS = ["stop", "filtered"];

/** What a step answers where the answer ends; `end` makes it. */
export class End {
  constructor(text, how) {
    this.text = text;
    this.how = how;
  }
}

/** This text goes on, and the answer ends behind it. */
export function end(text, how) {
  if (!ENDINGS.includes(how)) throw new TypeError(`an answer ends as ${shown(how)}, expected ${ENDINGS.join(" or ")}`);
  return new End(text, how);
}

/** What is known of a lane. See index.d.ts. */
export class Lane {
  constructor({ identity, model, choice, kind, call, attributes }) {
    this.identity = identity;
    this.model = model;
    this.choice = choice;
    this.kind = kind;
    this.call = call;
    this.attributes = attributes;
  }

  attribute(name) {
    return this.attributes.findLast((pair) => pair[0] === name)?.[1] ?? null;
  }

  attributeText(name) {
    const value = this.attribute(name);
    return value === null ? null : textOrNull(value);
  }
}

/** The lanes of an operator that are open, by their numbers. */
export class Lanes {
  #handler;
  #config;
  #state;
  #open = new Map();

  /** `handler` makes of a lane the function that gets its text. */
  constructor(handler, config, state) {
    this.#handler = handler;
    this.#config = config;
    this.#state = state;
  }

  /** Throws a Failure. */
  open(number, lane) {
    const step = inWords(() => {
      const step = this.#handler(lane, this.#config, this.#state);
      if (typeof step === "function") return step;
      throw new TypeError(`tokens answered with ${shown(step)}, expected a function of text`);
    });
    this.#open.set(number, { step, half: "" });
  }

  /** What goes on of the next text of a lane, and how its answer ends: null if it does not. Throws a Failure. */
  step(number, text, last) {
    const lane = this.#open.get(number);
    if (lane === undefined) throw permanent("unknown-lane", `lane ${number} is not open`);
    return inWords(() => {
      const through = lane.step(text, last);
      if (through instanceof End) return { text: whole(lane, through.text, true), end: through.how };
      return { text: whole(lane, through, last), end: null };
    });
  }

  close(number) {
    this.#open.delete(number);
  }
}

/** What an operator's code throws is a Failure, natively as in the sandbox. */
function inWords(call) {
  try {
    return call();
  } catch (error) {
    if (error instanceof Failure || isOutOfMemory(error)) throw error;
    throw permanent("exception", reasonOf(error));
  }
}

/**
 * Text as the host takes it. A character of two UTF-16 units may have been cut by the operator: its first half waits for the
 * other.
 */
function whole(lane, text, last) {
  if (typeof text !== "string") throw new TypeError(`a step answered with ${shown(text)}, expected text or end(...)`);
  const through = lane.half + text;
  const cut = !last && /[\ud800-\udbff]$/.test(through);
  lane.half = cut ? through.slice(-1) : "";
  return (cut ? through.slice(0, -1) : through).toWellFormed();
}
