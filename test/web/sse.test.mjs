// SPDX-License-Identifier: Apache-2.0
//
// sse.test.mjs: events come out the same however the bytes are cut, also inside a character.  Run by units.test.sh.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { EventParser } from '../../web/src/sse.js';

const STREAM = ': comment\r\ndata: {"a":"é€😀"}\r\n\r\nevent: x\ndata: one\ndata:two\n\n\n\ndata: [DONE]\n\ndata: never ended\n';
const EVENTS = ['{"a":"é€😀"}', 'one\ntwo', '[DONE]'];

test('cut in two at every byte, and into single bytes', () => {
  const bytes = new TextEncoder().encode(STREAM);
  for (let at = 0; at <= bytes.length; at++) {
    const parser = new EventParser();
    assert.deepEqual([...parser.add(bytes.slice(0, at)), ...parser.add(bytes.slice(at))], EVENTS, `cut at ${at}`);
  }
  const parser = new EventParser();
  assert.deepEqual([...bytes].flatMap((byte) => parser.add(Uint8Array.of(byte))), EVENTS);
});
