// Small parts that the views share.

import { html, useEffect, useRef, useState } from './preact.js';
import { visible } from './format.js';

/** A word about a state, with a colour that is never the only sign of it. */
export const Chip = ({ tone = 'calm', children }) => html`<span class=${`chip ${tone}`}>${children}</span>`;

/** A share of something that has a limit. */
export function Bar({ value, of, label }) {
  const share = of > 0 ? Math.min(1, value / of) : 0;
  const tone = share >= 0.95 ? 'bad' : share >= 0.75 ? 'warn' : 'calm';
  return html`<span class=${`bar ${tone}`} role="img" aria-label=${label}>
    <span style=${{ width: `${share * 100}%` }}></span>
  </span>`;
}

/** A curve of what was of late. It is no more than an ornament of the figure beside it. */
export function Spark({ values, tone = 'calm' }) {
  const wide = 120;
  const high = 28;
  const most = Math.max(...values, 0);
  if (values.length < 2 || most <= 0) {
    return html`<svg class="spark" viewBox="0 0 ${wide} ${high}" aria-hidden="true">
      <path class="ground" d=${`M0 ${high - 1}H${wide}`} /></svg>`;
  }
  const step = wide / Math.max(29, values.length - 1);
  const from = wide - (values.length - 1) * step;
  const points = values.map((value, at) => {
    const x = (from + at * step).toFixed(1);
    return `${x} ${(high - 2 - (value / most) * (high - 4)).toFixed(1)}`;
  });
  return html`<svg class=${`spark ${tone}`} viewBox="0 0 ${wide} ${high}" preserveAspectRatio="none" aria-hidden="true">
    <path class="area" d=${`M${from.toFixed(1)} ${high}L${points.join('L')}L${wide} ${high}Z`} />
    <path class="curve" d=${`M${points.join('L')}`} /></svg>`;
}

export const Figure = ({ name, value, unit, more, values, tone }) => html`
  <div class="figure">
    <dt>${name}</dt>
    <dd><span class="value">${value}</span>${unit && html` <span class="unit">${unit}</span>`}</dd>
    ${values && html`<dd class="curve-of"><${Spark} values=${values} tone=${tone} /></dd>`}
    ${more && html`<dd class="more">${more}</dd>`}
  </div>`;

/** What is said where there is nothing to show. */
export const Empty = ({ title, children }) => html`
  <div class="empty"><p class="title">${title}</p>${children && html`<p>${children}</p>`}</div>`;

export const Failure = ({ children, again }) => html`
  <div class="notice bad" role="alert"><p>${children}</p>
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}</div>`;

export const Loading = ({ children = 'Loading …' }) => html`<p class="loading" role="status">${children}</p>`;

/** A table that scrolls by itself where there is no room for it. */
export const Table = ({ label, head, children }) => html`
  <div class="scrolls" tabindex="0" role="region" aria-label=${label}>
    <table><thead><tr>${head.map(([name, kind]) => html`<th scope="col" class=${kind}>${name}</th>`)}</tr></thead>
      <tbody>${children}</tbody></table>
  </div>`;

const STEP = 20_000;

/** Text of others, whole: as much of it at once as a browser lays out without effort. */
export function Long({ text, label }) {
  const [shown, show] = useState(STEP);
  const rest = text.length - shown;
  return html`<div class="long">
    <pre tabindex="0" role="region" aria-label=${label}>${visible(text.slice(0, shown))}</pre>
    ${rest > 0 && html`<button type="button" onClick=${() => show(shown + STEP * 5)}>
      Show more (${rest.toLocaleString('en')} characters are left)</button>`}
  </div>`;
}

/** A dialog of the browser's own: it keeps the focus, and Escape closes it. */
export function Dialog({ title, onClose, children }) {
  const ref = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  const outside = (event) => event.target === ref.current && onClose();
  return html`<dialog ref=${ref} aria-label=${title} onClose=${onClose} onClick=${outside}>
    <div class="dialog">
      <header><h2>${title}</h2><button type="button" onClick=${onClose}>Close</button></header>
      ${children}
    </div></dialog>`;
}

/** The text of an event's field. */
export const typed = (set) => (event) => set(event.currentTarget.value);
