// SPDX-License-Identifier: Apache-2.0
//
// api.js: the server's endpoints as functions.  Failures are Errors whose message is for a person; a PlainError says
// what a person can do: wait (`loading`: the server runs, its model is not there yet), give a key (`locked`), or write
// less (`tooLong`).

import { readEvents } from './sse.js';

export class PlainError extends Error {
  constructor(message, { loading = false, locked = false, tooLong = false } = {}) {
    super(message);
    this.loading = loading;
    this.locked = locked;
    this.tooLong = tooLong;
  }
}

const STATUS_WORDS = {
  401: 'The server wants an API key.',
  403: 'The server does not accept this API key.',
  404: 'The server does not know this model.',
  413: 'The message is too long for the server.',
  429: 'The server is busy. Try again in a moment.',
  503: 'The server cannot answer now. Try again in a moment.',
};

// Prefers the server's own message (OpenAI's error shape); without one, the text for the status.
async function errorOf(response) {
  const body = await response.json().catch(() => null);
  const said = body?.error?.message;
  const code = body?.error?.code;
  const { status } = response;
  const words = status === 401 ? STATUS_WORDS[401] : said || STATUS_WORDS[status];
  return new PlainError(words || `The server answered with status ${status}.`,
                        { loading: status === 503 && code === 'loading', locked: status === 401,
                          tooLong: status === 413 || code === 'context_length_exceeded' });
}

async function request(path, { key, ...options } = {}) {
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let response;
  try {
    response = await fetch(path, { cache: 'no-store', ...options, headers });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new PlainError('The server does not answer. Is motley still running?');
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function readStatus(key) {
  const response = await request('/api/status', { key, signal: AbortSignal.timeout?.(5000) });
  return response.json();
}

export async function readModelId(key) {
  const models = await (await request('/v1/models', { key })).json();
  return models.data?.[0]?.id ?? null;
}

// Streams one answer.  onText(text) is called with each piece; → {finish, usage}, usage null when not told.
export async function streamChat({ key, body, signal, onText }) {
  const response = await request('/v1/chat/completions', {
    key, signal,
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  });
  const result = { finish: null, usage: null };
  for await (const data of readEvents(response.body)) {
    if (data === '[DONE]') return result;
    const event = JSON.parse(data);
    if (event.error) throw new PlainError(event.error.message || 'The server stopped with an error.');
    if (event.usage) result.usage = event.usage;
    const choice = event.choices?.[0];
    if (choice?.delta?.content) onText(choice.delta.content);
    if (choice?.finish_reason) result.finish = choice.finish_reason;
  }
  if (!result.finish) throw new PlainError('The connection was cut in the middle of the answer.');
  return result;
}
