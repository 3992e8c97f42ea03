// SPDX-License-Identifier: Apache-2.0
//
// live.js: reads the server's status once a second while the page is visible, and keeps the last minute.
//
//   connection: 'connecting' → 'ready' ⇄ 'loading' (the server runs, the model is not there yet)
//                                      ⇄ 'locked' (wants a key) ⇄ 'unreachable'

import { batch, signal } from '@preact/signals';

import { readModelId, readStatus } from './api.js';
import { settings } from './state.js';

const PERIOD_MS = 1000;
export const HISTORY_LENGTH = 60;  // readings, so a minute

export const connection = signal('connecting');
export const modelId = signal(null);
export const status = signal(null);  // the newest /api/status
export const history = signal({ processor: [], memory: [], speed: [] });

const push = (list, value) => [...list.slice(1 - HISTORY_LENGTH), value];

// Tokens generated since the reading before, per second: the true rate of that second, not a mean.
function speedBetween(before, after, seconds) {
  const made = after.engine?.generated_tokens - before?.engine?.generated_tokens;
  return made >= 0 && seconds > 0 ? made / seconds : 0;
}

function take(reading, seconds) {
  const { processor, memory } = reading;
  const speed = speedBetween(status.value, reading, seconds);
  batch(() => {
    history.value = {
      processor: push(history.value.processor, processor?.load_percent ?? 0),
      memory: push(history.value.memory, memory ? (100 * (memory.total - memory.available)) / memory.total : 0),
      speed: push(history.value.speed, speed),
    };
    status.value = reading;
    connection.value = reading.model ? 'ready' : 'loading';
    if (!reading.model) modelId.value = null;  // the server may come back with another model
  });
}

function stateOf(error) {
  if (error.loading) return 'loading';
  return error.locked ? 'locked' : 'unreachable';
}

let lastReadingMs = 0;
async function pollOnce() {
  const { key } = settings.value;
  try {
    const reading = await readStatus(key);
    const now = performance.now();
    take(reading, (now - lastReadingMs) / 1000);
    lastReadingMs = now;
    if (connection.value === 'ready') modelId.value ??= await readModelId(key);
  } catch (error) {
    connection.value = stateOf(error);
    if (connection.value !== 'ready') modelId.value = null;
  }
}

export async function startPolling() {
  for (;;) {
    if (!document.hidden) await pollOnce();
    await new Promise((wake) => setTimeout(wake, PERIOD_MS));
  }
}

// Resolves when the server can answer; rejects when `signal` aborts.
export function untilReady(abortSignal) {
  return new Promise((resolve, reject) => {
    let stop = () => {};
    const finish = (then) => (value) => queueMicrotask(() => (stop(), then(value)));
    abortSignal.addEventListener('abort', () => finish(reject)(abortSignal.reason), { once: true });
    stop = connection.subscribe((state) => state === 'ready' && finish(resolve)());
  });
}
