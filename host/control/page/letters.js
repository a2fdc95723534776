// Dead letters: to browse, to filter, to open, and to send again.

import { html, useEffect, useRef, useState } from './preact.js';
import { bytes, count, line, moment, visible } from './format.js';
import { Chip, Dialog, Empty, Failure, Loading, Long, typed } from './parts.js';
import { askJson, postJson, store } from './store.js';

/** Most letters that one request sends. */
const MOST = 1000;
const NOWHERE = { looked: 0, reached: null };

export function Letters({ stage: meant }) {
  const [filter, setFilter] = useState({ stage: meant || '', text: '' });
  const [letters, setLetters] = useState(null);
  const [page, setPage] = useState({ next: null, place: '', unavailable: null });
  /** How far back was looked since the last letter was found: when it was, and how many. */
  const [far, setFar] = useState(NOWHERE);
  const [failure, setFailure] = useState('');
  const [busy, setBusy] = useState(false);
  const [chosen, setChosen] = useState(new Set());
  const [opened, setOpened] = useState(null);
  const [results, setResults] = useState(null);
  const deadThen = useRef(0);
  const [looking, setLooking] = useState(false);
  const asked = useRef(0);
  /** When letters were sent here. What was asked for before says nothing of it. */
  const marks = useRef(new Map());

  async function load(from, wanted) {
    asked.current += 1;
    const mine = asked.current;
    setBusy(true);
    setLooking(true);
    setFailure('');
    setFar(NOWHERE);
    if (!from) {
      deadThen.current = store.status?.records.dead ?? 0;
      setChosen(new Set());
    }
    try {
      let answer;
      let before = from;
      let looked = 0;
      // Page after page, however far back: who has seen enough stops it.
      for (;;) {
        const query = new URLSearchParams({ limit: '50' });
        if (before) query.set('before', before);
        if (wanted.stage) query.set('stage', wanted.stage);
        if (wanted.text) query.set('text', wanted.text);
        answer = await askJson(`v1/dead-letters?${query}`);
        if (mine !== asked.current) return;
        before = answer.next;
        looked += answer.looked || 0;
        setPage(answer);
        setFar((known) => ({ looked, reached: answer.reached || known.reached }));
        if (answer.letters.length || !before) break;
        if (!from) setLetters([]);
      }
      const found = answer.letters.map((letter) => (!letter.sent && marks.current.has(letter.id)
        ? { ...letter, sent: marks.current.get(letter.id) } : letter));
      setLetters((known) => (from ? [...(known || []), ...found] : found));
    } catch (error) {
      if (mine === asked.current) setFailure(error.message);
    } finally {
      if (mine === asked.current) stop();
    }
  }

  function stop() {
    asked.current += 1;
    setLooking(false);
    setBusy(false);
  }
  useEffect(() => stop, []);

  useEffect(() => {
    const wanted = { ...filter, stage: meant || '' };
    setFilter(wanted);
    load(null, wanted);
  }, [meant]);

  async function send(ids, withoutPrivate = false) {
    setBusy(true);
    setFailure('');
    try {
      const answer = await (await postJson('v1/dead-letters/send', withoutPrivate ? { ids, without_private: true } : { ids })).json();
      setResults(answer.results);
      const said = new Map(answer.results.map((one) => [one.id, one]));
      for (const [id, one] of said) {
        if (one.state === 'sent') marks.current.set(id, { at: new Date().toISOString(), record: '' });
      }
      setLetters((known) => known?.map((letter) => (!letter.sent && marks.current.has(letter.id)
        ? { ...letter, sent: marks.current.get(letter.id) } : letter)));
      setChosen(new Set());
    } catch (error) {
      setFailure(error.message);
    } finally {
      setBusy(false);
    }
  }

  const choose = (id, is) => setChosen((known) => {
    const next = new Set(known);
    if (is && next.size < MOST) next.add(id);
    else next.delete(id);
    return next;
  });
  const readOnly = store.status?.read_only;
  const sendable = (letters || []).filter(canBeSent);
  const all = sendable.length > 0 && sendable.every((letter) => chosen.has(letter.id));
  const more = store.status ? Math.max(0, store.status.records.dead - deadThen.current) : 0;
  const stages = [...(store.status?.stages || []).map((stage) => stage.name), 'decode'];
  const submit = (event) => {
    event.preventDefault();
    load(null, filter);
  };

  return html`<h1>Dead letters</h1>
    ${page.place && html`<p class="lead">The newest first, of ${line(page.place, 200)}.</p>`}
    <form class="filters" onSubmit=${submit} role="search">
      <label>Stage <select value=${filter.stage} onChange=${(event) => {
        const next = { ...filter, stage: event.currentTarget.value };
        setFilter(next);
        load(null, next);
      }}>
        <option value="">all</option>
        ${stages.map((stage) => html`<option value=${stage}>${stage}</option>`)}
      </select></label>
      <label class="grows">Text in the reason
        <input type="search" id="search" value=${filter.text} maxlength="200"
          onInput=${typed((text) => setFilter({ ...filter, text }))} /></label>
      <button type="submit" disabled=${busy}>Find</button>
      ${more > 0 && html`<button type="button" class="plain" onClick=${() => load(null, filter)}>
        ${count(more)} new: load them</button>`}
    </form>
    ${failure && html`<${Failure} again=${() => load(null, filter)}>${visible(failure)}<//>`}
    ${results && html`<${Results} results=${results} isBusy=${busy} onClose=${() => setResults(null)}
      sendWithout=${(ids) => send(ids, true)} />`}
    ${letters === null ? !failure && html`<${Loading}>Reading the newest letters …<//>`
      : page.unavailable ? html`<${Empty} title="These cannot be browsed">${visible(page.unavailable)}<//>`
      : letters.length === 0 ? html`<${Nothing} is=${filter.stage || filter.text} isBusy=${looking} next=${page.next} far=${far} />`
      : html`
        ${!readOnly && html`<div class="actions">
          <label><input type="checkbox" checked=${all} onChange=${(event) => setChosen(event.currentTarget.checked
            ? new Set(sendable.slice(0, MOST).map((letter) => letter.id)) : new Set())} /> All ${count(letters.length)} shown${
            sendable.length < letters.length && `, ${count(sendable.length)} can be sent again`}</label>
          <button type="button" class="strong" disabled=${busy || chosen.size === 0}
            onClick=${() => send([...chosen])}>Send ${chosen.size > 0 ? `${count(chosen.size)} ` : ''}again</button>
        </div>`}
        <ul class="letters">${letters.map((letter) => html`<${Letter} key=${letter.id} letter=${letter}
          isChosen=${chosen.has(letter.id)} choose=${readOnly ? null : choose} open=${() => setOpened(letter)} />`)}</ul>`}
    ${letters !== null && page.next && html`<p class="after">${looking
      ? html`<button type="button" onClick=${stop}>Stop looking</button>`
      : html`<button type="button" disabled=${busy} onClick=${() => load(page.next, filter)}>${letters.length ? 'Load older ones' : 'Look further back'}</button>`}
      ${letters.length > 0 && looking && far.looked > 0 && html` <span class="unit">${lookedAt(far)}</span>`}</p>`}
    ${opened && html`<${Opened} letter=${opened} onClose=${() => setOpened(null)} send=${readOnly ? null : (id) => {
      setOpened(null);
      send([id]);
    }} />`}`;
}

/** That nothing is there, as far as was looked. */
function Nothing({ is, isBusy, next, far }) {
  if (!is && !next) return html`<${Empty} title="No dead letters">Every record has got through so far.<//>`;
  if (!next) return html`<${Empty} title="None matches">All ${count(far.looked)} were looked at. Take another stage or text.<//>`;
  return html`<${Empty} title="None so far">${lookedAt(far)}${isBusy ? ', and further back now …' : '. Older ones were not looked at.'}<//>`;
}

