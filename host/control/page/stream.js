// The stream at a glance: figures, what is wrong, the graph, and its stages as a table.

import { html, useEffect, useState } from './preact.js';
import { Graph, fullShare, fullness } from './draw.js';
import { bytes, count, line, percent, rate, span, time, visible } from './format.js';
import { Bar, Chip, Empty, Figure, Loading, Table } from './parts.js';
import { bySecond, past, rateOf, store } from './store.js';

/** Where something is that is wrong, if a view shows it. */
function target({ kind, name }, status) {
  if (kind === 'stage' && status.slots.some((slot) => slot.slot === name)) return `#/slots/${encodeURIComponent(name)}`;
  return kind === 'stage' || kind === 'model' ? '#/engine' : null;
}

export function Stream() {
  const { status } = store;
  const isTall = useNarrow();
  if (!status) return html`<${Loading}>Waiting for the first word of the host …<//>`;
  return html`
    <h1 class="hidden">Stream</h1>
    <${Figures} status=${status} />
    <${Troubles} status=${status} />
    <${Progress} work=${status.progress || []} />
    <section aria-labelledby="graph-title">
      <h2 id="graph-title">Pipeline</h2>
      ${status.graph?.nodes?.length
        ? html`<${Graph} isTall=${isTall} />`
        : html`<${Empty} title="This host does not say how its pipeline looks" />`}
    </section>
    <section aria-labelledby="stages-title">
      <h2 id="stages-title">Stages</h2>
      <${Stages} stages=${status.stages || []} state=${status.state} />
    </section>`;
}

function useNarrow() {
  const [query] = useState(() => matchMedia('(max-width: 760px)'));
  const [is, set] = useState(query.matches);
  useEffect(() => {
    const look = () => set(query.matches);
    query.addEventListener('change', look);
    return () => query.removeEventListener('change', look);
  }, []);
  return is;
}

function Figures({ status }) {
  const { records } = status;
  const dead = rateOf((s) => s.dead);
  return html`<dl class="figures" aria-label="Figures">
    <${Figure} name="Read" value=${rate(rateOf((s) => s.in))} unit="/s" values=${bySecond((s) => s.in)}
      more=${`${count(records.in)} in all`} />
    <${Figure} name="Written" value=${rate(rateOf((s) => s.out))} unit="/s" values=${bySecond((s) => s.out)}
      more=${`${count(records.out)} in all`} />
    <${Figure} name="In flight" value=${count(records.in_flight)} values=${past((s) => s.inFlight)}
      more=${records.dropped ? `${count(records.dropped)} dropped` : 'none dropped'} />
    <${Figure} name="Latency p99" value=${time(status.latency_ms.p99)} values=${past((s) => s.p99)}
      more=${`p50 ${time(status.latency_ms.p50)}, since the start`} />
    <${Figure} name="Dead letters" value=${rate(dead)} unit="/s" values=${bySecond((s) => s.dead)} tone="bad"
      more=${html`<a href="#/dead-letters">${count(records.dead)} in all</a>`} />
    ${(status.models?.length > 0 || status.tokens > 0) && html`
      <${Figure} name="Tokens" value=${rate(status.tokens_per_second)} unit="/s" values=${bySecond((s) => s.tokens)}
        more=${`${count(status.tokens)} in all`} />`}
    ${status.gateway && html`
      <${Figure} name="Requests" value=${rate(rateOf((s) => s.answered))} unit="/s" values=${bySecond((s) => s.answered)}
        more=${`${count(status.gateway.waiting)} waiting`} />`}
  </dl>`;
}

function Troubles({ status }) {
  const found = status.troubles || [];
  if (!found.length) return null;
  return html`<section aria-label="What is wrong"><ul class="troubles">
    ${found.map(({ tone, text, where }) => html`<li class=${`notice ${tone}`}>
      <p>${line(text, 600)}</p>${target(where, status) && html`<a href=${target(where, status)}>Look</a>`}</li>`)}
  </ul></section>`;
}

function Progress({ work }) {
  if (!work.length) return null;
  const amount = (unit) => (number) => (unit.startsWith('bytes') ? bytes(number) : `${count(number)} ${unit}`);
  return html`<section aria-labelledby="progress-title">
    <h2 id="progress-title">Under way</h2>
    <ul class="progress">${work.map((one) => {
      const shown = amount(one.unit);
      return html`<li>
        <span><strong>${visible(one.kind)}</strong> ${line(one.subject, 80)}</span>
        <span class="figures-of">${shown(one.done)}${one.of ? ` of ${shown(one.of)}` : ''}, ${span(one.seconds)}</span>
        ${one.of ? html`<progress max=${one.of} value=${Math.min(one.done, one.of)} aria-label=${`${one.kind} ${one.subject}`}></progress>`
          : html`<progress aria-label=${`${one.kind} ${one.subject}`}></progress>`}
      </li>`;
    })}</ul></section>`;
}

const HEAD = [
  ['Stage', ''], ['In', 'number'], ['Out', 'number'], ['Waiting', ''], ['Full', 'number'], ['p50', 'number'],
  ['p99', 'number'], ['Dropped', 'number'], ['Dead', 'number'], ['Retried', 'number'],
];

function Stages({ stages, state }) {
  if (!stages.length) {
    return state === 'starting'
      ? html`<${Loading}>The stages begin when the models are there …<//>`
      : html`<${Empty} title="No stages">Records go from sources to sinks as they are.<//>`;
  }
  return html`<${Table} label="All stages" head=${HEAD}>
    ${stages.map((stage) => {
      const name = encodeURIComponent(stage.name);
      const waiting = stage.inbox + stage.waiting;
      const share = fullShare(stage.name);
      return html`<tr key=${stage.name}>
        <th scope="row">${stage.kind === 'operator'
          ? html`<a href=${`#/slots/${name}`}>${line(stage.name, 40)}</a>`
          : html`<a href="#/engine">${line(stage.name, 40)}</a> <${Chip}>${line(stage.model || 'model', 24)}<//>`}</th>
        <td class="number">${rate(rateOf((s) => s.stages.get(stage.name)?.in))}/s</td>
        <td class="number">${rate(rateOf((s) => s.stages.get(stage.name)?.out))}/s</td>
        <td class="waits">${count(waiting)}${stage.limit > 0 && html` <span class="unit">of ${count(stage.limit)}</span>
          <${Bar} value=${waiting} of=${stage.limit} label=${percent(fullness(stage))} />`}</td>
        <td class="number">${share >= 0.005 ? percent(share) : '–'}</td>
        <td class="number">${time(stage.time_ms?.p50)}</td>
        <td class="number">${time(stage.time_ms?.p99)}</td>
        <td class="number">${count(stage.dropped)}</td>
        <td class="number">${stage.dead > 0
          ? html`<a href=${`#/dead-letters?stage=${name}`}>${count(stage.dead)}</a>` : '0'}</td>
        <td class="number">${count(stage.retried)}</td>
      </tr>`;
    })}
  <//>
  <p class="note">Rates are of the last four seconds; p50 and p99 of calls in the last ten. Counts begin with the program.
  Full: how much of the time the stage, or one behind it, took no more.</p>`;
}
