// SPDX-License-Identifier: Apache-2.0
//
// sse.js: reads server-sent events from a stream of bytes that may be cut anywhere.
//
// Only the data of an event matters here: lines "data: …" up to an empty line, joined by newlines.  Comments and
// other fields are skipped.  An event that the stream ends in the middle of is dropped, as the standard says.

export class EventParser {
  constructor() {
    this.decoder = new TextDecoder();
    this.rest = '';  // the line that is not complete yet
    this.data = [];  // data lines of the event that is not complete yet
  }

  // bytes (Uint8Array) → the data of each event they complete.
  add(bytes) {
    const lines = (this.rest + this.decoder.decode(bytes, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    return lines.map((line) => this.line(line)).filter((event) => event !== null);
  }

  line(text) {
    if (text === '') {
      const event = this.data.length ? this.data.join('\n') : null;
      this.data = [];
      return event;
    }
    if (text.startsWith('data:')) this.data.push(text.slice(text[5] === ' ' ? 6 : 5));
    return null;
  }
}

// body: a ReadableStream of bytes.
export async function* readEvents(body) {
  const parser = new EventParser();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.add(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
