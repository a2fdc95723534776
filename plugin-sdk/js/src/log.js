// Lines of the host's log.

// Where lines go: to the host in a component that is granted the log, to a list in the harness, nowhere otherwise.
let write = null;

/** Says where lines go, as `(level, message)`. */
export function logTo(receiver) {
  write = receiver;
}

function line(level, message) {
  // The host takes UTF-8; half of a pair of surrogates is none.
  if (write !== null) write(level, String(message).toWellFormed());
}

/**
 * Writes lines to the host's log. Without `log` among the grants of operator.toml the component has no log, and lines
 * are dropped.
 */
export const log = {
  trace: (message) => line("trace", message),
  debug: (message) => line("debug", message),
  info: (message) => line("info", message),
  warn: (message) => line("warn", message),
  error: (message) => line("error", message),
};
