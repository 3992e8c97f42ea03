// SPDX-License-Identifier: Apache-2.0
//
// machine.js: the side panel: the model's card and the machine's live figures.
//
// All sections are always shown, in this order.  While a model loads, the status has no model and no
// engine, and other parts may be missing too.  Without a connection the last figures are greyed out.

import { bytes, bytesOfMemory, count, duration, percent, rate, whole } from './format.js';
import { html } from './html.js';
import { connection, history, HISTORY_LENGTH, status } from './live.js';

const WIDTH = 120;
const HEIGHT = 32;

// values: newest last.  ceiling: the value at the top edge; 0 = the greatest of them.
function Sparkline({ values, ceiling, name }) {
  const top = ceiling || Math.max(...values, 1) * 1.1;
  const x = (i) => WIDTH - (values.length - 1 - i) * (WIDTH / (HISTORY_LENGTH - 1));
  const y = (value) => HEIGHT - 1 - (Math.min(value, top) / top) * (HEIGHT - 2);
  const points = values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`);
  const first = values.length ? x(0).toFixed(1) : WIDTH;
  return html`
    <svg class="spark ${name}" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
      <polygon points=${`${first},${HEIGHT} ${points.join(' ')} ${WIDTH},${HEIGHT}`} />
      <polyline points=${points.join(' ')} />
    </svg>`;
}

const Figure = ({ label, value, detail, name, children }) => html`
  <div class="figure" data-figure=${name}>
    <div class="figure-line"><h3>${label}</h3><output>${value}</output></div>
    ${children}
    <p>${detail}</p>
  </div>`;

const Facts = ({ rows }) => html`
  <dl>${rows.map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`;

// "Q4_1 x210, F32 x61" → "Q4_1 ×210" and so on, each of which stays on one line.
const types = (text) => text.split(', ').map((type, i) => html`${i ? ', ' : ''}<span>${type.replace(' x', ' ×')}</span>`);

// A model whose last answer failed says why, before anything else.
const modelRows = (model) => [
  ...(model.error ? [['Failing', model.error]] : []),
  ['Parameters', count(model.parameters)],
  ['Architecture', model.architecture],
  ['Weights', types(model.types)],
  ['File', bytes(model.file_bytes)],
  ['Context', `${whole(model.context)} tokens`],
  ['Shape', `${model.layers} layers × ${whole(model.width)}`],
  ['Heads', model.kv_heads === model.heads ? model.heads : `${model.heads}, ${model.kv_heads} for keys and values`],
  ['Vocabulary', whole(model.vocabulary)],
];

function Pages({ engine }) {
  const share = engine.pages ? (100 * engine.pages_used) / engine.pages : 0;
  return html`
    <${Figure} name="pages" label="Context pages" value=${percent(share)}
      detail=${`${whole(engine.pages_used)} of ${whole(engine.pages)} hold keys and values`}>
      <progress max="100" value=${share} aria-label="Context pages in use" />
    <//>`;
}

const engineRows = (engine) => [
  ['Answering', `${engine.running}${engine.waiting ? `, ${engine.waiting} waiting` : ''}`],
  ['Requests', whole(engine.requests)],
  ['Tokens read', count(engine.prompt_tokens)],
  ['Reading speed', engine.prefill_tok_s > 0 ? `${rate(engine.prefill_tok_s)} tok/s` : '–'],
  ['Tokens written', count(engine.generated_tokens)],
];

const Engine = ({ reading: { engine, uptime_s: uptime, version } }) => html`
  ${engine && html`<${Pages} engine=${engine} />`}
  <${Facts} rows=${[...(engine ? engineRows(engine) : []), ['Up for', duration(uptime)], ['Motley', version]]} />`;

function Live({ reading }) {
  const processor = reading.processor ?? {};
  const memory = reading.memory ?? {};
  const { name, cores, isa } = processor;
  const { processor: loads, memory: shares, speed } = history.value;
  return html`
    <${Figure} name="speed" label="Writing" value=${`${rate(speed.at(-1) ?? 0)} tok/s`}
      detail="tokens per second, last minute">
      <${Sparkline} values=${speed} ceiling=${0} name="speed" />
    <//>
    <${Figure} name="processor" label="Processor" value=${percent(processor.load_percent)}
      detail=${[name, cores && `${cores} cores`, isa].filter(Boolean).join(' · ')}>
      <${Sparkline} values=${loads} ceiling=${100} name="processor" />
    <//>
    <${Figure} name="memory" label="Memory" value=${percent(shares.at(-1))}
      detail=${`${bytesOfMemory(memory.total - memory.available)} of ${bytesOfMemory(memory.total)} used, ` +
               `${bytesOfMemory(memory.resident)} by Motley`}>
      <${Sparkline} values=${shares} ceiling=${100} name="memory" />
    <//>`;
}

const Model = ({ model }) => (model
  ? html`<p class="model-name">${model.name}</p><${Facts} rows=${modelRows(model)} />`
  : html`<p class="quiet">${connection.value === 'loading' ? 'It is loading.' : '–'}</p>`);

const SECTIONS = [
  ['Model', 'Model', ({ reading }) => html`<${Model} model=${reading.model} />`],
  ['Live figures', 'Now', Live],
  ['Engine', 'Engine', Engine],
];

export function Machine() {
  const reading = status.value;
  const live = connection.value === 'ready' || connection.value === 'loading';
  if (!reading) return html`<p class="quiet">No figures yet.</p>`;
  return html`
    <div class=${live ? '' : 'stale'}>
      <p class="stale-note">${live ? '' : 'Not connected. These are the last figures.'}</p>
      ${SECTIONS.map(([label, title, Content]) => html`
        <section key=${title} aria-label=${label}><h2>${title}</h2><${Content} reading=${reading} /></section>`)}
    </div>`;
}
