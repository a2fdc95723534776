// What results of expressions become.

/** Text of a result: text as it is, null as null, anything else as JSON. */
export function bytesOf(result) {
  return result === null || typeof result === "string" ? result : JSON.stringify(result);
}

/** A result without the members of its objects that are null. */
export function without(result) {
  if (Array.isArray(result)) return result.map(without);
  if (typeof result !== "object" || result === null) return result;
  const members = Object.entries(result).filter(([, value]) => value !== null);
  return Object.fromEntries(members.map(([name, value]) => [name, without(value)]));
}

const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;

/** Microseconds of a result: RFC 3339 text, or a number of them; null for null. */
export function timeOf(result, Refused) {
  if (result === null) return null;
  if (typeof result === "number" && Number.isSafeInteger(result)) return result;
  const found = typeof result === "string" ? RFC_3339.exec(result) : null;
  // The engine counts in milliseconds; what is finer is added.
  const whole = found === null ? NaN : Date.parse(result.replace(found[1] ?? "", "").replace(" ", "T").toUpperCase());
  if (Number.isNaN(whole)) throw new Refused(`event-time: ${JSON.stringify(result)} is neither RFC 3339 text nor a whole number of microseconds`);
  return whole * 1000 + Math.trunc(Number(`0${found[1] ?? ""}`) * 1e6);
}
