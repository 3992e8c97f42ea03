// SPDX-License-Identifier: Apache-2.0
//
// markdown-view.js: elements for the tree of markdown.js.  Text stays text: every string goes in as a text node.

import { useMemo, useState } from 'preact/hooks';

import { html, Icon } from './html.js';
import { parseBlocks } from './markdown.js';

export function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');  // pages over plain http have no navigator.clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done ? Promise.resolve() : Promise.reject(new Error('the browser refused'));
}

// Shows "Copied" for a moment after the text was copied.
export function CopyButton({ text, label = 'Copy' }) {
  const [state, setState] = useState('');
  const copy = async () => {
    const outcome = await copyText(text).then(() => 'Copied', () => 'Not allowed');
    setState(outcome);
    setTimeout(() => setState(''), 1600);
  };
  return html`
    <button type="button" class="small-button copy" onClick=${copy}>
      <${Icon} name=${state === 'Copied' ? 'check' : 'copy'} /><span aria-live="polite">${state || label}</span>
    </button>`;
}

const inlineView = {
  strong: (node) => html`<strong>${inlines(node.inline)}</strong>`,
  em: (node) => html`<em>${inlines(node.inline)}</em>`,
  strike: (node) => html`<s>${inlines(node.inline)}</s>`,
  code: (node) => html`<code>${node.text}</code>`,
  link: (node) => html`<a href=${node.href} target="_blank" rel="noopener noreferrer">${inlines(node.inline)}</a>`,
  break: () => html`<br />`,
};
const inlines = (nodes) => nodes.map((node) => (typeof node === 'string' ? node : inlineView[node.kind](node)));

const cells = (tag, row, align) => row.map((cell, i) => html`<${tag} class=${align[i]}>${inlines(cell)}<//>`);

const blockView = {
  code: (block) => html`
    <figure class="code">
      <figcaption><span>${block.language || 'text'}</span><${CopyButton} text=${block.text} /></figcaption>
      <pre tabindex="0"><code>${block.text}</code></pre>
    </figure>`,
  heading: (block) => html`<${`h${Math.min(block.level + 2, 6)}`}>${inlines(block.inline)}<//>`,
  rule: () => html`<hr />`,
  quote: (block) => html`<blockquote>${blocks(block.blocks)}</blockquote>`,
  list: (block) =>
    block.ordered ? html`<ol start=${block.start}>${items(block)}</ol>` : html`<ul>${items(block)}</ul>`,
  table: (block) => html`
    <div class="table" tabindex="0"><table>
      <thead><tr>${cells('th', block.head, block.align)}</tr></thead>
      <tbody>${block.rows.map((row) => html`<tr>${cells('td', row, block.align)}</tr>`)}</tbody>
    </table></div>`,
  paragraph: (block) => html`<p>${inlines(block.inline)}</p>`,
};
// An item of a tight list is plain text, not a paragraph.
const item = (inner) =>
  inner.map((block, i) => (i === 0 && block.kind === 'paragraph' ? inlines(block.inline) : blockView[block.kind](block)));
const items = (block) => block.items.map((inner) => html`<li>${item(inner)}</li>`);
const blocks = (list) => list.map((block) => blockView[block.kind](block));

export function Markdown({ text }) {
  return useMemo(() => html`<div class="prose">${blocks(parseBlocks(text))}</div>`, [text]);
}
