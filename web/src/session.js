// SPDX-License-Identifier: Apache-2.0
//
// session.js: asking and answering.  At most one answer is being written at a time.
//
//   ask(text) or regenerate() → `answer` holds the growing text → the finished message goes into its chat.
// However an answer ends (done, stopped, failed, page closed), the text written so far is kept.

import { signal } from '@preact/signals';

import { PlainError, streamChat } from './api.js';
import { modelId, untilReady } from './live.js';
import { chats, current, editing, messages, putMessages, settings, startChat } from './state.js';

const SHOW_EVERY_MS = 40;  // drawing after every token would cost time and show little

// {chatId, text, tokens, rate, waiting} while one is written, else null.  waiting: for the model to load.
export const answer = signal(null);
export const announcement = signal('');  // for screen readers

let running = null;  // {controller, text, pieces, firstMs, timer} of the answer being written

function requestBody(list) {
  const { temperature, maxTokens, system, seed } = settings.value;
  const history = list.filter((m) => m.content !== '').map(({ role, content }) => ({ role, content }));
  return {
    model: modelId.value ?? 'default',
    messages: system.trim() ? [{ role: 'system', content: system }, ...history] : history,
    temperature,
    max_tokens: maxTokens,
    ...(seed === '' ? {} : { seed: Number(seed) }),
  };
}

// Tokens and speed, from the first token on.  `pieces` counts what came; the server's own count is exact.
function statsOf(run, tokens) {
  const seconds = (performance.now() - run.firstMs) / 1000;
  return { tokens, seconds, rate: tokens > 1 && seconds > 0 ? (tokens - 1) / seconds : null };
}

function show(run) {
  run.timer = null;
  answer.value = { ...answer.value, text: run.text, waiting: false, ...statsOf(run, run.pieces) };
}

function onText(run, piece) {
  if (run.pieces++ === 0) run.firstMs = performance.now();
  run.text += piece;
  run.timer ??= setTimeout(show, SHOW_EVERY_MS, run);
}

// Waits for a model that is still loading; every other failure goes to the caller.
async function streamWhenReady(run, body) {
  for (;;) {
    try {
      return await streamChat({
        key: settings.value.key, body, signal: run.controller.signal, onText: (piece) => onText(run, piece),
      });
    } catch (error) {
      if (!error.loading) throw error;
      answer.value = { ...answer.value, waiting: true };
      await new Promise((wake) => setTimeout(wake, 300));
      await untilReady(run.controller.signal);
      body.model = modelId.value ?? body.model;
    }
  }
}

function outcomeOf(error) {
  if (error.name === 'AbortError') return { stopped: true };
  if (error instanceof PlainError) return { error: error.message, locked: error.locked, tooLong: error.tooLong };
  return { error: 'The connection was cut in the middle of the answer.' };
}

// Puts the answer as far as it came into its chat.
function keep(run, outcome) {
  clearTimeout(run.timer);
  const { chatId } = answer.value;
  const chat = chats.value.find(({ id }) => id === chatId);
  const stats = run.pieces ? statsOf(run, outcome.tokens ?? run.pieces) : null;
  delete outcome.tokens;
  answer.value = null;
  running = null;
  if (chat) putMessages(chatId, [...chat.messages, { role: 'assistant', content: run.text, stats, ...outcome }]);
}

async function write(chatId, list) {
  const run = { controller: new AbortController(), text: '', pieces: 0, firstMs: performance.now(), timer: null };
  running = run;
  answer.value = { chatId, text: '', tokens: 0, rate: null, waiting: false };
  announcement.value = 'Answering';
  let outcome;
  try {
    const { finish, usage } = await streamWhenReady(run, requestBody(list));
    outcome = { cut: finish === 'length', tokens: usage?.completion_tokens };
    announcement.value = 'Answer complete';
  } catch (error) {
    outcome = outcomeOf(error);
    announcement.value = outcome.error ?? 'Stopped';
  }
  if (running === run) keep(run, outcome);
}

export function stop() {
  running?.controller.abort();
}

// The messages before the newest question.
const beforeLast = () => messages.value.slice(0, messages.value.findLastIndex((message) => message.role === 'user'));

// A message that is being edited replaces the newest question; the answer to that question is removed.
export function ask(text) {
  if (running || text.trim() === '') return false;
  const list = [...(editing.value ? beforeLast() : messages.value), { role: 'user', content: text }];
  editing.value = false;
  const chatId = current.value?.id;
  if (chatId) putMessages(chatId, list);
  write(chatId ?? startChat(list), list);
  return true;
}

// Drops the last answer and asks for another one.
export function regenerate() {
  const list = messages.value;
  const last = list.findLastIndex((message) => message.role === 'user');
  if (running || last < 0) return;
  const kept = list.slice(0, last + 1);
  editing.value = false;
  putMessages(current.value.id, kept);
  write(current.value.id, kept);
}

// A page that is closed in the middle of an answer keeps the part that has come.
addEventListener('pagehide', () => {
  if (!running) return;
  const run = running;
  run.controller.abort();
  keep(run, { stopped: true });
});
