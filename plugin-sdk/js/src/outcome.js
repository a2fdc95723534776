// What becomes of a record.

import * as arena from "./arena.js";

/** What `process` answers; made by the functions below. */
export class Outcome {
  /** `what` and `more` are of the action. */
  constructor(action, what, more) {
    this.action = action;
    this.what = what;
    this.more = more;
  }
}

/** The record goes on as it is. */
export const pass = new Outcome(arena.PASS);
/** The record ends here. */
export const drop = new Outcome(arena.DROP);

/** The record goes on with these changes. */
export function replace(changes) {
  return new Outcome(arena.REPLACE, changes);
}

/** The record becomes these. */
export function split(pieces) {
  return new Outcome(arena.SPLIT, pieces);
}

/** The record goes to a named output, with these changes. */
export function route(output, changes = NOTHING) {
  return new Outcome(arena.ROUTE, changes, output);
}

/** The record comes again after so many milliseconds. */
export function retry(afterMs, reason) {
  return new Outcome(arena.RETRY, reason, afterMs);
}

/** The record goes to the dead letters. */
export function deadLetter(reason) {
  return new Outcome(arena.DEAD_LETTER, reason);
}

const NOTHING = {};

/** A change of headers or attributes; made by the functions below. */
export class PairChange {
  constructor(operation, name, value) {
    this.operation = operation;
    this.name = name;
    this.value = value;
  }
}

/** Replaces all of the name by this one. */
export function set(name, value) {
  return new PairChange(arena.SET, name, value);
}

/** Appends one; others of the name stay. */
export function add(name, value) {
  return new PairChange(arena.ADD, name, value);
}

/** Removes all of the name. */
export function remove(name) {
  return new PairChange(arena.REMOVE, name, null);
}
