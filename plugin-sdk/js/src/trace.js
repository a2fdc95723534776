// Where in the user's source an exception comes from, by the stack that its engine writes: QuickJS and V8 have lines
// `at name (file:line:column)`, SpiderMonkey has `name@file:line:column`.

import { endIfOutOfMemory } from "./memory.js";

const PLACE = /([^\s()@]+?):(\d+)(?::(\d+))?\)?$/;
// The SDK's own files, and what engines call their own.
const NOT_THE_USERS = /(^|\/)tidegate\/|^(node|native|internal):|(^|\/)node_modules\//;

/** What is said of a value that was thrown: `TypeError: boom (redact.js:12)`. Never throws, whatever it is. */
export function reasonOf(thrown) {
  try {
    if (!(thrown instanceof Error)) return `thrown: ${shown(thrown)}`;
    const place = placeOf(thrown);
    const text = `${thrown.name}: ${thrown.message}`;
    return place === null ? text : `${text} (${place})`;
  } catch (error) {
    endIfOutOfMemory(error);
    return "thrown: an error that cannot be shown";
  }
}

/** `redact.js:12`, the topmost place of a stack that is in the user's sources; null if there is none. */
export function placeOf(error) {
  if (typeof error.stack !== "string") return null;
  for (const line of error.stack.split("\n")) {
    const found = PLACE.exec(line.trim());
    if (found === null || NOT_THE_USERS.test(found[1])) continue;
    const [file, at] = mapped(found[1], Number(found[2]), Number(found[3] ?? 1));
    if (NOT_THE_USERS.test(file)) continue;
    return `${file.slice(file.lastIndexOf("/") + 1)}:${at}`;
  }
  return null;
}

/** A value of any kind on a line. Never throws. */
export function shown(value) {
  try {
    return typeof value === "object" ? JSON.stringify(value, (_name, member) => (typeof member === "bigint" ? String(member) : member)) : String(value);
  } catch (error) {
    endIfOutOfMemory(error);
    return typeof value;
  }
}

// A bundle's source map (version 3), which the build leaves in a global as Base64: read when the first exception asks.
let map;

/** The file and line of the source that a place in a bundle was made of; itself where there is no map. */
function mapped(file, line, column) {
  const base64 = globalThis.__tidegateSourceMap;
  if (typeof base64 !== "string") return [file, line];
  map ??= readMap(decodeURIComponent(escape(atob(base64))));
  const segments = map.lines[line - 1] ?? [];
  let found = null;
  for (const segment of segments) if (segment.column <= column - 1) found = segment;
  return found === null ? [file, line] : [map.sources[found.source], found.line + 1];
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function readMap(text) {
  const { sources, mappings } = JSON.parse(text);
  let source = 0;
  let line = 0;
  const lines = mappings.split(";").map((group) => {
    const segments = [];
    let column = 0;
    for (const written of group.split(",")) {
      const numbers = variableLength(written);
      column += numbers[0] ?? 0;
      if (numbers.length < 4) continue;
      source += numbers[1];
      line += numbers[2];
      segments.push({ column, source, line });
    }
    return segments;
  });
  return { sources, lines };
}

/** The numbers of a segment, Base64 VLQ. */
function variableLength(written) {
  const numbers = [];
  let number = 0;
  let shift = 0;
  for (const digit of written) {
    const bits = DIGITS.indexOf(digit);
    number |= (bits & 31) << shift;
    shift += 5;
    if (bits & 32) continue;
    numbers.push(number & 1 ? -(number >>> 1) : number >>> 1);
    number = 0;
    shift = 0;
  }
  return numbers;
}
