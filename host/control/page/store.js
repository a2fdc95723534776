// What the page knows of the host: the token, the status that is followed, and a little of what it was.

const TOKEN = 'tidegate-token';
const BASE = new URL('../', import.meta.url);
/** Whether the gateway shows this page, to those who have a key. */
export const BEHIND_KEYS = BASE.pathname !== '/';
/** Looks that are kept: two minutes. */
const KEPT = 120;
/** Over so many seconds a rate is taken. */
const WINDOW = 4;
/** A host that says nothing for so long is away, milliseconds. */
const SILENCE = 10_000;
/** Between two tries to reach the host, milliseconds. */
const PATIENCE = [500, 1000, 2000, 4000, 5000];

export const store = {
  /** signed-out, connecting, live, lost, refused: lost, and nobody is signed in any more */
  link: 'signed-out',
  /** Why nobody is signed in, if there is something to say. */
  refused: '',
  /** When the link was lost, and why. */
  lostAt: 0,
  lostWhy: '',
  /** When it is tried again. */
  nextTry: 0,
  /** The whole status, or null before the first. */
  status: null,
  /** When it came. */
  at: 0,
  samples: [],
  /** What stands in the fields of the playground. */
  typed: {},
};

const listeners = new Set();

export function subscribe(listener) {
  listeners.add(listener);
  // Something may have changed before it listened: a refusal comes quickly.
  listener();
  return () => listeners.delete(listener);
}

export function changed() {
  for (const listener of listeners) listener();
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    // It is no token then, and the host says so.
    return text;
  }
}

/** Takes the token out of the address, where a link has brought it. */
export function takeToken() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(TOKEN, decoded(found[1]));
    history.replaceState(null, '', `${location.pathname}#/stream`);
  }
  return sessionStorage.getItem(TOKEN);
}

export function signIn(token) {
  sessionStorage.setItem(TOKEN, token);
  // What was known stays, with its time, until something comes; rates of it are none of what comes.
  const lostWhy = store.status ? 'The host has not answered yet.' : '';
  Object.assign(store, { refused: '', lostWhy, nextTry: 0, samples: [] });
  follow();
}

export function signOut(why = '') {
  sessionStorage.removeItem(TOKEN);
  current += 1;
  aborter?.abort();
  Object.assign(store, { link: 'signed-out', refused: why, status: null, samples: [], typed: {} });
  changed();
}

/** The host lets this person in no more: what was known stays, with the time at which it was lost. */
function refuse(why) {
  if (!store.status) return signOut(why);
  sessionStorage.removeItem(TOKEN);
  current += 1;
  aborter?.abort();
  Object.assign(store, { link: 'refused', refused: why, lostAt: store.lostAt || Date.now() });
  changed();
}

/** Whether this token is still the one to ask with: who has signed in anew is not let out by what is said of the one before. */
const isOwn = (token) => (sessionStorage.getItem(TOKEN) || '') === token;

const OTHER_TOKEN = BEHIND_KEYS ? 'The gateway does not know this key.'
  : 'The host does not know this token. It has a new one after each start: ask for the link again with tidegate page.';

/** What takes the host longest, sending many letters again, and a little: milliseconds. */
const LATEST = 125_000;