function lookedAt({ looked, reached }) {
  return `${count(looked)} were looked at${reached ? `, back to ${moment(reached)}` : ''}`;
}

function canBeSent(letter) {
  return !letter.unsendable && !letter.sent;
}

function State({ letter }) {
  if (letter.sent) return html`<${Chip} tone="good">sent again ${moment(letter.sent.at)}<//>`;
  if (letter.unsendable) return html`<${Chip}>cannot be sent<//>`;
  return null;
}

function Letter({ letter, isChosen, choose, open }) {
  const value = letter.value ?? letter.value_base64 ?? '';
  return html`<li class="letter">
    ${choose && html`<input type="checkbox" checked=${isChosen} disabled=${!canBeSent(letter)}
      aria-label=${`Choose ${line(letter.id, 120)}`} onChange=${(event) => choose(letter.id, event.currentTarget.checked)} />`}
    <button type="button" class="open" onClick=${open}>
      <span class="when">${letter.at ? moment(letter.at) : '–'}</span>
      <${Chip} tone="warn">${line(letter.stage, 40)}<//>
      <span class="reason">${line(letter.reason, 300)}</span>
      <span class="value">${line(letter.key ?? letter.key_base64 ?? '', 40)}${' '}${line(value, 160)}</span>
      <span class="state"><span class="unit">${bytes(letter.length)}</span> <${State} letter=${letter} /></span>
    </button></li>`;
}

