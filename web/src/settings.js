// SPDX-License-Identifier: Apache-2.0
//
// settings.js: the dialog of settings.  A change takes effect at once and is stored by the browser.

import { useEffect, useRef, useState } from 'preact/hooks';

import { html, IconButton } from './html.js';
import { connection, status } from './live.js';
import { changeSettings, DEFAULTS, settings } from './state.js';

const MAX_TOKENS_LIMIT = 131072;  // where the server does not say how long its context is

const Field = ({ id, label, help, children }) => html`
  <div class="field">
    <label for=${id}>${label}</label>
    ${children}
    ${help && html`<p id=${`${id}-help`}>${help}</p>`}
  </div>`;

// A field whose text counts when it is left.  Until then the text is kept here: each reading of the server's state (one a
// second) draws the dialog anew, and the value of before would take the place of what is being typed.
function Entry({ value, onDone, ...rest }) {
  const [typed, setTyped] = useState(null);  // null: the field shows `value`
  return html`
    <input ...${rest} value=${typed ?? value} onInput=${(event) => setTyped(event.target.value)}
      onChange=${(event) => onDone(event.target.value)} onBlur=${() => setTyped(null)} />`;
}

// The number that was typed, limited to [low, high]; the default when it is not a number.
const bounded = (text, low, high, otherwise) => {
  const value = Number(text);
  return text === '' || !Number.isFinite(value) ? otherwise : Math.min(Math.max(value, low), high);
};

function Fields() {
  const { temperature, maxTokens, system, seed, key } = settings.value;
  const longest = status.value?.model?.context || MAX_TOKENS_LIMIT;
  const wholeNumber = (text) => Math.round(bounded(text, 1, longest, DEFAULTS.maxTokens));
  const seedOf = (text) => (/^\d{1,15}$/.test(text) ? text : '');
  return html`
    <${Field} id="system" label="System prompt" help="What the model should know or be, before the first message.">
      <textarea id="system" rows="4" aria-describedby="system-help" value=${system}
        onInput=${(event) => changeSettings({ system: event.target.value })} />
    <//>
    <${Field} id="temperature" label="Temperature" help="0 always takes the likeliest token; higher is more varied.">
      <div class="pair">
        <input id="temperature" type="range" min="0" max="2" step="0.05" aria-describedby="temperature-help"
          value=${temperature} onInput=${(event) => changeSettings({ temperature: Number(event.target.value) })} />
        <output for="temperature">${temperature.toFixed(2)}</output>
      </div>
    <//>
    <${Field} id="max-tokens" label="Longest answer, in tokens">
      <${Entry} id="max-tokens" type="number" min="1" max=${longest} inputmode="numeric" value=${maxTokens}
        onDone=${(text) => changeSettings({ maxTokens: wholeNumber(text) })} />
    <//>
    <${Field} id="seed" label="Seed" help="The same seed and messages give the same answer. Empty: a new one each time.">
      <${Entry} id="seed" inputmode="numeric" placeholder="random" aria-describedby="seed-help" value=${seed}
        onDone=${(text) => changeSettings({ seed: seedOf(text.trim()) })} />
    <//>
    ${(key || connection.value === 'locked') && html`
      <${Field} id="key" label="API key" help="Kept in this browser only.">
        <${Entry} id="key" type="password" autocomplete="off" aria-describedby="key-help" value=${key}
          onDone=${(text) => changeSettings({ key: text.trim() })} />
      <//>`}`;
}

export function Settings({ open, onClose }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (open) dialog.current.showModal();
    else dialog.current.close();
  }, [open]);
  const onClick = (event) => event.target === dialog.current && onClose();  // a click beside the dialog closes it
  return html`
    <dialog class="settings" ref=${dialog} onClose=${onClose} onClick=${onClick} aria-labelledby="settings-title">
      <form method="dialog">
        <header><h2 id="settings-title">Settings</h2><${IconButton} icon="close" label="Close" onClick=${onClose} /></header>
        <${Fields} />
        <footer>
          <button type="button" class="plain-button"
            onClick=${() => changeSettings({ ...DEFAULTS, key: settings.value.key })}>Back to the defaults</button>
          <button class="main-button">Done</button>
        </footer>
      </form>
    </dialog>`;
}
