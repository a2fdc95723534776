// The SDK: all that an operator imports.

export { any, boolean, choice, integer, list, map, number, object, string } from "./config.js";
export { Failure, badConfiguration, permanent, transient } from "./failure.js";
export { log } from "./log.js";
export { counter, gauge, histogram } from "./metrics.js";
export { operator } from "./operator.js";
export { add, deadLetter, drop, pass, remove, replace, retry, route, set, split } from "./outcome.js";
export { FieldError, decodeText, encodeText } from "./text.js";
export { end } from "./tokens.js";
