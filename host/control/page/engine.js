// Models here and elsewhere, and the gateway.

import { html } from './preact.js';
import { bytes, count, line, percent, rate, short, span } from './format.js';
import { Bar, Chip, Empty, Figure, Loading, Table } from './parts.js';
import { bySecond, rateOf, store } from './store.js';

export function Engine() {
  const { status } = store;
  if (!status) return html`<${Loading} />`;
  const models = status.models || [];
  const remote = status.remote || [];
  return html`<h1>Engine</h1>
    ${status.adapter && html`<p class="lead">Models run on ${line(status.adapter, 120)}.</p>`}
    ${models.length + remote.length === 0 && html`<${Empty} title="No models">No stage of this pipeline asks one.<//>`}
    ${models.map((model) => html`<${Model} key=${model.name} model=${model} state=${status.state} />`)}
    ${remote.length > 0 && html`<section aria-labelledby="remote-title">
      <h2 id="remote-title">Models of other servers</h2><${Remote} models=${remote} /></section>`}
    ${status.gateway && html`<section aria-labelledby="gateway-title"><h2 id="gateway-title">Gateway</h2>
      <${Gateway} gateway=${status.gateway} /></section>`}`;
}

function Model({ model, state }) {
  const of = (pick) => (sample) => pick(sample.models.get(model.name) || {});
  const tokens = of((one) => one.tokens);
  const prompt = of((one) => one.prompt);
  const answered = of((one) => one.answered);
  const loading = !model.loaded && state === 'starting';
  const held = model.blocks > 0;
  return html`<section class="card" aria-label=${`Model ${model.name}`}>
    <header><h2>${line(model.name, 60)}</h2>
      <p>${model.loaded && model.away ? html`<${Chip} tone="bad">away, requests wait<//>`
        : model.loaded ? html`<${Chip} tone="good">loaded<//>`
        : loading ? html`<${Chip} tone="warn">is being loaded<//>` : html`<${Chip} tone=${toneOf(model.name, 'warn')}>not loaded<//>`}
        ${' '}<code title=${model.digest}>${short(model.digest)}</code></p>
      <p class="path">${line(model.path, 200)}</p></header>
    ${model.loaded && html`
      <dl class="figures">
        <${Figure} name="Tokens made" value=${rate(rateOf(tokens))} unit="/s" values=${bySecond(tokens)}
          more=${`${count(model.tokens)} in all`} />
        <${Figure} name="Tokens of prompts" value=${rate(rateOf(prompt))} unit="/s" values=${bySecond(prompt)}
          more=${model.prompt_tokens > 0 ? `${percent(model.prefix_hit_tokens / model.prompt_tokens)} were known already` : 'none yet'} />
        <${Figure} name="Answers" value=${rate(rateOf(answered))} unit="/s" values=${bySecond(answered)}
          more=${`${count(model.answered)} in all, ${count(model.failed)} failed, ${count(model.left)} left`} />
      </dl>
      <dl class="gauges">
        <div><dt>Sequences</dt><dd>${model.running} <span class="unit">of ${model.sequences} run</span>, ${count(model.waiting)}
          <span class="unit"> wait</span> <${Bar} value=${model.running} of=${model.sequences} label="Sequences" /></dd></div>
        ${held && html`<div><dt>KV blocks</dt><dd>${count(model.blocks_used)} <span class="unit">of ${count(model.blocks)}</span>${model.blocks_pinned > 0 && html`, ${count(model.blocks_pinned)}
          <span class="unit">pinned</span>`}
          <${Bar} value=${model.blocks_used} of=${model.blocks} label="KV blocks" /></dd></div>`}
        <div><dt>Memory on the adapter</dt><dd>${bytes(model.memory)}</dd></div>
      </dl>
      <dl class="facts">
        <div><dt>Positions</dt><dd>${count(model.context)}</dd></div>
        <div><dt>Preempted</dt><dd>${count(model.preemptions)}</dd></div>
        <div><dt>Guessed right</dt><dd>${model.drafted > 0 ? percent(model.accepted / model.drafted) : '–'}</dd></div>
        <div><dt>Reloads</dt><dd>${count(model.reloads)}</dd></div>
      </dl>
      ${model.loras?.length > 0 && html`<h3>Adapters</h3><${Loras} loras=${model.loras} />`}
      ${model.replicas?.length > 0 && html`<h3>Replicas</h3><${Replicas} replicas=${model.replicas} />`}`}
    ${!model.loaded && !loading && html`<p>Records for it wait until it is loaded again:
      <code>tidegate model load ${line(model.name, 60)}</code></p>`}
  </section>`;
}

/** The low-rank adapters of a model. What they were asked is in its figures, too. */
function Loras({ loras }) {
  const head = [['Model', ''], ['Digest', ''], ['Rank', 'number'], ['Answered', 'number'], ['Failed', 'number'], ['Left', 'number'],
    ['Tokens of prompts', 'number'], ['Tokens', 'number']];
  return html`<${Table} label="Adapters" head=${head}>
    ${loras.map((one) => html`<tr key=${one.name}>
      <th scope="row">${line(one.name, 40)}</th>
      <td><code title=${one.digest}>${short(one.digest)}</code></td>
      <td class="number">${count(one.rank)}</td>
      <td class="number">${count(one.answered)}</td>
      <td class="number">${count(one.failed)}</td>
      <td class="number">${count(one.left)}</td>
      <td class="number">${count(one.prompt_tokens)}</td>
      <td class="number">${count(one.tokens)}</td>
    </tr>`)}<//>`;
}

