// Numbers, times and the text of others, as the page writes them.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

/** A count: 1,234, 56.7k, 8.90M. */
export function count(number) {
  const size = Math.abs(number);
  if (size < 10_000) return whole.format(number);
  const [divisor, unit] = size < 1e6 ? [1e3, 'k'] : size < 1e9 ? [1e6, 'M'] : [1e9, 'G'];
  const value = number / divisor;
  return value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0) + unit;
}

/** A rate, without its unit. */
export function rate(number) {
  if (number > 0 && number < 9.95) return number.toFixed(1);
  return count(Math.round(number));
}

/** Milliseconds with a unit that fits. */
export function time(ms) {
  if (!ms) return '–';
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 100_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return span(ms / 1000);
}

/** Seconds as people say them. */
export function span(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** Bytes with a unit that fits. */
export function bytes(number) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  let value = number;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

/** A share of 1 as a percentage. */
export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** The first digits of a digest. */
export function short(digest) {
  return (digest || '').replace(/^sha256:/, '').slice(0, 12);
}

/** A moment: today's as a time, others with their day. */
export function moment(when) {
  const date = new Date(when);
  if (Number.isNaN(date.getTime())) return '–';
  const two = (number) => String(number).padStart(2, '0');
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date().toDateString()) return clock;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}`;
}

// What moves, turns around or hides text: the table that the host has (plain.rs, which a test holds against this one),
// without line ends and tabs, which stay; and halves of characters.
const DISTURBING = /[\u{0}-\u{8}\u{b}-\u{1f}\u{7f}-\u{9f}\u{ad}\u{34f}\u{61c}\u{115f}-\u{1160}\u{17b4}-\u{17b5}\u{180e}\u{200b}\u{200e}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{2064}\u{2066}-\u{206f}\u{3164}\u{feff}\u{ffa0}\u{fff9}-\u{fffb}\u{e0000}-\u{e007f}\p{Cs}]/gu;

/** Text of others with everything in it visible. It is shown as text, never as markup. */
export function visible(text) {
  return String(text).replace(DISTURBING, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}

/** The same on one line, of so many characters at most. */
export function line(text, limit = 200) {
  const cut = String(text).slice(0, limit + 1);
  const shown = visible(cut.slice(0, limit)).replace(/\s*[\r\n]+\s*/g, ' ⏎ ');
  return cut.length > limit ? `${shown}…` : shown;
}
