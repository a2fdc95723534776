// What fails a whole call, by class.

/** Why an operator cannot start, or cannot answer a batch. Throw it. */
export class Failure extends Error {
  /** Use `transient`, `permanent` or `badConfiguration`. */
  constructor(kind, code, message) {
    super(message);
    /** "transient", "permanent" or "bad-configuration". */
    this.class = kind;
    /** A short name that does not change. */
    this.code = code;
  }

  get name() {
    return "Failure";
  }
}

/** The same call may succeed later: the records wait and come again. */
export function transient(code, message) {
  return new Failure("transient", code, message);
}

/** The same call fails again: the records come again in smaller batches, until one fails by itself and is a dead letter. */
export function permanent(code, message) {
  return new Failure("permanent", code, message);
}

/** Only another configuration helps: the operator does not start, or its records wait for one. */
export function badConfiguration(code, message) {
  return new Failure("bad-configuration", code, message);
}
