// What becomes of a record.

import * as arena from "./arena.js";

const { REPLACE } = arena;

// Objects of two members: QuickJS makes larger ones three times as slowly.
const outcome = (action, what) => ({ action, what });

/** The record goes on as it is. */
export const pass = Object.freeze(outcome(arena.PASS));
/** The record ends here. */
export const drop = Object.freeze(outcome(arena.DROP));

/** The record goes on with these changes. */
export function replace(changes) {
  return { action: REPLACE, what: changes };
}

/** The record becomes these. */
export function split(pieces) {
  return outcome(arena.SPLIT, pieces);
}

/** The record goes to a named output, with these changes. */
export function route(output, changes = NOTHING) {
  return outcome(arena.ROUTE, { output, changes });
}

/** The record comes again after so many milliseconds. */
export function retry(afterMs, reason) {
  return outcome(arena.RETRY, { afterMs, reason });
}

/** The record goes to the dead letters. */
export function deadLetter(reason) {
  return outcome(arena.DEAD_LETTER, reason);
}

const NOTHING = Object.freeze({});

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
