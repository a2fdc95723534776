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

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** Microseconds of a result: RFC 3339 text, or a number of them; null for null. Beyond the year 2255 they are a BigInt. */
export function timeOf(result, Refused) {
  if (result === null) return null;
  if (typeof result === "number" && Number.isSafeInteger(result)) return result;
  const found = typeof result === "string" ? RFC_3339.exec(result) : null;
  const seconds = found === null ? null : secondsOf(found);
  if (seconds === null) throw new Refused(`event-time: ${JSON.stringify(result)} is neither RFC 3339 text nor a whole number of microseconds`);
  // Digits beyond the sixth are cut off. Each is read as it stands: a fraction such as 0.000009 is no number of two.
  const fraction = Number((found[7] ?? "").slice(0, 6).padEnd(6, "0"));
  const micros = seconds * 1e6 + fraction;
  return Number.isSafeInteger(micros) ? micros : BigInt(seconds) * 1_000_000n + BigInt(fraction);
}

/** Seconds since the Unix epoch of the parts of a time; null where there is no such day or time of day. */
function secondsOf([, ...parts]) {
  const [year, month, day, hour, minute, second, , , awayHours = 0, awayMinutes = 0] = parts.map((part) => part && Number(part));
  if (hour > 23 || minute > 59 || second > 59 || awayHours > 23 || awayMinutes > 59) return null;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  // The thirtieth of February is the first or second of March there.
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null;
  const away = (awayHours * 60 + awayMinutes) * (parts[7] === "-" ? -60 : 60);
  return date.getTime() / 1000 + hour * 3600 + minute * 60 + second - away;
}
