// What differs, by its place.

const SHOWN = 200;

/** The differences between what came and what was expected; an expected `undefined` is not looked at. */
export function difference(place, came, expected) {
  if (expected === undefined) return [];
  if (typeof came === "string" && Array.isArray(expected?.contains)) {
    const missing = expected.contains.filter((part) => !came.includes(part));
    return missing.map((part) => `${place}: ${shown(part)} is not in ${shown(came)}`);
  }
  if (came instanceof Uint8Array && expected instanceof Uint8Array) {
    return Buffer.compare(came, expected) === 0 ? [] : [`${place}: ${shown(came)} came, ${shown(expected)} expected`];
  }
  if (Array.isArray(came) && Array.isArray(expected)) {
    if (came.length !== expected.length) return [`${place}: ${came.length} came, ${expected.length} expected`];
    return came.flatMap((entry, index) => difference(`${place}[${index}]`, entry, expected[index]));
  }
  if (isTable(came) && isTable(expected)) {
    const members = new Set([...Object.keys(came), ...Object.keys(expected)]);
    return [...members].flatMap((member) => memberDifference(`${place}: ${member}`, came[member], expected[member]));
  }
  return Object.is(came, expected) ? [] : [`${place}: ${shown(came)} came, ${shown(expected)} expected`];
}

function memberDifference(place, came, expected) {
  if (came === undefined) return [`${place} does not change, expected ${shown(expected)}`];
  if (expected === undefined) return [`${place} becomes ${shown(came)}, expected not to change`];
  return difference(place, came, expected);
}

const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);

function shown(value) {
  if (value instanceof Uint8Array) {
    const text = Buffer.from(value).toString();
    return Buffer.compare(Buffer.from(text), value) === 0 ? shown(text) : `bytes ${shown(Buffer.from(value).toString("hex"))}`;
  }
  if (typeof value === "bigint") return String(value);
  const text = JSON.stringify(value) ?? String(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}... (${text.length})` : text;
}
