// SPDX-License-Identifier: Apache-2.0
//
// state.js: the state of the page, as signals, and which part of it the browser stores.
//
// localStorage: one entry per chat, "motley.chat.ID" → {id, title, updated, messages}, so that two tabs do not write
// over each other, and "motley.settings".  sessionStorage: "motley.open", the chat that this tab shows.
// A message is {role, content} and, for answers, also
//   stats {tokens, seconds, rate}, stopped (the person stopped it), cut (max tokens reached),
//   error (in plain words) with locked (a key is wanted) and tooLong (the message cannot be answered as it is).
// Messages are never changed in place: a new array makes the new state.

import { computed, effect, signal } from '@preact/signals';

const CHAT_PREFIX = 'motley.chat.';
const SETTINGS_KEY = 'motley.settings';
const OPEN_KEY = 'motley.open';
const TITLE_LENGTH = 60;

export const DEFAULTS = { temperature: 0.7, maxTokens: 1024, system: '', seed: '', key: '' };

export const settings = signal({ ...DEFAULTS, ...readEntry(SETTINGS_KEY) });
export const chats = signal(readChats());  // newest first
export const currentId = signal(chats.value.find(({ id }) => id === readOpen())?.id ?? null);  // null: a new chat
export const storageFull = signal(false);
export const editing = signal(false);      // the text in the field will replace the newest question
export const settingsOpen = signal(false);

export const current = computed(() => chats.value.find((chat) => chat.id === currentId.value) ?? null);
export const messages = computed(() => current.value?.messages ?? []);

function readOpen() {
  try {
    return sessionStorage.getItem(OPEN_KEY);
  } catch {
    return null;
  }
}

// After a reload the page shows the same chat.
effect(() => {
  try {
    sessionStorage.setItem(OPEN_KEY, currentId.value ?? '');
  } catch {
    // no storage: it begins with a new chat
  }
});

function readEntry(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;  // storage is not allowed, or the entry is not ours
  }
}

function writeEntry(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    storageFull.value = false;
  } catch {
    storageFull.value = true;
  }
}

function readChats() {
  const isChat = (chat) => typeof chat?.id === 'string' && Array.isArray(chat.messages);
  let keys = [];
  try {
    keys = Object.keys(localStorage).filter((key) => key.startsWith(CHAT_PREFIX));
  } catch {
    return [];
  }
  return keys.map(readEntry).filter(isChat).sort((a, b) => b.updated - a.updated);
}

export function changeSettings(change) {
  settings.value = { ...settings.value, ...change };
  writeEntry(SETTINGS_KEY, settings.value);
}

function titleOf(list) {
  const first = list.find((message) => message.role === 'user')?.content ?? '';
  const line = first.trim().replace(/\s+/g, ' ');
  return line.length > TITLE_LENGTH ? `${line.slice(0, TITLE_LENGTH)}…` : line || 'New chat';
}

const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 8);

// Makes a chat of these messages and goes to it; returns its id.
export function startChat(list) {
  const id = newId();
  putMessages(id, list);
  currentId.value = id;
  return id;
}

export function putMessages(id, list) {
  const chat = { id, title: titleOf(list), updated: Date.now(), messages: list };
  chats.value = [chat, ...chats.value.filter((other) => other.id !== id)];
  writeEntry(CHAT_PREFIX + id, chat);
}

export function deleteChat(id) {
  chats.value = chats.value.filter((chat) => chat.id !== id);
  if (currentId.value === id) currentId.value = null;
  try {
    localStorage.removeItem(CHAT_PREFIX + id);
  } catch {
    // no storage: there is nothing to remove
  }
}

// Another tab wrote.
addEventListener('storage', (event) => {
  if (event.key === null || event.key.startsWith(CHAT_PREFIX)) chats.value = readChats();
  if (event.key === SETTINGS_KEY) settings.value = { ...DEFAULTS, ...readEntry(SETTINGS_KEY) };
});
