// A model that is asked, and a record that is tried: beside the stream, and written nowhere.

import { html, useEffect, useRef, useState } from './preact.js';
import { bytes, count, line, time, visible } from './format.js';
import { Chip, Empty, Failure, Figure, Loading, Long, Table, typed } from './parts.js';
import { events, postJson, store } from './store.js';

/** A model may have nothing to say for so long. */
const PATIENCE = 150_000;
/** What stands in fields at first. What was typed is in the store until the page is closed or signed out: whoever looks at
    another view finds it again. */
const FIRST = {
  model: '', prompt: '', system: '', tokens: '256', heat: '0', seed: '0', raw: false,
  source: '', key: '', headers: '', value: '', ask: false, seconds: '60',
};

export function Playground({ slot: view }) {
  const { status } = store;
  if (!status) return html`<${Loading} />`;
  if (status.state === 'starting') return html`<h1>Playground</h1><${Loading}>It opens when the pipeline runs …<//>`;
  const isRecord = view === 'record';
  return html`<h1>Playground</h1>
    <p class="lead">Beside the stream, and behind it: nothing is written to a sink, no position is kept, and no figure of the stream counts it.</p>
    <ul class="tabs"><li><a href="#/playground/model" aria-current=${isRecord ? null : 'page'}>Ask a model</a></li>
      <li><a href="#/playground/record" aria-current=${isRecord ? 'page' : null}>Try a record</a></li></ul>
    ${isRecord ? html`<${Try} key="record" status=${status} />` : html`<${Ask} key="model" status=${status} />`}`;
}

/** A field whose text is found again. */
function useTyped(name) {
  const [value, set] = useState(store.typed[name] ?? FIRST[name]);
  return [value, (next) => {
    store.typed[name] = next;
    set(next);
  }];
}

/** What is under way, and how it is ended. It ends too when the view is left. */
function useUnderWay() {
  const [since, setSince] = useState(0);
  const [failure, setFailure] = useState('');
  const aborter = useRef(null);
  useEffect(() => () => aborter.current?.abort(), []);
  const run = async (what) => {
    const mine = new AbortController();
    aborter.current = mine;
    setFailure('');
    setSince(Date.now());
    try {
      await what(mine);
    } catch (error) {
      setFailure(mine.signal.aborted && error.name === 'AbortError' ? 'Cancelled.' : error.message);
    } finally {
      if (aborter.current === mine) {
        aborter.current = null;
        setSince(0);
      }
    }
  };
  return { since, failure, run, cancel: () => aborter.current?.abort() };
}

/** Control and Enter in a text sends its form. */
const sends = (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    event.currentTarget.form.requestSubmit();
  }
};