/** How a replica stands, and the tone of that. */
const STANDINGS = { serves: ['serves', 'good'], away: ['is loaded again', 'warn'], stalled: ['stalled', 'bad'], 'left-out': ['left out', 'bad'] };

/** When a replica that is left out is tried again, if it is. */
const again = (seconds) => seconds == null ? '' : seconds === 0 ? '; it is tried again now' : `; it is tried again in ${span(seconds)}`;

/** The replicas of a model, each under the number that metrics and logs have. */
function Replicas({ replicas }) {
  const head = [['Number', 'number'], ['Standing', ''], ['Adapter', ''], ['Run', 'number'], ['KV blocks', 'number'],
    ['Answered', 'number'], ['Tokens', 'number'], ['Moved here', 'number'], ['Reloads', 'number']];
  return html`<${Table} label="Replicas" head=${head}>
    ${replicas.map((one, number) => {
      const [what, tone] = STANDINGS[one.standing] || [line(one.standing, 20), 'warn'];
      return html`<tr key=${number}>
        <th scope="row" class="number">${number}</th>
        <td class="wraps"><${Chip} tone=${tone}>${what}<//>${one.reason && html` <span class="unit">${line(one.reason, 300)}${again(one.again_seconds)}</span>`}</td>
        <td class="wraps">${line(one.adapter, 120)}</td>
        <td class="number">${count(one.running)}</td>
        <td class="number">${one.blocks > 0 ? `${count(one.blocks_used)} of ${count(one.blocks)}` : '–'}</td>
        <td class="number">${count(one.answered)}</td>
        <td class="number">${count(one.tokens)}</td>
        <td class="number">${count(one.moved)}</td>
        <td class="number">${count(one.reloads)}</td>
      </tr>`;
    })}<//>`;
}

/** How bad the host says it is with a model; else how it is with one that is well. */
const toneOf = (name, well) => store.status.troubles?.find((one) => one.where.kind === 'model' && one.where.name === name)?.tone || well;

function Remote({ models }) {
  const head = [['Model', ''], ['Server', ''], ['Breaker', ''], ['Under way', 'number'], ['Waiting', 'number'],
    ['Answered', 'number'], ['Failed', 'number'], ['Left', 'number']];
  return html`<${Table} label="Servers" head=${head}>
    ${models.map((one) => html`<tr key=${one.name}>
      <th scope="row">${line(one.name, 40)}</th>
      <td class="wraps">${line(one.server, 120)}</td>
      <td><${Chip} tone=${one.breaker === 'closed' ? 'good' : toneOf(one.name, 'warn')}>breaker ${one.breaker}<//>${one.open_seconds != null
        && html` <span class="unit">for ${span(one.open_seconds)}</span>`}</td>
      <td class="number">${count(one.in_flight)}</td>
      <td class="number">${count(one.waiting)}</td>
      <td class="number">${count(one.answered)}</td>
      <td class="number">${count(one.failed)}</td>
      <td class="number">${count(one.left)}</td>
    </tr>`)}<//>`;
}

function Gateway({ gateway }) {
  return html`<div class="card"><p>Listens on <code>${line(gateway.url, 120)}</code></p>
    <dl class="facts">
      <div><dt>Requests waiting</dt><dd>${count(gateway.waiting)}</dd></div>
      <div><dt>Answered</dt><dd>${count(gateway.answered)}</dd></div>
      <div><dt>Answered a second</dt><dd>${rate(rateOf((sample) => sample.answered))}</dd></div>
    </dl>
    ${gateway.shed?.length > 0 && html`<${Table} label="Under load" head=${[['Source', ''], ['Step', ''], ['Requests', 'number']]}>
      ${gateway.shed.map((one) => html`<tr key=${`${one.source}-${one.step}`}><th scope="row">${line(one.source, 40)}</th>
        <td>${one.step === 'refused' ? 'refused' : `step ${one.step}`}</td><td class="number">${count(one.requests)}</td></tr>`)}<//>`}
  </div>`;
}
