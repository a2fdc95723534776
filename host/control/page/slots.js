// Slots with what they run, and what was deployed.

import { html, useEffect } from './preact.js';
import { bytes, count, line, moment, short, span } from './format.js';
import { Chip, Empty, Loading, Table } from './parts.js';
import { store } from './store.js';

const HEAD = [
  ['Revision', ''], ['Version', ''], ['State', ''], ['Records', 'number'], ['Outcomes', ''], ['Failed', 'number'],
  ['Lost', 'number'], ['Guest time', 'number'], ['Memory', 'number'],
];

export function Slots({ slot }) {
  const { status } = store;
  useEffect(() => {
    if (slot) document.getElementById(`slot-${slot}`)?.scrollIntoView({ block: 'start' });
  }, [slot, !status]);
  if (!status) return html`<${Loading} />`;
  return html`<h1>Slots</h1>
    ${status.slots.length === 0 && (status.state === 'starting'
      ? html`<${Loading}>The operators begin when the models are there …<//>`
      : html`<${Empty} title="No slots">This pipeline has no stage that runs a component.<//>`)}
    ${status.slots.map((one) => html`<${Slot} key=${one.slot} slot=${one} isMeant=${one.slot === slot} />`)}
    <section aria-labelledby="deployments-title"><h2 id="deployments-title">Deployments</h2>
      <${Deployments} deployments=${status.deployments || []} /></section>`;
}

function Slot({ slot, isMeant }) {
  const name = encodeURIComponent(slot.slot);
  return html`<section class=${`card ${isMeant ? 'meant' : ''}`} id=${`slot-${slot.slot}`} aria-label=${`Slot ${slot.slot}`}>
    <header>
      <h2>${line(slot.slot, 60)}</h2>
      <p>${line(slot.name, 60)} ${line(slot.version, 30)} <code title=${slot.digest}>${short(slot.digest)}</code>
        ${slot.label && html` <${Chip}>${line(slot.label, 80)}<//>`}</p>
      <p class="links"><a href=${`#/logs/${name}`}>Logs</a> <a href=${`#/dead-letters?stage=${name}`}>Dead letters</a></p>
    </header>
    ${slot.trouble && html`<div class="notice bad"><p><strong>Cannot answer for ${span(slot.trouble.seconds)}</strong>
      in ${slot.trouble.tasks} ${slot.trouble.tasks === 1 ? 'task' : 'tasks'}; its records wait, and it is tried again:
      ${line(slot.trouble.reason, 1000)}</p></div>`}
    <dl class="facts">
      <div><dt>In</dt><dd>${count(slot.counters.in)}</dd></div>
      <div><dt>Out</dt><dd>${count(slot.counters.out)}</dd></div>
      <div><dt>Dropped</dt><dd>${count(slot.counters.dropped)}</dd></div>
      <div><dt>Dead</dt><dd>${count(slot.counters.dead)}</dd></div>
      <div><dt>Retried</dt><dd>${count(slot.counters.retried)}</dd></div>
      <div><dt>Generation</dt><dd>${slot.generation}</dd></div>
    </dl>
    <${Table} label=${`Revisions of ${slot.slot}`} head=${HEAD}>
      ${[...slot.revisions].reverse().map((one) => html`<tr key=${one.revision}>
        <th scope="row"><code title=${one.revision}>${short(one.revision)}</code></th>
        <td>${line(one.version, 30)}</td>
        <td>${one.tripped ? html`<${Chip} tone=${slot.open?.revision === one.revision ? 'bad' : 'warn'}>
            ${slot.open?.revision === one.revision ? 'breaker open' : 'failed too often'}<//>`
          : one.runs ? html`<${Chip} tone="good">runs<//>` : html`<${Chip}>before<//>`}</td>
        <td class="number">${count(one.records)}</td>
        <td class="wraps">${Object.entries(one.outcomes).filter(([, number]) => number > 0)
          .map(([outcome, number]) => `${outcome} ${count(number)}`).join(', ') || '–'}
          ${one.tripped && html`<br /><span class="bad-text">${line(one.tripped, 400)}</span>`}</td>
        <td class="number">${count(one.failed)}</td>
        <td class="number">${count(one.lost_instances)}</td>
        <td class="number">${(one.guest_ms / 1000).toFixed(1)} s</td>
        <td class="number">${bytes(one.memory)} <span class="unit">in ${one.instances}</span></td>
      </tr>`)}
    <//></section>`;
}

function Deployments({ deployments }) {
  if (!deployments.length) {
    return html`<${Empty} title="Nothing was deployed since the start">
      <code>tidegate deploy --slot NAME component.wasm</code> puts another version into a slot while the stream runs.<//>`;
  }
  const head = [['When', ''], ['Slot', ''], ['Label', ''], ['Before', ''], ['After', ''], ['Result', '']];
  const version = (one) => html`${line(one.version, 30)} <code title=${one.revision}>${short(one.revision)}</code>`;
  return html`<${Table} label="The last deployments" head=${head}>
    ${deployments.map((one) => html`<tr key=${`${one.at}-${one.slot}`}>
      <td>${moment(one.at)}</td>
      <td>${line(one.slot, 40)}</td>
      <td>${line(one.label, 80) || '–'}</td>
      <td>${version(one.old)}</td>
      <td>${one.new ? version(one.new) : '–'}</td>
      <td class="wraps">${one.refused ? html`<${Chip} tone="bad">refused<//> ${line(one.refused, 600)}`
        : one.fell_back ? html`<${Chip} tone="warn">fell back<//>` : html`<${Chip} tone="good">switched<//>`}</td>
    </tr>`)}
  <//>
  <p class="note">The last twenty since the start, the latest first.</p>`;
}
