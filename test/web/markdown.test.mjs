// SPDX-License-Identifier: Apache-2.0
//
// markdown.test.mjs: what models write becomes the tree it means; nothing of it is lost or becomes markup, and no text
// takes long, however hostile.  Run by units.test.sh.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseBlocks, parseInline } from '../../web/src/markdown.js';

// A tree in short: ["list", ["a"], ["b"]] and so on.
function brief(node) {
  if (typeof node === 'string') return node;
  switch (node.kind) {
    case 'paragraph': return ['p', ...node.inline.map(brief)];
    case 'heading': return [`h${node.level}`, ...node.inline.map(brief)];
    case 'code': return node.language === undefined ? ['c', node.text] : ['code', node.language, node.text];
    case 'list': return [node.ordered ? `ol${node.start}` : 'ul', ...node.items.map((item) => item.map(brief))];
    case 'quote': return ['quote', ...node.blocks.map(brief)];
    case 'table': return ['table', node.align, node.head.map((c) => c.map(brief)), node.rows.map((r) => r.map((c) => c.map(brief)))];
    case 'link': return ['a', node.href, ...node.inline.map(brief)];
    case 'rule': case 'break': return [node.kind];
    default: return [node.kind, ...node.inline.map(brief)];
  }
}
const blocks = (text) => parseBlocks(text).map(brief);
const inline = (text) => parseInline(text).map(brief);

const BLOCKS = [
  ['', []],
  ['a\nb\n\nc', [['p', 'a\nb'], ['p', 'c']]],
  ['# Title\ntext', [['h1', 'Title'], ['p', 'text']]],
  ['### A ##', [['h3', 'A']]],
  ['#no title', [['p', '#no title']]],
  ['---', [['rule']]],
  ['```js\na < b\n\n  c\n```\nafter', [['code', 'js', 'a < b\n\n  c'], ['p', 'after']]],
  ['```\nopen', [['code', '', 'open']]],
  ['````\n```\n````', [['code', '', '```']]],
  ['~~~\n# x\n~~~', [['code', '', '# x']]],
  ['- a\n- b', [['ul', [['p', 'a']], [['p', 'b']]]]],
  ['1. a\n2. b', [['ol1', [['p', 'a']], [['p', 'b']]]]],
  ['3) a', [['ol3', [['p', 'a']]]]],
  ['- a\n  - b\n  - c\n- d', [['ul', [['p', 'a'], ['ul', [['p', 'b']], [['p', 'c']]]], [['p', 'd']]]]],
  ['1. a\n\n2. b', [['ol1', [['p', 'a']], [['p', 'b']]]]],
  ['- a\n\n  more', [['ul', [['p', 'a'], ['p', 'more']]]]],
  ['- a\n  ```\n  x\n  ```', [['ul', [['p', 'a'], ['code', '', 'x']]]]],
  ['- a\n\ntext', [['ul', [['p', 'a']]], ['p', 'text']]],
  ['Steps:\n1. a\n2. b', [['p', 'Steps:'], ['ol1', [['p', 'a']], [['p', 'b']]]]],
  ['> a\n> - b', [['quote', ['p', 'a'], ['ul', [['p', 'b']]]]]],
  ['| a | b |\n|---|--:|\n| 1 | 2 |', [['table', ['left', 'right'], [['a'], ['b']], [[['1'], ['2']]]]]],
  ['a | b', [['p', 'a | b']]],
  ['<b>x</b>', [['p', '<b>x</b>']]],
];
for (const [text, tree] of BLOCKS) test(`blocks of ${JSON.stringify(text)}`, () => assert.deepEqual(blocks(text), tree));

const INLINE = [
  ['plain', ['plain']],
  ['**b** and *i*', [['strong', 'b'], ' and ', ['em', 'i']]],
  ['**b *i* b**', [['strong', 'b ', ['em', 'i'], ' b']]],
  ['__b__ _i_', [['strong', 'b'], ' ', ['em', 'i']]],
  ['snake_case_name', ['snake_case_name']],
  ['2 * 3 * 4', ['2 * 3 * 4']],
  ['**open', ['**open']],
  ['`a ** b`', [['c', 'a ** b']]],
  ['``a ` b``', [['c', 'a ` b']]],
  ['~~x~~', [['strike', 'x']]],
  ['\\*x\\*', ['*x*']],
  ['[a](https://x.org/b)', [['a', 'https://x.org/b', 'a']]],
  ['[a](javascript:alert(1))', ['[a](javascript:alert(1))']],
  ['see https://x.org/a.', ['see ', ['a', 'https://x.org/a', 'https://x.org/a'], '.']],
  ['a  \nb', ['a', ['break'], 'b']],
];
for (const [text, tree] of INLINE) test(`line ${JSON.stringify(text)}`, () => {
  const got = parseInline(text).map((node) => (node.kind === 'code' ? ['c', node.text] : brief(node)));
  assert.deepEqual(got, tree);
});

// Whatever text a model writes, its letters and digits all come out again, in order.
function textOf(node) {
  if (typeof node === 'string') return node;
  const parts = node.inline ?? node.blocks ?? node.items?.flat() ?? (node.head && [...node.head, ...node.rows.flat()].flat());
  return (node.language ?? '') + (node.text ?? '') + (parts ?? []).map(textOf).join('');
}
test('no letter is lost, over 3,000 random texts', () => {
  let state = 12345;
  const random = (n) => (state = (state * 1103515245 + 12345) % 2147483648) % n;
  const pieces = ['a', 'B7', ' ', '  ', '\n', '\n\n', '*', '**', '_', '`', '```', '- ', '# ', '> ', '| ', '|-|\n', '~~', '[', '](', ')', '\\', '<i>', 'é'];
  const letters = (text) => text.replace(/[^\p{L}\p{N}]/gu, '');
  for (let i = 0; i < 3000; i++) {
    let text = '';
    for (let n = random(40); n >= 0; n--) text += pieces[random(pieces.length)];
    assert.equal(letters(parseBlocks(text).map(textOf).join('')), letters(text), JSON.stringify(text));
  }
});

test('hostile texts end soon', () => {
  for (const piece of ['*', '**a', '_a ', '`', '[', '[a](', '> ', '- ', '  - ', '|', '| a |\n|-|', '1. ', '\\', '~~x', 'https://'])
    parseBlocks(piece.repeat(4000));
});
