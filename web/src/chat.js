// SPDX-License-Identifier: Apache-2.0
//
// chat.js: the conversation: messages, the answer being written, and the field to type in.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import { rate, whole } from './format.js';
import { html, Icon } from './html.js';
import { connection, modelId, status } from './live.js';
import { CopyButton, Markdown } from './markdown-view.js';
import { announcement, answer, ask, regenerate, stop } from './session.js';
import { currentId, editing, messages, settingsOpen, storageFull } from './state.js';

const SUGGESTIONS = [
  'Explain in three sentences how rainbows form.',
  'Write a short poem about a calm sea.',
  'Give me a simple recipe for pancakes.',
];
const NEAR_BOTTOM_PX = 48;  // closer than this counts as "at the end": new text keeps it there

const Stats = ({ stats }) => stats && html`
  <span class="stats">${whole(stats.tokens)} tokens${stats.rate ? ` · ${rate(stats.rate)} tok/s` : ''}</span>`;

const NOTES = [
  ['stopped', () => 'Stopped.'],
  ['cut', () => 'Cut at the longest answer that the settings allow.'],
];

const SmallButton = ({ name, icon, words, onClick }) => html`
  <button type="button" class="small-button ${name}" onClick=${onClick}><${Icon} name=${icon} /><span>${words}</span></button>`;

const openSettings = () => (settingsOpen.value = true);
const editLast = () => (editing.value = true);

// The buttons for the newest answer.  "Again" is not offered where the message is too long: it would fail again.
const Remedies = ({ message: { error, locked, tooLong } }) => html`
  ${!tooLong && html`
    <${SmallButton} name="again" icon="again" words=${error ? 'Try again' : 'Regenerate'} onClick=${regenerate} />`}
  ${locked && html`<${SmallButton} name="give-key" icon="gear" words="Enter the key" onClick=${openSettings} />`}
  <${SmallButton} name="edit" icon="pen" words="Edit message" onClick=${editLast} />`;

function Answer({ message, last }) {
  return html`
    <article class="message answer" aria-label="Answer">
      ${message.content && html`<${Markdown} text=${message.content} />`}
      ${NOTES.map(([key, words]) => message[key] && html`<p class="note">${words()}</p>`)}
      ${message.error && html`<p class="failure" role="alert">${message.error}</p>`}
      <footer>
        ${message.content && html`<${CopyButton} text=${message.content} />`}
        ${last && html`<${Remedies} message=${message} />`}
        <${Stats} stats=${message.stats} />
      </footer>
    </article>`;
}

const Question = ({ message }) => html`
  <article class="message question" aria-label="You"><p>${message.content}</p></article>`;

// The answer being written.  Only this component is drawn again when text comes in.
function LiveAnswer() {
  const { text, waiting, tokens, rate: speed } = answer.value;
  return html`
    <article class="message answer live" aria-label="Answer">
      ${text ? html`<${Markdown} text=${text} />`
             : html`<p class="thinking"><span class="dots" aria-hidden="true"><i /><i /><i /></span>
                      ${waiting ? 'The model is loading; the answer starts when it is there.' : ''}</p>`}
      <footer><${Stats} stats=${tokens ? { tokens, rate: speed } : null} /></footer>
    </article>`;
}

const WELCOME = {
  connecting: 'Connecting…',
  loading: 'The model is loading. You can already type.',
  locked: html`This server wants an API key:${' '}
    <button type="button" class="link-button" onClick=${openSettings}>enter it in the settings</button>.`,
  unreachable: 'The server does not answer. Trying again every second.',
};

function Welcome() {
  const state = connection.value;
  const name = status.value?.model?.name || modelId.value;
  return html`
    <div class="welcome">
      <h1>${state === 'ready' ? html`Chat with <em>${name}</em>` : 'Motley'}</h1>
      <p>${WELCOME[state] ?? 'It runs on this machine. Nothing you write leaves it.'}</p>
      ${state === 'ready' && html`
        <ul class="suggestions">
          ${SUGGESTIONS.map((text) => html`<li><button type="button" onClick=${() => ask(text)}>${text}</button></li>`)}
        </ul>`}
    </div>`;
}

