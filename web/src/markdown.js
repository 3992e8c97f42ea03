// SPDX-License-Identifier: Apache-2.0
//
// markdown.js: the Markdown that models write, as a tree.  The tree is plain data: nothing here touches the page,
// and the view (markdown-view.js) makes elements of it, so no text of a model ever becomes markup.
//
// parseBlocks(text) → blocks, each one of
//   {kind: 'code', language, text}            {kind: 'heading', level, inline}    {kind: 'rule'}
//   {kind: 'list', ordered, start, items}     {kind: 'quote', blocks}             {kind: 'paragraph', inline}
//   {kind: 'table', align, head, rows}        items: arrays of blocks; head, rows: arrays of inline
// parseInline(text) → strings and {kind: 'strong' | 'em' | 'strike', inline}, {kind: 'code', text},
//   {kind: 'link', href, inline}, {kind: 'break'}
//
// Text that is still being written is accepted: an open fence is code up to the end, an open ** is two stars.

const DEPTH_MAX = 8;  // of quotes and lists in each other; deeper ones are plain text

const FENCE = /^ {0,3}(?:(`{3,})([^`]*)|(~{3,})(.*))$/;  // what follows names the language
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+|$)/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

// ---- lines inside one paragraph

const INLINE = [
  [/\\([\\`*_{}[\]()#+\-.!|~>$])/y, (m) => m[1]],
  [/(`+)([^]{1,4000}?)(?<!`)\1(?!`)/y, (m) => ({ kind: 'code', text: m[2].replace(/^ (.*) $/s, '$1') })],
  [/\*\*(?=\S)([^]{0,4000}?\S)\*\*/y, (m, depth) => nested('strong', m[1], depth)],
  [/(?<!\w)__(?=\S)([^]{0,4000}?\S)__(?!\w)/y, (m, depth) => nested('strong', m[1], depth)],
  [/\*(?=[^\s*])([^]{0,4000}?[^\s*])\*(?!\*)/y, (m, depth) => nested('em', m[1], depth)],
  [/(?<!\w)_(?=[^\s_])([^]{0,4000}?[^\s_])_(?!\w)/y, (m, depth) => nested('em', m[1], depth)],
  [/~~(?=\S)([^]{0,4000}?\S)~~/y, (m, depth) => nested('strike', m[1], depth)],
  [/\[([^\]\n]{1,500})\]\((https?:\/\/[^\s()]{1,2000})\)/y,
    (m, depth) => ({ kind: 'link', href: m[2], inline: parseInline(m[1], depth + 1) })],
  [/https?:\/\/[^\s<>()[\]"'`*]{1,2000}[^\s<>()[\]"'`*.,;:!?]/y,
    (m) => ({ kind: 'link', href: m[0], inline: [m[0]] })],
  [/(?: {2,}|\\)\n/y, () => ({ kind: 'break' })],
];
const nested = (kind, text, depth) => ({ kind, inline: parseInline(text, depth + 1) });

function matchInline(text, at, depth) {
  for (const [pattern, make] of INLINE) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) return { length: match[0].length, node: make(match, depth) };
  }
  return null;
}