function Opened({ letter: listed, onClose, send }) {
  const [letter, setLetter] = useState(null);
  const [failure, setFailure] = useState('');
  useEffect(() => {
    let isGone = false;
    askJson(`v1/dead-letters/${listed.id.split('/').map(encodeURIComponent).join('/')}`)
      .then((whole) => !isGone && setLetter(whole), (error) => !isGone && setFailure(error.message));
    return () => {
      isGone = true;
    };
  }, [listed.id]);
  const shown = letter || listed;
  const fact = (name, value) => value != null && value !== '' && html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<${Dialog} title="Dead letter" onClose=${onClose}>
    ${failure && html`<${Failure}>${visible(failure)}<//>`}
    <p class="reason">${visible(shown.reason)}</p>
    <dl class="facts">
      ${fact('Stage', line(shown.stage, 80))}
      ${fact('Died', shown.at && moment(shown.at))}
      ${fact('Record', line(`${shown.source}/${shown.partition}/${shown.offset}`, 120))}
      ${fact('Input', shown.input && line(shown.input, 200))}
      ${fact('Attempts', shown.attempts)}
      ${fact('Event time', shown.event_time)}
      ${fact('Key', line(shown.key ?? shown.key_base64 ?? '', 400))}
      ${fact('Sent from', shown.sent_from && line(shown.sent_from, 200))}
      ${fact('Private', shown.private ? `${count(shown.private)} attributes, ${shown.private_kept
        ? 'sealed in the letter: the record has them when it is sent again' : 'which are not in the letter'}` : '')}
      ${fact('Became', shown.sent?.record && line(shown.sent.record, 200))}
    </dl>
    ${shown.unsendable && html`<p class="note">It cannot be sent again: ${visible(shown.unsendable)}</p>`}
    <h3>Value <span class="unit">${bytes(shown.length)}${shown.value_base64 != null ? ', no text: as Base64' : ''}</span></h3>
    ${letter === null && !failure ? html`<${Loading} />`
      : html`<${Long} label="Value" text=${shown.value ?? shown.value_base64 ?? ''} />`}
    ${shown.headers?.length > 0 && html`<h3>Headers</h3><dl class="facts wide">${shown.headers.map((header) => html`
      <div><dt>${line(header.name, 120)}</dt><dd>${line(header.value ?? header.value_base64 ?? '', 1000)}</dd></div>`)}</dl>`}
    ${shown.backtrace && html`<h3>Backtrace</h3><${Long} label="Backtrace" text=${shown.backtrace} />`}
    <footer>${shown.sent ? html`<${State} letter=${shown} />`
      : send && html`<button type="button" class="strong" disabled=${!canBeSent(shown)} onClick=${() => send(shown.id)}>Send again</button>`}
      <code class="id">${line(shown.id, 300)}</code></footer>
  <//>`;
}

/** What became of letters, and, of those that would go without what was private to their records, whether they shall. */
function Results({ results, isBusy, onClose, sendWithout }) {
  const number = (state) => results.filter((one) => one.state === state).length;
  const open = results.filter((one) => !['sent', 'already'].includes(one.state));
  const without = results.filter((one) => one.without_private).map((one) => one.id);
  const said = [[number('sent'), 'sent again'], [number('already'), 'sent before'], [number('refused'), 'refused'],
    [number('unknown'), 'sent or not, which sending them once more tells'], [number('unreached'), 'not reached in time']];
  return html`<div class=${`notice ${open.length ? 'warn' : 'good'}`} role="status">
    <div><p>${said.filter(([count]) => count).map(([many, what]) => `${count(many)} ${what}`).join(', ')}.</p>
      ${open.length > 0 && html`<ul>${open.slice(0, 10).map((one) => html`<li>
        <code>${line(one.id, 120)}</code>: ${line(one.why || '', 300)}</li>`)}</ul>`}
      ${without.length > 0 && html`<p>${count(without.length)} had private attributes that cannot be had again. An answer keeps
        the placeholders of what was redacted. Shall ${without.length === 1 ? 'it' : 'they'} go without?
        <button type="button" disabled=${isBusy} onClick=${() => sendWithout(without)}>Send without them</button></p>`}</div>
    <button type="button" onClick=${onClose}>Close</button></div>`;
}