// Keeps the end in view while the person is at the end.  Stops as soon as they scroll up, even by one
// pixel: otherwise new text would pull the view back while they scroll.
function useFollowing(scroller) {
  const following = useRef(true);
  const lastTop = useRef(0);
  const [away, setAway] = useState(false);
  const toEnd = () => {
    following.current = true;
    scroller.current.scrollTop = scroller.current.scrollHeight;
    lastTop.current = scroller.current.scrollTop;  // onScroll uses it to tell our own scrolling from a person's
  };
  const letGo = (event) => {
    if (event.type === 'touchmove' || event.deltaY < 0) following.current = false;
  };
  const onScroll = () => {
    const { scrollHeight, scrollTop, clientHeight } = scroller.current;
    const below = scrollHeight - scrollTop - clientHeight;
    if (scrollTop < lastTop.current && below > 1) following.current = false;
    else if (scrollTop > lastTop.current && below < NEAR_BOTTOM_PX) following.current = true;
    lastTop.current = scrollTop;
    setAway(below >= NEAR_BOTTOM_PX && !following.current);
  };
  useEffect(() => {
    const follow = () => following.current && toEnd();
    const observer = new ResizeObserver(follow);
    observer.observe(scroller.current);
    observer.observe(scroller.current.firstElementChild);
    return () => observer.disconnect();
  }, []);
  return { away, toEnd, listeners: { onScroll, onWheel: letGo, onTouchMove: letGo } };
}

function Conversation() {
  const list = messages.value;
  const scroller = useRef(null);
  const { away, toEnd, listeners } = useFollowing(scroller);
  const live = answer.value !== null && answer.value.chatId === currentId.value;
  const questions = list.filter((message) => message.role === 'user').length;
  useLayoutEffect(toEnd, [currentId.value, questions]);  // not when an answer ends: that must not move the view
  return html`
    <div class="scroller" ref=${scroller} tabindex="-1" ...${listeners}>
      <div class="column" role="log" aria-live="polite" aria-busy=${live} aria-label="Conversation">
        ${list.length === 0 && html`<${Welcome} />`}
        ${list.map((message, i) => (message.role === 'user'
          ? html`<${Question} key=${i} message=${message} />`
          : html`<${Answer} key=${i} message=${message} last=${i === list.length - 1 && !live} />`))}
        ${live && html`<${LiveAnswer} key="live" />`}
      </div>
    </div>
    ${away && html`
      <button type="button" class="to-end" onClick=${toEnd} aria-label="Go to the newest text">
        <${Icon} name="down" />
      </button>`}`;
}

function Hint() {
  if (storageFull.value) return 'This browser cannot keep more chats: delete some, or they are lost when the page closes.';
  if (editing.value)
    return html`You edit your last message; its answer will be replaced. <button type="button" class="link-button"
      onClick=${() => (editing.value = false)}>Leave it as it was</button>`;
  return html`<kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> starts a new line`;
}

function Composer() {
  const field = useRef(null);
  const [text, setText] = useState('');
  const writing = answer.value !== null;
  useLayoutEffect(() => field.current.focus({ preventScroll: true }), [currentId.value, editing.value]);
  useEffect(() => {  // puts the question into the field; removes it again when it was not changed
    if (editing.value) setText(messages.value.findLast((message) => message.role === 'user').content);
    return editing.value ? () => setText('') : undefined;
  }, [editing.value]);
  useLayoutEffect(() => {
    field.current.style.height = 'auto';
    field.current.style.height = `${field.current.scrollHeight}px`;
  }, [text]);
  const send = (event) => {
    event?.preventDefault();
    if (writing) return stop();
    if (ask(text)) setText('');
    field.current.focus();
  };
  const onKeyDown = (event) => {
    if (event.key === 'Escape') writing ? stop() : (editing.value = false);
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!writing) send();
  };
  return html`
    <form class="composer" onSubmit=${send}>
      <textarea ref=${field} rows="1" value=${text} aria-label="Your message" placeholder="Write a message"
        onInput=${(event) => setText(event.target.value)} onKeyDown=${onKeyDown} />
      <button class="send" aria-label=${writing ? 'Stop the answer' : 'Send'} title=${writing ? 'Stop' : 'Send'}
        disabled=${!writing && text.trim() === ''}>
        <${Icon} name=${writing ? 'stop' : 'send'} />
      </button>
    </form>
    <p class="hint"><${Hint} /></p>`;
}

export const Chat = () => html`
  <section class="chat" aria-label="Chat">
    <${Conversation} />
    <${Composer} />
    <p class="unseen" role="status">${announcement.value}</p>
  </section>`;