export function parseInline(text, depth = 0) {
  if (depth > DEPTH_MAX) return [text];
  const out = [];
  let plain = '';
  for (let at = 0; at < text.length;) {
    const match = /[\\`*_~[h ]/.test(text[at]) ? matchInline(text, at, depth) : null;
    if (!match) {
      plain += text[at++];
      continue;
    }
    at += match.length;
    if (typeof match.node === 'string') {
      plain += match.node;
      continue;
    }
    if (plain) out.push(plain);
    plain = '';
    out.push(match.node);
  }
  if (plain) out.push(plain);
  return out;
}

// ---- blocks.  Each reader gets the lines and where it stands, and returns [block, next line] or null.

function readCode(lines, at) {
  const open = FENCE.exec(lines[at]);
  if (!open) return null;
  const fence = open[1] ?? open[3];
  const language = (open[2] ?? open[4]).trim();
  const close = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end])) end++;
  return [{ kind: 'code', language, text: lines.slice(at + 1, end).join('\n') }, end + 1];
}

function readHeading(lines, at) {
  const match = HEADING.exec(lines[at]);
  return match && [{ kind: 'heading', level: match[1].length, inline: parseInline(match[2]) }, at + 1];
}

function readRule(lines, at) {
  return RULE.test(lines[at]) ? [{ kind: 'rule' }, at + 1] : null;
}

function readQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  if (end === at) return null;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ''));
  return [{ kind: 'quote', blocks: blocksOf(inner, depth + 1) }, end];
}

const indentOf = (line) => line.length - line.trimStart().length;

// The lines of one item: its first line, then all that is indented beyond its marker, blank lines in between.
function readItem(lines, at, match) {
  const inner = [lines[at].slice(match[0].length)];
  let end = at + 1;
  for (; end < lines.length; end++) {
    const blank = lines[end].trim() === '';
    const next = blank ? lines[end + 1] : lines[end];
    if (next === undefined || next.trim() === '') break;
    if (indentOf(next) > match[1].length) inner.push(lines[end].slice(Math.min(match[0].length, indentOf(lines[end]))));
    else if (blank || isBlockStart(lines, end)) break;
    else inner.push(lines[end]);  // a lazy continuation of the paragraph
  }
  return [inner, end];
}

function readList(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return null;
  const ordered = /\d/.test(first[2]);
  const items = [];
  while (at < lines.length) {
    const match = ITEM.exec(lines[at]);
    const same = match && /\d/.test(match[2]) === ordered && match[1].length >= first[1].length;
    if (!same || RULE.test(lines[at])) break;
    const [inner, end] = readItem(lines, at, match);
    items.push(blocksOf(inner, depth + 1));
    at = end;
    if (lines[at]?.trim() === '' && ITEM.test(lines[at + 1] ?? '')) at++;  // a loose list
  }
  return [{ kind: 'list', ordered, start: ordered ? parseInt(first[2], 10) : 1, items }, at];
}

const cellsOf = (line) =>
  line.trim().replace(/^\||(?<!\\)\|$/g, '').split(/(?<!\\)\|/).map((cell) => parseInline(cell.trim()));

function readTable(lines, at) {
  if (!lines[at].includes('|') || !TABLE_RULE.test(lines[at + 1] ?? '') || !lines[at + 1].includes('-')) return null;
  const head = cellsOf(lines[at]);
  const marks = lines[at + 1].trim().replace(/^\||\|$/g, '').split('|').map((mark) => mark.trim());
  if (marks.length !== head.length) return null;
  const align = marks.map((m) => (m.endsWith(':') ? (m.startsWith(':') ? 'center' : 'right') : 'left'));
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|')) end++;
  return [{ kind: 'table', align, head, rows: lines.slice(at + 2, end).map(cellsOf) }, end];
}

const READERS = [readCode, readHeading, readRule, readQuote, readList, readTable];

// Whether the line ends a paragraph above it.
function isBlockStart(lines, at) {
  return [FENCE, HEADING, RULE, QUOTE].some((pattern) => pattern.test(lines[at])) ||
         ITEM.test(lines[at]) || readTable(lines, at) !== null;
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== '' && !isBlockStart(lines, end)) end++;
  const text = lines.slice(at, end).map((line) => line.trimStart()).join('\n').trimEnd();
  return [{ kind: 'paragraph', inline: parseInline(text) }, end];
}

function blocksOf(lines, depth) {
  if (depth > DEPTH_MAX) return [{ kind: 'paragraph', inline: [lines.join('\n')] }];
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].trim() === '') {
      at++;
      continue;
    }
    let found = null;
    for (const reader of READERS) if ((found = reader(lines, at, depth))) break;
    found ??= readParagraph(lines, at);
    blocks.push(found[0]);
    at = found[1];
  }
  return blocks;
}

export const parseBlocks = (text) => blocksOf(text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n'), 0);
