// SPDX-License-Identifier: Apache-2.0
//
// main.js: the page as a whole: the list of chats, the chat, the machine.
//
//   wide (from 1100 px)      | chats | chat        | machine |      both sides always shown
//   medium (from 760 px)     | chats | chat        |                the machine slides in
//   narrow                   | chat  |                              both slide in, over the chat
// A side panel that is not shown is inert, so the keyboard cannot reach what nobody sees.

import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { signal } from '@preact/signals';

import { Chat } from './chat.js';
import { html, Icon, IconButton } from './html.js';
import { connection, modelId, startPolling, status } from './live.js';
import { Machine } from './machine.js';
import { answer, stop } from './session.js';
import { Settings } from './settings.js';
import { chats, currentId, deleteChat, editing, settingsOpen } from './state.js';

const drawer = signal(null);  // which side is slid in: 'chats', 'machine' or null

// A signal that follows a media query.
function mediaSignal(query) {
  const list = matchMedia(query);
  const result = signal(list.matches);
  list.addEventListener('change', () => (result.value = list.matches));
  return result;
}
const STANDS = { chats: mediaSignal('(min-width: 760px)'), machine: mediaSignal('(min-width: 1100px)') };

const STATES = {
  connecting: 'Connecting',
  ready: 'Ready',
  loading: 'Loading the model',
  locked: 'Wants a key',
  unreachable: 'Not connected',
};

// The button that opened a drawer has the focus again when it is closed.
let opener = null;
function openDrawer(name, button) {
  opener = button;
  drawer.value = name;
}
function closeDrawer() {
  if (drawer.value === null) return;
  drawer.value = null;
  setTimeout(() => opener.focus());  // once <main> is no longer inert
}
addEventListener('keydown', (event) => event.key === 'Escape' && closeDrawer());

function Side({ name, label, children }) {
  const element = useRef(null);
  const slides = !STANDS[name].value;
  const open = slides && drawer.value === name;
  useEffect(() => {
    if (open) element.current.querySelector('button').focus();
  }, [open]);
  const away = slides && !open;
  return html`
    <aside id=${name} ref=${element} class="side ${name} ${away ? 'away' : ''}" aria-label=${label} inert=${away}>
      ${slides && html`
        <div class="side-close"><${IconButton} icon="close" label="Close" onClick=${closeDrawer} /></div>`}
      ${children}
    </aside>`;
}

function goTo(id) {
  currentId.value = id;
  editing.value = false;
  closeDrawer();
}

// Deleting asks for a confirmation in the same place.
function ChatRow({ chat }) {
  const [sure, setSure] = useState(false);
  const remove = () => {
    if (!sure) return setSure(true);
    if (answer.value?.chatId === chat.id) stop();
    deleteChat(chat.id);
  };
  const label = sure ? `Really delete the chat “${chat.title}”` : `Delete the chat “${chat.title}”`;
  return html`
    <li class=${chat.id === currentId.value ? 'chosen' : ''}>
      <button type="button" class="chat-title" aria-current=${chat.id === currentId.value ? 'true' : undefined}
        onClick=${() => goTo(chat.id)}>${chat.title}</button>
      <button type="button" class="chat-delete ${sure ? 'sure' : ''}" aria-label=${label} title="Delete"
        onClick=${remove} onBlur=${() => setSure(false)}>
        ${sure ? 'Delete?' : html`<${Icon} name="bin" />`}
      </button>
    </li>`;
}

const Chats = () => html`
  <${Side} name="chats" label="Chats">
    <p class="brand"><span class="mark" aria-hidden="true"><i /><i /><i /></span>Motley</p>
    <button type="button" class="main-button new-chat" onClick=${() => goTo(null)}>
      <${Icon} name="plus" /><span>New chat</span>
    </button>
    <nav aria-label="Earlier chats"><ul>${chats.value.map((chat) => html`<${ChatRow} key=${chat.id} chat=${chat} />`)}</ul></nav>
    <button type="button" class="plain-button open-settings" onClick=${() => (settingsOpen.value = true)}>
      <${Icon} name="gear" /><span>Settings</span>
    </button>
  <//>`;

const Drawer = ({ name, icon, label }) => !STANDS[name].value && html`
  <${IconButton} icon=${icon} label=${label} aria-expanded=${drawer.value === name} aria-controls=${name}
    onClick=${(event) => openDrawer(name, event.currentTarget)} />`;

const TopBar = () => html`
  <header class="top">
    <${Drawer} name="chats" icon="menu" label="Chats and settings" />
    <p class="model" title=${modelId.value ?? ''}>${status.value?.model?.name ?? modelId.value ?? 'Motley'}</p>
    <p class="state ${connection.value}" role="status">${STATES[connection.value]}</p>
    <${Drawer} name="machine" icon="gauge" label="Model and machine" />
  </header>`;

const App = () => html`
  <${Chats} />
  <main inert=${drawer.value !== null}><${TopBar} /><${Chat} /></main>
  <${Side} name="machine" label="Model and machine"><${Machine} /><//>
  ${drawer.value && html`<div class="shade" onClick=${closeDrawer} />`}
  <${Settings} open=${settingsOpen.value} onClose=${() => (settingsOpen.value = false)} />`;

render(html`<${App} />`, document.getElementById('app'));
startPolling();
