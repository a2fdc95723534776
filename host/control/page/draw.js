// The graph of the pipeline, at the places that the host has given its parts.

import { html } from './preact.js';
import { count, line, rate, time } from './format.js';
import { rateOf, store } from './store.js';

const NODE = { wide: 156, high: 58 };
const FLAT = { layer: 250, place: 92, left: 6, top: 6 };
const TALL = { layer: 146, place: 172, left: 6, top: 6 };
/** How far a graph is made smaller before it scrolls. */
const LEAST = 0.7;
const DEAD = 'dead letters';

/** How full a stage is: none that has no limit. */
export function fullness(stage) {
  if (!stage || !stage.limit) return 0;
  return Math.min(1, (stage.inbox + stage.waiting) / stage.limit);
}

/** For which share of the last seconds a stage took no more. */
export function fullShare(name) {
  return Math.min(1, rateOf((sample) => sample.stages.get(name)?.full));
}

export function pressure(stage) {
  const share = fullShare(stage.name);
  if (share >= 0.5) return 'bad';
  return share >= 0.05 || fullness(stage) >= 0.75 ? 'warn' : 'calm';
}

/** Where a kind of node leads. */
function target(node) {
  const name = encodeURIComponent(node.name);
  switch (node.kind) {
    case 'operator': return `#/slots/${name}`;
    case 'model': return '#/engine';
    case 'dead-letters': return '#/dead-letters';
    default: return null;
  }
}

const KINDS = { source: 'source', operator: 'operator', model: 'model', sink: 'sink', 'dead-letters': 'dead letters' };

export function Graph({ isTall }) {
  const { status } = store;
  const { nodes, edges } = status.graph;
  const form = isTall ? TALL : FLAT;
  const stages = new Map(status.stages.map((stage) => [stage.name, stage]));
  const at = (layer, place) => (isTall
    ? { x: form.left + place * form.place, y: form.top + layer * form.layer }
    : { x: form.left + layer * form.layer, y: form.top + place * form.place });
  const places = new Map(nodes.map((node) => [node.name, { ...at(node.layer, node.place), node }]));
  const layers = Math.max(...nodes.map((node) => node.layer));
  const width = Math.max(...nodes.map((node) => node.place), ...edges.flatMap((edge) => edge.through), 0);
  const end = at(layers, width);
  const size = { x: end.x + NODE.wide + form.left, y: end.y + NODE.high + form.top };
  const dead = rateOf((sample) => sample.dead);

  const ways = edges.map((edge, index) => {
    const from = places.get(edge.from);
    const to = places.get(edge.to);
    const stage = stages.get(edge.to);
    const speed = rateOf((sample) => sample.edges[index]);
    const tone = stage ? pressure(stage) : 'calm';
    const points = [leaves(from, isTall), ...edge.through.map((place, step) => {
      const point = at(from.node.layer + 1 + step, place);
      return { x: point.x + NODE.wide / 2, y: point.y + NODE.high / 2, isBetween: true };
    }), enters(to, isTall)];
    const outputs = edge.outputs.filter((output) => output);
    return { edge, speed, tone, stage, points, outputs };
  });
  const fatal = status.stages.filter((stage) => stage.dead > 0).map((stage) => places.get(stage.name)).filter(Boolean);
  const grave = places.get(DEAD);

  return html`<div class="graph scrolls" tabindex="0" role="region" aria-label="The pipeline as a graph">
    <svg viewBox=${`0 0 ${size.x} ${size.y}`} role="group"
      style=${{ width: '100%', minWidth: `${size.x * LEAST}px`, maxWidth: `${size.x}px` }}
      aria-label=${`${nodes.length} parts and ${edges.length} ways; the table below says the same`}>
      <g class="ways" aria-hidden="true">
        ${grave && fatal.map((from) => html`
          <path key=${`dead-${from.node.name}`} class="way dead" d=${curve([leaves(from, isTall), enters(grave, isTall)], isTall)} />`)}
        ${ways.map(({ edge, speed, tone, points }) => html`
          <path key=${`${edge.from}>${edge.to}`} class=${`way ${tone} ${speed > 0 ? 'moves' : ''}`}
            stroke-width=${speed > 0 ? Math.min(6, 1.5 + Math.log10(1 + speed)) : 1.5} d=${curve(points, isTall)} />`)}
      </g>
      ${nodes.map((node) => html`<${Node} key=${node.name} node=${node} place=${places.get(node.name)}
        stage=${stages.get(node.name)} dead=${dead} />`)}
      <g class="words" aria-hidden="true">
        ${ways.map((way) => html`<${Words} key=${`${way.edge.from}>${way.edge.to}`} way=${way} isTall=${isTall} />`)}
      </g>
    </svg></div>`;
}

