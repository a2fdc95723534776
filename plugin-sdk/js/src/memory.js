// Memory that the host refuses. What is at fault is seldom the record that is being looked at, and who goes on with what is
// left gives wrong answers: the instance ends, and the host tries its records in another.

const MESSAGE = "out of memory";

/** What a component ends with: made before, as there is no memory for it then. */
const ended = new Error(MESSAGE);

// QuickJS throws null where there is not even memory for the error. The other engines never do.
const isQuickJs = typeof TextDecoder !== "function";

/** Whether an engine threw this for want of memory: QuickJS an InternalError or null, SpiderMonkey the bare text. */
export function isOutOfMemory(thrown) {
  if (thrown === null) return isQuickJs;
  return thrown === ended || thrown === MESSAGE || (thrown instanceof Error && thrown.name === "InternalError" && thrown.message === MESSAGE);
}

/** Throws what ends the instance, if this was thrown for want of memory: an error that is none of the contract's is a trap. */
export function endIfOutOfMemory(thrown) {
  if (isOutOfMemory(thrown)) throw ended;
}
