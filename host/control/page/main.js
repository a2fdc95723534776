// The page: who is signed in, which view is shown, and what can be done by keys.

import { html, render, useEffect, useReducer, useRef, useState } from './preact.js';
import { line, moment, span } from './format.js';
import { Engine } from './engine.js';
import { Letters } from './letters.js';
import { Logs } from './logs.js';
import { Dialog, typed } from './parts.js';
import { Playground } from './playground.js';
import { Slots } from './slots.js';
import { Stream } from './stream.js';
import { BEHIND_KEYS, changed, follow, signIn, signOut, store, subscribe, takeToken, tryNow } from './store.js';

const VIEWS = [
  ['stream', 'Stream', Stream],
  ['slots', 'Slots', Slots],
  ['dead-letters', 'Dead letters', Letters],
  ['engine', 'Engine', Engine],
  ['logs', 'Logs', Logs],
  ['playground', 'Playground', Playground],
];
/** Those of somebody who can change nothing, too. */
const views = () => VIEWS.filter(([view]) => view !== 'playground' || !store.status?.read_only);
const keysOfPage = () => [
  ...views().map(([, title], at) => [String(at + 1), title]),
  ['/', 'Find: the filter of a view'],
  ['t', 'Light, dark, or as the system has it'],
  ['?', 'These keys'],
  ['Esc', 'Close what is open'],
];
const THEMES = ['system', 'light', 'dark'];
const SILENT = 3000;

const kept = {
  get: (name) => {
    try {
      return localStorage.getItem(`tidegate-${name}`);
    } catch {
      return null;
    }
  },
  set: (name, value) => {
    try {
      localStorage.setItem(`tidegate-${name}`, value);
    } catch {
      // What is not kept holds for this visit.
    }
  },
};

/** `#/slots/redact?x=y`: the view, what in it, and how. */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [view, ...rest] = path.split('/');
  let what = rest.join('/');
  try {
    what = decodeURIComponent(what);
  } catch {
    // It is no name then, and nothing has it.
  }
  return { view, what, query: new URLSearchParams(query || '') };
}

function applyTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function App() {
  const [, again] = useReducer((number) => number + 1, 0);
  const [at, setAt] = useState(route());
  const [theme, setTheme] = useState(kept.get('theme') || 'system');
  const [keys, setKeys] = useState(kept.get('keys') !== 'off');
  const [help, setHelp] = useState(false);
  const main = useRef(null);

  useEffect(() => subscribe(again), []);
  useEffect(() => {
    const go = () => {
      if (location.hash.startsWith('#token=')) {
        takeToken();
        follow();
      }
      setAt(route());
      main.current?.focus({ preventScroll: true });
    };
    addEventListener('hashchange', go);
    return () => removeEventListener('hashchange', go);
  }, []);
  useEffect(() => applyTheme(theme), [theme]);
  // What the clock alone changes: how long the link is lost.
  useEffect(() => {
    const timer = setInterval(() => (store.link === 'live' ? Date.now() - store.at > SILENT : store.link !== 'signed-out') && changed(), 1000);
    return () => clearInterval(timer);
  }, []);

  // Of the theme as it is then: two presses may come before the first is shown.
  const turn = () => setTheme((now) => {
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    kept.set('theme', next);
    return next;
  });
  useEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys || document.querySelector('dialog[open]')) return;
      if (event.target.closest('input, textarea, select, [contenteditable]')) return;
      const view = views()[Number(event.key) - 1];
      if (view && store.link !== 'signed-out') location.hash = `#/${view[0]}`;
      else if (event.key === '?') setHelp(true);
      else if (event.key === 't') turn();
      else if (event.key === '/') document.getElementById('search')?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  });

  const [name, title, View] = views().find(([view]) => view === at.view) || VIEWS[0];
  const { status } = store;
  useEffect(() => {
    document.title = status ? `${title} · ${line(status.pipeline, 60)} · Tidegate` : 'Tidegate';
  }, [title, status?.pipeline]);

  const tools = html`<div class="tools">
    <button type="button" onClick=${turn} title="Colours: as the system has them, light or dark" aria-keyshortcuts="t">${theme === 'system' ? 'Auto' : theme === 'light' ? 'Light' : 'Dark'}</button>
    <button type="button" onClick=${() => setHelp(true)} title="Keys" aria-keyshortcuts="?"><span aria-hidden="true">?</span><span class="hidden">Keys</span></button>
    ${store.link !== 'signed-out' && html`<button type="button" onClick=${() => signOut()}>Sign out</button>`}
  </div>`;
  const more = help && html`<${Help} keys=${keys} setKeys=${(is) => {
    kept.set('keys', is ? 'on' : 'off');
    setKeys(is);
  }} onClose=${() => setHelp(false)} />`;

  if (store.link === 'signed-out') {
    return html`<header class="top"><${Brand} />${tools}</header><main class="sign-in" ref=${main} tabindex="-1"><${SignIn} /></main>${more}`;
  }
  const isOld = store.link !== 'live' || Date.now() - store.at > SILENT;
  return html`
    <a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      main.current.focus();
    }}>To the content</a>
    <header class="top">
      <${Brand} status=${status} />
      <${Link} />
      ${tools}
    </header>
    <nav aria-label="Views"><ul>${views().map(([view, title], index) => html`<li>
      <a href=${`#/${view}`} aria-current=${view === name ? 'page' : null} aria-keyshortcuts=${keys ? String(index + 1) : null}>${title}${view === 'dead-letters'
        && status?.records.dead > 0 ? html` <span class="badge" aria-hidden="true">${status.records.dead > 999 ? '999+' : status.records.dead}</span>` : ''}</a></li>`)}</ul></nav>
    <${Banner} />
    <main id="main" ref=${main} tabindex="-1" class=${status && isOld ? 'old' : ''}>
      <${View} slot=${at.what} stage=${at.query.get('stage') || ''} />
    </main>
    <${Spoken} />
    ${more}`;
}

