// What stands in a file of cases: bytes, pairs, patches, and what is repeated.

/** Bytes: text, null, or an object that says how they are made. */
export function bytesOf(given) {
  if (given === null) return null;
  if (typeof given === "string") return Buffer.from(given);
  if (typeof given.base64 === "string") return Buffer.from(given.base64, "base64");
  if (typeof given.repeat === "string") return Buffer.from(given.repeat.repeat(given.times));
  if ("json" in given) return Buffer.from(JSON.stringify(given.json));
  throw new TypeError(`bytes are ${JSON.stringify(given)}, expected text, null, base64, repeat or json`);
}

/** A list, or an object that says what is in it so many times. */
export function repeated(given) {
  return Array.isArray(given) ? given : Array.from({ length: given.times }, () => given.repeat);
}

/** Headers or attributes: a list of pairs, one pair repeated, or an object. */
export function pairsOf(given) {
  const isRepeated = !Array.isArray(given) && Array.isArray(given.repeat);
  const pairs = Array.isArray(given) || isRepeated ? repeated(given) : Object.entries(given);
  return pairs.map(([name, value]) => [name, bytesOf(value)]);
}

/** A patch, with the output that it goes to, as the harness has it. */
export function patchOf(given) {
  const { to = null, headers = [], attributes = [] } = given;
  const patch = { to, headers: changesOf(headers), attributes: changesOf(attributes) };
  if (given.key !== undefined) patch.key = bytesOf(given.key);
  if (given.value !== undefined) patch.value = bytesOf(given.value);
  if (given["event-time"] !== undefined) patch.eventTime = given["event-time"] === null ? null : BigInt(given["event-time"]);
  return patch;
}

function changesOf(changes) {
  return changes.map(([operation, name, value]) => (operation === "remove" ? [operation, name] : [operation, name, bytesOf(value)]));
}