function leaves({ x, y }, isTall) {
  return isTall ? { x: x + NODE.wide / 2, y: y + NODE.high } : { x: x + NODE.wide, y: y + NODE.high / 2 };
}

function enters({ x, y }, isTall) {
  return isTall ? { x: x + NODE.wide / 2, y } : { x, y: y + NODE.high / 2 };
}

/** A smooth line through all points. Between nodes it runs straight for as long as a node is. */
function curve(points, isTall) {
  let path = `M${points[0].x} ${points[0].y}`;
  const half = isTall ? NODE.high / 2 : NODE.wide / 2;
  let last = points[0];
  for (const point of points.slice(1)) {
    const shift = point.isBetween ? half : 0;
    const to = isTall ? { x: point.x, y: point.y - shift } : { x: point.x - shift, y: point.y };
    const middle = isTall ? (last.y + to.y) / 2 : (last.x + to.x) / 2;
    path += isTall
      ? `C${last.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`
      : `C${middle} ${last.y} ${middle} ${to.y} ${to.x} ${to.y}`;
    last = isTall ? { x: to.x, y: to.y + 2 * shift } : { x: to.x + 2 * shift, y: to.y };
    if (shift) path += `L${last.x} ${last.y}`;
  }
  return path;
}

/** What is said on a way: how much goes there, what waits at its end, and how long that takes. */
function Words({ way, isTall }) {
  const { speed, stage, tone, outputs, points } = way;
  const to = points.at(-1);
  const from = points.at(-2);
  const waiting = stage ? stage.inbox + stage.waiting : 0;
  const lines = [`${rate(speed)}/s`];
  if (outputs.length) lines.unshift(line(outputs.join(', '), 14));
  if (stage && waiting > 0) lines.push(`${count(waiting)} waiting`);
  if (stage && stage.time_ms?.p99 > 0) lines.push(`p99 ${time(stage.time_ms.p99)}`);
  const wide = Math.max(...lines.map((text) => text.length)) * 6.6 + 10;
  const high = lines.length * 14 + 5;
  // Near its end, where no other way is.
  const x = isTall ? to.x : to.x - (from.isBetween ? 52 : (to.x - from.x) / 2);
  const y = isTall ? to.y - 47 : to.y + (from.isBetween ? 0 : (from.y - to.y) * 0.12);
  return html`<g class=${`word ${tone}`} transform=${`translate(${x} ${y})`}>
    <rect x=${-wide / 2} y=${-high / 2} width=${wide} height=${high} rx="4" />
    ${lines.map((text, at) => html`<text y=${-high / 2 + 14 + at * 14} text-anchor="middle">${text}</text>`)}
  </g>`;
}

function Node({ node, place, stage, dead }) {
  const href = target(node);
  const share = fullness(stage);
  const tone = stage ? pressure(stage) : 'calm';
  const trouble = store.status.slots.find((slot) => slot.slot === node.name)?.trouble;
  const said = [`${KINDS[node.kind]} ${node.name}`, node.what];
  if (stage) said.push(`${rate(rateOf((sample) => sample.stages.get(stage.name)?.in))} records a second`);
  if (trouble) said.push('cannot answer');
  const dying = node.kind === 'dead-letters' && dead > 0;
  const body = html`<title>${said.join(', ')}</title>
    <rect class="body" width=${NODE.wide} height=${NODE.high} rx="8" />
    <rect class="mark" width="4" height=${NODE.high - 16} x="0" y="8" rx="2" />
    <text class="name" x="14" y="22">${line(node.name, 19)}</text>
    <text class="what" x="14" y="39">${line(trouble ? 'cannot answer' : dying ? `${rate(dead)}/s` : node.what, 23)}</text>
    ${stage && html`<rect class="track" x="14" y="47" width=${NODE.wide - 28} height="4" rx="2" />
      <rect class="fill" x="14" y="47" width=${(NODE.wide - 28) * share} height="4" rx="2" />`}`;
  const classes = `node ${node.kind} ${tone} ${trouble || dying ? 'trouble' : ''}`;
  const where = `translate(${place.x} ${place.y})`;
  return href
    ? html`<a class=${classes} href=${href} transform=${where}>${body}</a>`
    : html`<g class=${classes} transform=${where}>${body}</g>`;
}
