// What the operator of a slot says: followed for as long as somebody looks.

import { html, useEffect, useRef, useState } from './preact.js';
import { count, line, moment, visible } from './format.js';
import { Empty, Failure, Loading, typed } from './parts.js';
import { askJson, seen, store } from './store.js';

/** Lines that are kept here. */
const KEPT = 2000;
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];

export function Logs({ slot: meant }) {
  const slots = (store.status?.slots || []).map((one) => one.slot);
  const slot = meant || slots[0];
  if (!store.status) return html`<${Loading} />`;
  return html`<h1>Logs</h1>
    ${slots.length === 0
      ? html`<${Empty} title="No slots">Only stages that run a component have a log of their own.<//>`
      : html`<${Follow} key=${slot} slot=${slot} slots=${slots} />`}`;
}

function Follow({ slot, slots }) {
  const [lines, setLines] = useState(null);
  const [missed, setMissed] = useState(0);
  const [failure, setFailure] = useState('');
  const [stays, setStays] = useState(false);
  const [least, setLeast] = useState('trace');
  const [text, setText] = useState('');
  const box = useRef(null);
  const next = useRef(0);

  useEffect(() => {
    let isGone = false;
    let timer;
    const look = async () => {
      await seen();
      if (isGone) return;
      try {
        const answer = await askJson(`v1/slots/${encodeURIComponent(slot)}/logs?after=${next.current}`);
        if (isGone) return;
        // A host that has begun anew counts from the start again.
        if (answer.next < next.current) next.current = 0;
        else {
          next.current = answer.next;
          setLines((known) => [...(known || []), ...answer.lines.map(entry)].slice(-KEPT));
          setMissed((known) => known + answer.missed);
        }
        setFailure('');
      } catch (error) {
        if (!isGone) setFailure(error.message);
      }
      if (!isGone) timer = setTimeout(look, 1000);
    };
    if (!stays) look();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [slot, stays]);

  useEffect(() => {
    const { current } = box;
    if (current && !stays) current.scrollTop = current.scrollHeight;
  }, [lines, stays]);

  const from = LEVELS.indexOf(least);
  const wanted = text.toLowerCase();
  const shown = (lines || []).filter((one) => LEVELS.indexOf(one.level) >= from
    && (!wanted || one.lower.includes(wanted)));
  return html`
    <form class="filters" onSubmit=${(event) => event.preventDefault()} role="search">
      <label>Slot <select value=${slot} onChange=${typed((name) => {
        location.hash = `#/logs/${encodeURIComponent(name)}`;
      })}>${slots.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      <label>From <select value=${least} onChange=${typed(setLeast)}>
        ${LEVELS.map((level) => html`<option value=${level}>${level}</option>`)}</select></label>
      <label class="grows">Text <input type="search" id="search" value=${text} maxlength="200" onInput=${typed(setText)} /></label>
      <label class="check"><input type="checkbox" checked=${!stays} onChange=${(event) => setStays(!event.currentTarget.checked)} /> Follow</label>
    </form>
    ${failure && html`<${Failure}>${visible(failure)}<//>`}
    ${lines === null ? !failure && html`<${Loading} />`
      : lines.length === 0 ? html`<${Empty} title="Nothing was said so far">
          What the operator logs, and what it writes to its output, is kept here: the last lines of the slot.<//>`
      : html`
        ${missed > 0 && html`<p class="note">${count(missed)} lines are not shown: they were gone, or said too fast.</p>`}
        <div class="log" ref=${box} tabindex="0" role="log" aria-live="off" aria-label=${`Log of ${slot}`}>
          ${shown.map((one) => one.drawn)}
          ${shown.length === 0 && html`<p class="note">None of ${count(lines.length)} lines matches.</p>`}
        </div>`}`;
}

/** A line with all that is ever made of it, once: thousands of them are drawn with each look. */
function entry({ number, at, level, text }) {
  const drawn = html`<div key=${number} class=${`entry ${level}`}>
    <time>${moment(at)}</time><span class="level">${level}</span><span class="text">${line(text, 4200)}</span>
  </div>`;
  return { level, lower: text.toLowerCase(), drawn };
}