function Brand({ status }) {
  const states = { starting: ['warn', 'starting'], running: ['good', 'running'], draining: ['warn', 'draining'] };
  const [tone, word] = states[status?.state] || [];
  return html`<div class="brand">
    <svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" />
      <path d="M5 12c3.7 0 3.7 3 7.3 3s3.700-3 7.400-3 3.600 3 7.300 3M5 19c3.700 0 3.700 3 7.300 3s3.700-3 7.400-3 3.600 3 7.300 3" /></svg>
    <div><strong>${status ? line(status.pipeline, 60) : 'Tidegate'}</strong>
      ${status && html`<span class="since"><span class=${`chip ${tone}`}>${word}</span> for ${span(status.uptime_seconds)}</span>`}</div>
  </div>`;
}

/** Whether what is shown is of now. */
function Link() {
  const [tone, word] = store.link === 'live'
    ? Date.now() - store.at > SILENT ? ['warn', 'waiting'] : ['good', 'live']
    : store.status ? ['bad', 'lost'] : ['warn', 'connecting'];
  return html`<span class=${`link ${tone}`}><span class="dot" aria-hidden="true"></span>${word}</span>`;
}

function Banner() {
  const { link, status } = store;
  if (link === 'refused') {
    return html`<div class="notice bad banner" role="region" aria-label="The connection"><div><p><strong>The connection is lost</strong>${' '}
      since ${moment(store.lostAt)}. ${line(store.refused, 300)} What is shown is of ${moment(store.at)}.</p>
      <${Again} /></div></div>`;
  }
  if (link !== 'live' && store.lostWhy) {
    const age = status ? ` What is shown is of ${moment(store.at)}.` : '';
    const wait = Math.max(0, Math.ceil((store.nextTry - Date.now()) / 1000));
    return html`<div class="notice bad banner" role="region" aria-label="The connection"><p><strong>${status ? 'The connection is lost' : 'No connection'}</strong>
      ${store.lostAt ? ` since ${span((Date.now() - store.lostAt) / 1000)}` : ''}. ${line(store.lostWhy, 300)}${age}
      ${' '}${wait > 0 ? `The next try is in ${wait} s.` : 'Trying again …'}</p>
      <button type="button" onClick=${tryNow}>Try now</button></div>`;
  }
  return null;
}

/** Signs in while what was known stays on the screen. */
function Again() {
  const [token, setToken] = useState('');
  return html`<form class="again" onSubmit=${(event) => {
    event.preventDefault();
    if (token.trim()) signIn(token.trim());
  }}>
    <label>${BEHIND_KEYS ? 'Key' : 'Token'} <input type="password" autocomplete="off" spellcheck="false" value=${token} onInput=${typed(setToken)} /></label>
    <button type="submit" disabled=${!token.trim()}>Sign in</button></form>`;
}

/** What is worth a word to those who do not see it: the link, and a new trouble. */
function Spoken() {
  const said = useRef({ link: '', troubles: 0 });
  const [word, setWord] = useState('');
  const { link, status } = store;
  const number = (status?.troubles || []).filter(({ tone }) => tone === 'bad').length;
  useEffect(() => {
    const was = said.current;
    said.current = { link, troubles: number };
    if (was.link === 'live' && link !== 'live') setWord('The connection is lost.');
    else if (was.link === 'lost' && link === 'live') setWord('Connected again.');
    else if (number > was.troubles) setWord(`Something is wrong: ${number} on the stream's page.`);
  }, [link, number]);
  return html`<p class="hidden" role="status" aria-live="polite">${word}</p>`;
}

function SignIn() {
  const [token, setToken] = useState('');
  const submit = (event) => {
    event.preventDefault();
    if (token.trim()) signIn(token.trim());
  };
  return html`<form class="card" onSubmit=${submit}>
    <h1>Sign in</h1>
    ${store.refused && html`<div class="notice warn" role="alert"><p>${store.refused}</p></div>`}
    ${BEHIND_KEYS ? html`<p>This page shows a running pipeline to those who have a key of its gateway that is for the page. Nothing can be
      changed here.</p>` : html`<p>This page shows a running pipeline to those who know its token. The link to it has the token in it:</p>
    <pre>tidegate page --pipeline pipeline.toml</pre>`}
    <label>${BEHIND_KEYS ? 'Key' : 'Token'} <input type="password" autocomplete="off" spellcheck="false" value=${token} onInput=${typed(setToken)} /></label>
    <button type="submit" class="strong" disabled=${!token.trim()}>Sign in</button>
    <p class="note">It is kept until this tab is closed, and goes to this address alone.</p>
  </form>`;
}

function Help({ keys, setKeys, onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <dl class="keys">${keysOfPage().map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}
      <div><dt><kbd>Tab</kbd></dt><dd>Go through everything, in the order in which it is read</dd></div></dl>
    <label class="check"><input type="checkbox" checked=${keys} onChange=${(event) => setKeys(event.currentTarget.checked)} />
      Single keys do this</label>
  <//>`;
}

applyTheme(kept.get('theme') || 'system');
const token = takeToken();
if (token) follow();
render(html`<${App} />`, document.getElementById('app'));