/** Does something that is given up when it takes too long, or when its own signal says so. */
async function within(patience, own, work) {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), patience);
  try {
    return await work(own ? AbortSignal.any([own, late.signal]) : late.signal);
  } catch (error) {
    if (late.signal.aborted) throw new Error(`The host has not answered within ${patience / 1000} seconds.`);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Asks the admin API. What it refuses is an Error with its words; so is one that does not begin to answer in time. */
export function ask(path, { patience = LATEST, signal = null, ...options } = {}) {
  return within(patience, signal, (either) => asked(path, { ...options, signal: either }));
}

async function asked(path, options) {
  if (store.link === 'refused') throw new Error(store.refused);
  const token = sessionStorage.getItem(TOKEN) || '';
  let answer;
  try {
    answer = await fetch(new URL(path, BASE), {
      ...options,
      headers: { authorization: `Bearer ${token}`, ...options.headers },
      cache: 'no-store',
      credentials: 'omit',
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The host does not answer.');
  }
  if (answer.ok) return answer;
  if (answer.status === 401) {
    if (isOwn(token)) refuse(OTHER_TOKEN);
    throw new Error(OTHER_TOKEN);
  }
  let words = '';
  try {
    const { error } = await answer.json();
    words = error.message || error;
  } catch {
    // It is not one of the host's own answers.
  }
  if (answer.status === 403 && isOwn(token)) {
    refuse(words);
  }
  throw new Error(words || `The host answered ${answer.status}.`);
}

/** The same with the whole answer. */
export function askJson(path, { patience = LATEST, signal = null, ...options } = {}) {
  return within(patience, signal, async (either) => (await ask(path, { ...options, patience, signal: either })).json());
}

export function postJson(path, body, options) {
  return ask(path, {
    method: 'POST',
    body: JSON.stringify(body),
    ...options,
    headers: { 'content-type': 'application/json' },
  });
}

let current = 0;
let aborter = null;
/** The stream was let go of because nobody looks. */
let rests = false;

document.addEventListener('visibilitychange', () => {
  if (!document.hidden || !aborter) return;
  rests = true;
  aborter.abort();
});

/** Waits until somebody looks. */
export async function seen() {
  while (document.hidden) {
    await new Promise((done) => document.addEventListener('visibilitychange', done, { once: true }));
  }
}

/** Follows the host from now on, for as long as somebody is signed in. */
export async function follow() {
  current += 1;
  const mine = current;
  // The stream before it would stay open, unread.
  aborter?.abort();
  let tries = 0;
  store.link = store.status ? 'lost' : 'connecting';
  changed();
  while (mine === current) {
    // A tab that nobody sees costs the host no place, and the browser no connection.
    await seen();
    if (mine !== current) return;
    aborter = new AbortController();
    rests = false;
    let again = false;
    const giveUp = { signal: aborter.signal, patience: SILENCE };
    try {
      const answer = await ask('v1/live', giveUp);
      for await (const [event, data] of events(answer.body.getReader(), aborter)) {
        if (mine !== current) return;
        tries = 0;
        again = event === 'again';
        if (!again) take(event, data);
      }
      // It was told to come again: nothing is lost.
      if (again) continue;
      throw new Error('The host has ended the connection.');
    } catch (error) {
      if (mine !== current) return;
      if (rests) continue;
      if (store.link === 'live' || !store.lostAt) store.lostAt = Date.now();
      store.link = store.status ? 'lost' : 'connecting';
      store.lostWhy = error.message;
    }
    const wait = PATIENCE[Math.min(tries, PATIENCE.length - 1)];
    tries += 1;
    store.nextTry = Date.now() + wait;
    changed();
    await new Promise((done) => {
      wake = done;
      setTimeout(done, wait);
    });
  }
}

let wake = () => {};

/** Does not wait for the next try. */
export function tryNow() {
  wake();
}

/** Server-sent events. A host that says nothing for so long is away. */
export async function* events(reader, aborted, patience = SILENCE) {
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const silence = setTimeout(() => aborted.abort(new Error(`Nothing has come for ${patience / 1000} seconds.`)), patience);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let end;
    while ((end = text.indexOf('\n\n')) >= 0) {
      const lines = text.slice(0, end).split('\n');
      text = text.slice(end + 2);
      const of = (name) => lines.find((line) => line.startsWith(name))?.slice(name.length);
      const data = of('data: ');
      if (data) yield [of('event: '), JSON.parse(data)];
    }
  }
}

function take(event, data) {
  const before = store.status;
  const status = event === 'state' ? data : put(before, data);
  // Another run, whose counts begin anew: what was before is no rate of it.
  if (store.samples.at(-1)?.at > status.uptime_seconds) store.samples = [];
  Object.assign(store, { status, at: Date.now(), link: 'live', lostAt: 0, lostWhy: '' });
  store.samples.push(sample(status));
  if (store.samples.length > KEPT) store.samples.shift();
  changed();
}

/** Puts changes into what was there: see changes.rs. */
export function put(into, change) {
  if (into === null || typeof into !== 'object' || change === null || typeof change !== 'object' || Array.isArray(change)) {
    return change;
  }
  const next = Array.isArray(into) ? [...into] : { ...into };
  for (const [name, value] of Object.entries(change)) {
    // A name that a prototype has is a member like any other.
    Object.defineProperty(next, name, {
      value: put(Object.hasOwn(next, name) ? next[name] : null, value),
      enumerable: true, configurable: true, writable: true,
    });
  }
  return next;
}

/** The counters of a status, so that rates can be made of two. */
function sample(status) {
  const named = (list, name, pick) => new Map((list || []).map((one) => [one[name], pick(one)]));
  const { records } = status;
  return {
    at: status.uptime_seconds,
    in: records.in, out: records.out, dead: records.dead, dropped: records.dropped,
    inFlight: records.in_flight,
    tokens: status.tokens,
    p99: status.latency_ms.p99,
    stages: named(status.stages, 'name', (one) => ({
      in: one.in, out: one.out, dead: one.dead, full: one.full_seconds || 0,
    })),
    edges: (status.graph?.edges || []).map((edge) => edge.records),
    models: named(status.models, 'name', (one) => ({
      tokens: one.tokens, prompt: one.prompt_tokens, answered: one.answered,
    })),
    remote: named(status.remote, 'name', (one) => ({ answered: one.answered, failed: one.failed })),
    answered: status.gateway?.answered || 0,
  };
}

/** How much more of something there was each second, of late. */
export function rateOf(pick) {
  const last = store.samples.at(-1);
  if (!last) return 0;
  const first = store.samples.find((one) => last.at - one.at <= WINDOW) || last;
  return between(first, last, pick);
}

/** The same second by second, the latest last. */
export function bySecond(pick) {
  return store.samples.slice(1).map((one, at) => between(store.samples[at], one, pick));
}

/** What something was second by second. */
export function past(pick) {
  return store.samples.map((one) => pick(one) || 0);
}

function between(first, last, pick) {
  const seconds = last.at - first.at;
  if (seconds <= 0) return 0;
  return Math.max(0, ((pick(last) || 0) - (pick(first) || 0)) / seconds);
}