function Ask({ status }) {
  const models = [...(status.models || []), ...(status.remote || [])].map((one) => one.name);
  const [model, setModel] = useTyped('model');
  const [prompt, setPrompt] = useTyped('prompt');
  const [system, setSystem] = useTyped('system');
  const [tokens, setTokens] = useTyped('tokens');
  const [heat, setHeat] = useTyped('heat');
  const [seed, setSeed] = useTyped('seed');
  const [raw, setRaw] = useTyped('raw');
  const [answer, setAnswer] = useState(null);
  const { since, failure, run, cancel } = useUnderWay();
  if (!models.length) return html`<${Empty} title="No models">No stage of this pipeline asks one.<//>`;
  const chosen = models.includes(model) ? model : models[0];

  const submit = (event) => {
    event.preventDefault();
    if (since || !prompt) return;
    setAnswer({ text: '', tokens: 0, first: 0, end: null });
    run(async (aborter) => {
      const body = { model: chosen, prompt, raw, max_tokens: Number(tokens), temperature: Number(heat), seed: Number(seed) };
      if (system && !raw) body.system = system;
      const response = await postJson('v1/playground/model', body, { signal: aborter.signal, patience: PATIENCE });
      let end = null;
      for await (const [name, data] of events(response.body.getReader(), aborter, PATIENCE)) {
        if (name === 'text') {
          setAnswer((known) => ({ ...known, text: known.text + data.text, tokens: data.tokens, first: known.first || Date.now() }));
        } else if (name === 'end') {
          end = data;
          setAnswer((known) => ({ ...known, end }));
        }
      }
      if (!end) throw new Error('The host has ended the connection before the answer was whole.');
    });
  };
  return html`<div class="grid">
    <form class="card form" onSubmit=${submit} aria-label="A question">
      <label>Model <select value=${chosen} onChange=${typed(setModel)}>
        ${models.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      <label>Prompt <textarea id="search" rows="5" maxlength="65536" spellcheck="false" value=${prompt} onInput=${typed(setPrompt)}
        onKeyDown=${sends}></textarea></label>
      <label>System message <textarea rows="2" maxlength="65536" spellcheck="false" disabled=${raw} value=${system}
        onInput=${typed(setSystem)} onKeyDown=${sends}></textarea></label>
      <div class="row">
        <label>Most tokens <input type="number" min="1" max="2048" required value=${tokens} onInput=${typed(setTokens)} /></label>
        <label>Temperature <input type="number" min="0" max="2" step="any" required value=${heat} onInput=${typed(setHeat)} /></label>
        <label>Seed <input type="number" min="0" max="9007199254740991" required value=${seed} onInput=${typed(setSeed)} /></label>
        <label class="check"><input type="checkbox" checked=${raw} onChange=${(event) => setRaw(event.currentTarget.checked)} /> Without template</label>
      </div>
      <div class="row"><button type="submit" class="strong" disabled=${since > 0 || !prompt} aria-keyshortcuts="Control+Enter">Ask</button>
        <button type="button" disabled=${!since} onClick=${cancel}>Cancel</button></div>
    </form>
    <section class="card" aria-labelledby="answer-title"><h2 id="answer-title">Answer</h2>
      ${failure && html`<${Failure}>${visible(failure)}<//>`}
      ${answer?.end?.failed && html`<${Failure}>${visible(answer.end.failed)}<//>`}
      ${answer ? html`<${Answer} answer=${answer} since=${since} />`
        : html`<p class="note">The stream goes first: a question waits for its turn behind everything that the pipeline asks.</p>`}
    </section></div>`;
}

function Answer({ answer: { text, tokens, first, end }, since }) {
  const [, look] = useState(0);
  // Whoever waits sees for how long.
  useEffect(() => {
    const timer = since ? setInterval(() => look((number) => number + 1), 200) : 0;
    return () => clearInterval(timer);
  }, [since]);
  const now = Date.now();
  const made = end?.tokens ?? tokens;
  const making = end ? end.decode_ms || end.ms : first ? now - first : 0;
  const speed = made > 1 && making > 0 ? ((made - 1) * 1000) / making : 0;
  const isText = !end || end.finish;
  return html`
    ${text && html`<pre class="answer" tabindex="0" role="region" aria-label="Text of the answer" aria-busy=${since > 0}>${visible(text)}</pre>`}
    ${since > 0 && !text && html`<${Loading}>Waiting for the first token, ${time(now - since)} …<//>`}
    ${end && !end.failed && isText && !text && html`<p class="note">The answer is empty.</p>`}
    ${end?.labels?.length > 0 && html`<${Table} label="Labels" head=${[['Label', ''], ['Probability', 'number']]}>
      ${end.labels.map(([label, share]) => html`<tr key=${label}><th scope="row">${line(label, 80)}</th><td class="number">${share.toFixed(4)}</td></tr>`)}<//>`}
    ${end?.entities?.length > 0 && html`<${Table} label="Entities" head=${[['Text', ''], ['Label', ''], ['Probability', 'number'], ['From', 'number'], ['To', 'number']]}>
      ${end.entities.map((one) => html`<tr key=${`${one.start} ${one.end} ${one.label}`}><th scope="row">${line(one.text, 80)}</th><td>${line(one.label, 80)}</td>
        <td class="number">${one.score.toFixed(4)}</td><td class="number">${count(one.start)}</td><td class="number">${count(one.end)}</td></tr>`)}<//>`}
    ${end?.entities?.length === 0 && html`<p class="note">Nothing was found in the text.</p>`}
    ${end?.embedding && html`<p>A vector of ${count(end.embedding[0])} numbers: <code>${end.embedding[1].map((one) => one.toFixed(4)).join(', ')}, …</code></p>`}
    ${(text || end) && html`<dl class="figures">
      ${isText && html`<${Figure} name="Tokens a second" value=${speed ? speed.toFixed(1) : '–'} more=${`${count(made)} made`} />`}
      ${end && html`<${Figure} name="To the first token" value=${time(end.queued_ms + end.prefill_ms)} more=${`${time(end.queued_ms)} in the queue`} />
        <${Figure} name="In all" value=${time(end.ms)} more=${`${count(end.prompt_tokens)} tokens asked`} />`}</dl>`}
    ${end?.finish && html`<p class="note">${{ end: 'The model has ended it.', length: 'It ended at the most tokens, or at the end of the context.' }[end.finish]
      || `It ended: ${end.finish}.`}</p>`}`;
}

/** `name: value`, one a line. */
function headersOf(text) {
  return text.split('\n').filter((one) => one.trim()).map((one) => {
    const at = one.indexOf(':');
    return at < 0 ? [one.trim(), ''] : [one.slice(0, at).trim(), one.slice(at + 1).trim()];
  });
}

function Try({ status }) {
  const of = (kind) => status.graph.nodes.filter((node) => node.kind === kind).map((node) => node.name);
  const sources = of('source');
  const [source, setSource] = useTyped('source');
  const [key, setKey] = useTyped('key');
  const [headers, setHeaders] = useTyped('headers');
  const [value, setValue] = useTyped('value');
  const [ask, setAsk] = useTyped('ask');
  const [seconds, setSeconds] = useTyped('seconds');
  const [tried, setTried] = useState(null);
  const { since, failure, run, cancel } = useUnderWay();
  const chosen = sources.includes(source) ? source : sources[0];
  const asks = of('model').length > 0;

  const submit = (event) => {
    event.preventDefault();
    if (since) return;
    setTried(null);
    run(async (aborter) => {
      const body = { source: chosen, value, headers: headersOf(headers), ask, seconds: Number(seconds) };
      if (key) body.key = key;
      setTried(await (await postJson('v1/playground/record', body, { signal: aborter.signal, patience: PATIENCE })).json());
    });
  };
  return html`<div class="grid">
    <form class="card form" onSubmit=${submit} aria-label="A record">
      <div class="row"><label>As of source <select value=${chosen} onChange=${typed(setSource)}>
          ${sources.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
        <label>Key <input type="text" maxlength="65536" spellcheck="false" autocomplete="off" value=${key} onInput=${typed(setKey)} /></label></div>
      <label>Value <textarea id="search" rows="8" maxlength="1048576" spellcheck="false" value=${value} onInput=${typed(setValue)}
        onKeyDown=${sends}></textarea></label>
      <label>Headers, one name: value a line <textarea rows="2" maxlength="65536" spellcheck="false" value=${headers}
        onInput=${typed(setHeaders)} onKeyDown=${sends}></textarea></label>
      <div class="row">${asks && html`<label class="check"><input type="checkbox" checked=${ask}
          onChange=${(event) => setAsk(event.currentTarget.checked)} /> Ask models</label>`}
        <label>Most seconds <input type="number" min="1" max="60" required value=${seconds} onInput=${typed(setSeconds)} /></label>
        <button type="submit" class="strong" disabled=${since > 0} aria-keyshortcuts="Control+Enter">Try</button>
        <button type="button" disabled=${!since} onClick=${cancel}>Cancel</button></div>
      <p class="note">Every operator runs in an instance of its own, of the revision that its slot runs now.</p>
    </form>
    <section class="card" aria-labelledby="tried-title" aria-busy=${since > 0}><h2 id="tried-title">What came of it</h2>
      ${failure && html`<${Failure}>${visible(failure)}<//>`}
      ${since > 0 && html`<${Loading}>It is on its way …<//>`}
      ${tried ? html`<${Tried} tried=${tried} sinks=${of('sink')} />`
        : !since && !failure && html`<p class="note">Here stands which stages it met, what each sink would have been given, and why it died if it did.</p>`}
    </section></div>`;
}

function Tried({ tried, sinks }) {
  const { read, stages, written, dead } = tried;
  const deaths = (name) => dead.filter((one) => one.stage === name);
  const known = new Set([...stages.map((one) => one.name)]);
  const others = dead.filter((one) => !known.has(one.stage));
  return html`
    ${tried.ended && html`<div class="notice warn" role="status"><p>It was ended before its end: ${visible(tried.ended)}.</p></div>`}
    ${tried.cut && html`<div class="notice warn"><p>More came of it than is shown.</p></div>`}
    ${tried.rows_left_out > 0 && html`<div class="notice warn"><p>The first row was tried. ${count(tried.rows_left_out)} after it ${tried.rows_left_out === 1 ? 'was' : 'were'} not.</p></div>`}
    <p role="status">${written.length} to sinks, ${dead.length} dead, in ${time(tried.ms)}.</p>
    <ol class="steps">
      ${read.length > 0 && html`<li class="good"><h3>Read</h3><${Values} values=${read} /></li>`}
      ${stages.map((stage) => html`<${Stage} key=${stage.name} stage=${stage} deaths=${deaths(stage.name)} />`)}
      ${others.map((one) => html`<li class="bad"><h3>${line(one.stage, 60)} <${Chip} tone="bad">dead letter<//></h3><p class="reason">${visible(one.reason)}${beginning(one)}</p></li>`)}
    </ol>
    <h3>What sinks would have been given</h3>
    <ul class="steps">${sinks.map((name) => {
      const own = written.filter((one) => one.at === name);
      return html`<li key=${name} class=${own.length ? 'good' : ''}><strong>${line(name, 60)}</strong> ${own.length ? '' : html`<span class="unit">nothing</span>`}
        <${Values} values=${own.map((one) => ({ ...one, at: '' }))} /></li>`;
    })}</ul>`;
}

function Stage({ stage, deaths }) {
  const said = [[stage.in, 'in'], [stage.dropped, 'dropped'], [stage.retried, 'retried'], [stage.dead, 'dead']].filter(([number]) => number);
  const figures = said.map(([number, word]) => `${count(number)} ${word}`).concat(stage.unasked ? [] : [time(stage.ms)]);
  return html`<li class=${deaths.length ? 'bad' : stage.unasked || stage.waits ? 'warn' : 'good'}>
    <h3>${line(stage.name, 60)} ${stage.operator && html`<span class="unit">${line(stage.operator.join(' '), 80)}</span>`}</h3>
    <p class="unit">${figures.join(', ')}</p>
    ${stage.unasked && html`<p>It asks a model, which was not asked: its way ends here.</p>`}
    ${stage.waits && html`<p>When the time was over, ${visible(stage.waits)}.</p>`}
    <${Values} values=${stage.output} />
    ${deaths.map((one) => html`<p class="reason bad-text"><${Chip} tone="bad">dead letter<//> ${visible(one.reason)}${beginning(one)}</p>`)}
    ${stage.log?.length > 0 && html`<details><summary>What it said: ${count(stage.log.length)} ${stage.log.length === 1 ? 'line' : 'lines'}</summary>
      <div class="log" tabindex="0" role="log" aria-live="off" aria-label=${`What ${stage.name} said`}>${stage.log.map(([level, words]) => html`<div class=${`entry ${level}`}>
        <span class="level">${level}</span><span class="text">${line(words, 4200)}</span></div>`)}</div>
      ${stage.log_left_out > 0 && html`<p class="note">${count(stage.log_left_out)} more ${stage.log_left_out === 1 ? 'line is' : 'lines are'} left out.</p>`}</details>`}
  </li>`;
}

/** What a reason ends with that is not shown to its end. */
const beginning = (one) => (one.truncated ? ` … (its beginning, of ${bytes(one.truncated)})` : '');

/** Most records that are shown of one place. */
const SHOWN = 20;

function Values({ values }) {
  return html`${values.slice(0, SHOWN).map((one) => html`<div class="value">
    ${(one.at || one.key != null) && html`<p class="unit">${one.at && `output ${line(one.at, 60)} `}${one.key != null && `key ${line(one.key, 200)}`}</p>`}
    ${one.headers?.length > 0 && html`<p class="unit">${one.headers.map(([name, value]) => line(`${name}: ${value}`, 200)).join(' · ')}</p>`}
    ${one.value == null ? html`<p class="unit">no value</p>` : html`<${Long} label="Value" text=${one.value} />`}
    ${one.truncated?.map(([what, whole]) => html`<p class="note">${what === 'headers' ? `The first of ${count(whole)} headers.` : html`The beginning of ${line(what, 60)}, of ${bytes(whole)}.`}</p>`)}
  </div>`)}
  ${values.length > SHOWN && html`<p class="note">${count(values.length - SHOWN)} more like these.</p>`}`;
}
