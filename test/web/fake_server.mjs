// SPDX-License-Identifier: Apache-2.0
//
// fake_server.mjs: a server that speaks the endpoints which the page uses, for looking at the page and for the cases
// that a real server shows rarely: loading, errors, a cut connection.  It answers from fixed texts.
//
// Usage: node test/web/fake_server.mjs [PORT]      (0 = any; prints "http://127.0.0.1:PORT")
// What the last message begins with chooses the answer:
//   "markdown" every element · "long" 400 words · "error" a message that is too long · "busy" a full queue ·
//   "hostile" markup that must stay text
// POST /fake/mode?loading=1|0 makes it say 503 as while a model loads; ?key=K makes it want an API key; ?gone=1|0 makes
// it drop every connection; ?bare=1|0 makes it know nothing of the machine; ?hold=N makes every answer stand still
// after N words until hold is another number (0 = no hold); ?cut=1|0 cuts the connections of answers that stand still.
// GET /fake/asked is the body of the newest chat request, /fake/running the number of answers being written.

import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { buildFiles } from '../../scripts/embed-assets.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const files = new Map((await buildFiles(join(root, 'web'))).map((file) => [file.path, file]));
const started = Date.now();
const mode = { loading: false, gone: false, bare: false, key: '', hold: 0, cut: false };
const changes = new EventEmitter().setMaxListeners(0);  // 'change': the mode is another one, or a client went away
let lastAsked = null;
const engine = { running: 0, waiting: 0, pages: 512, pages_used: 0, requests: 0, prompt_tokens: 0, generated_tokens: 0 };

const MARKDOWN = `Here is a **small** example with \`inline code\`, *emphasis* and a [link](https://example.org/a).

## Sorting

1. Pick a pivot
2. Split in two
   - smaller ones
   - larger ones
3. Repeat

\`\`\`python
def quicksort(a):
    if len(a) < 2: return a
    pivot, *rest = a
    return quicksort([x for x in rest if x < pivot]) + [pivot] + quicksort([x for x in rest if x >= pivot])
\`\`\`

| size | time |
|-----:|:-----|
| 1,000 | 0.3 ms |
| 100,000 | 41 ms |

> Divide each difficulty into as many parts as is feasible.`;

const SEA = 'Rainbows form when sunlight enters drops of rain and bends. Inside each drop it is reflected at the back ' +
  'and bends again on its way out, and because every colour bends by a slightly different angle, white light ' +
  'fans out into a spectrum. You see the red from higher drops and the violet from lower ones.';

const ANSWERS = [
  ['markdown', MARKDOWN, 8],
  ['long', `${SEA}\n\n`.repeat(8), 8],
  ['hostile', '<img src=x onerror="document.title=1"><script>document.title=2</script> [x](javascript:alert(1)) **<b>b</b>**', 5],
  ['', SEA, 12],
];

const status = () => ({
  version: '0.1.0',
  uptime_s: Math.round((Date.now() - started) / 1000) + 4000,
  model: mode.loading ? null : {
    name: 'SmolLM2 135M Instruct', architecture: 'llama', parameters: 134515008, types: 'Q4_1 x210, F32 x61, Q8_0 x1',
    file_bytes: 98_000_000, context: 8192, layers: 30, width: 576, heads: 9, kv_heads: 3, vocabulary: 49152,
  },
  processor: mode.bare ? null : { name: 'AMD EPYC 9354 32-Core Processor', cores: 2, isa: 'avx512-bf16',
                                 load_percent: 12 + 70 * engine.running + 9 * Math.sin(Date.now() / 3000) },
  memory: mode.bare ? null : { total: 24 * 2 ** 30, available: 15.5 * 2 ** 30, resident: 310 * 2 ** 20 },
  engine: mode.loading ? null : { ...engine, prefill_tok_s: engine.running ? 812.4 : 0, decode_tok_s: engine.running ? 38.2 : 0 },
});

const json = (response, code, body) => {
  response.writeHead(code, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify(body));
};
const refuse = (response, status, type, message, code = null) =>
  json(response, status, { error: { message, type, code, param: null } });
const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));

async function chat(request, response) {
  let body = '';
  for await (const part of request) body += part;
  const asked = JSON.parse(body);
  lastAsked = asked;
  const last = asked.messages.at(-1).content;
  if (last.startsWith('error'))
    return refuse(response, 400, 'invalid_request_error', 'The conversation has 9,000 tokens; this model takes 8,192.',
                  'context_length_exceeded');
  if (last.startsWith('busy')) return refuse(response, 429, 'server_error', 'too many requests wait already', 'busy');
  const [, text, delay] = ANSWERS.find(([start]) => last.startsWith(start));
  const pieces = text.match(/\s*\S+|\s+$/g).slice(0, asked.max_tokens);
  const send = (event) => response.write(`data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`);
  const chunk = (delta, reason = null) =>
    send({ id: 'chatcmpl-1', object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: reason }] });
  let gone = false;
  response.on('close', () => (gone = true, changes.emit('change')));
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  engine.running++;
  engine.requests++;
  engine.prompt_tokens += 40;
  engine.pages_used += 12;
  chunk({ role: 'assistant', content: '' });
  for (const [sent, piece] of pieces.entries()) {
    while (!gone && mode.hold && sent >= mode.hold && !mode.cut) await once(changes, 'change');
    if (!gone && mode.hold && mode.cut) response.destroy(), await once(response, 'close');
    if (gone) break;
    chunk({ content: piece });
    engine.generated_tokens++;
    await sleep(delay);
  }
  engine.running--;
  if (gone) return;
  chunk({}, pieces.length < asked.max_tokens ? 'stop' : 'length');
  send({ choices: [], usage: { prompt_tokens: 40, completion_tokens: pieces.length, total_tokens: 40 + pieces.length } });
  send('[DONE]');
  response.end();
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://x');
  if (mode.gone && !url.pathname.startsWith('/fake/')) return request.destroy();
  const file = files.get(url.pathname);
  if (file) {
    response.writeHead(200, { 'Content-Type': file.type, 'Content-Security-Policy': "default-src 'self'" });
    return response.end(file.content);
  }
  if (url.pathname === '/fake/mode') {
    for (const name of ['loading', 'gone', 'bare', 'cut'])
      if (url.searchParams.has(name)) mode[name] = url.searchParams.get(name) === '1';
    mode.key = url.searchParams.get('key') ?? mode.key;
    mode.hold = Number(url.searchParams.get('hold') ?? mode.hold);
    changes.emit('change');
    return json(response, 200, mode);
  }
  if (url.pathname === '/fake/running') return json(response, 200, engine.running);
  if (url.pathname === '/fake/asked') return json(response, 200, lastAsked);
  if (mode.key && request.headers.authorization !== `Bearer ${mode.key}`)
    return refuse(response, 401, 'authentication_error', 'wrong key');
  if (url.pathname === '/api/status') return json(response, 200, status());
  if (mode.loading) return refuse(response, 503, 'server_error', 'the model is loading; try again in a moment', 'loading');
  if (url.pathname === '/v1/models') return json(response, 200, { data: [{ id: 'smollm2-135m-instruct', object: 'model' }] });
  if (url.pathname === '/v1/chat/completions') return chat(request, response).catch(() => response.destroy());
  return refuse(response, 404, 'not_found_error', `no such path: ${url.pathname}`);
});
server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
