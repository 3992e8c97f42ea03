// SPDX-License-Identifier: Apache-2.0
//
// format.js: figures as people write them.  What is not a number is shown as a dash.

const DASH = '–';

// Three significant digits at most: 134.5 → "135", 13.45 → "13.4", 1.345 → "1.34", 1 → "1".
function short(value) {
  if (value >= 100) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

function scaled(value, step, units) {
  if (!Number.isFinite(value)) return DASH;
  let at = 0;
  while (value >= step && at < units.length - 1) {
    value /= step;
    at++;
  }
  return `${short(value)}${units[at] ? ` ${units[at]}` : ''}`;
}

export const count = (value) => scaled(value, 1000, ['', 'k', 'M', 'B', 'T']);
export const bytes = (value) => scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
export const whole = (value) => (Number.isFinite(value) ? Math.round(value).toLocaleString('en') : DASH);
export const percent = (value) => (Number.isFinite(value) ? `${Math.round(value)} %` : DASH);
export const rate = (value) =>
  Number.isFinite(value) ? value.toFixed(value >= 100 ? 0 : 1) : DASH;

// Seconds → "2 d 3 h", "4 h 5 min", "6 min", "7 s".
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return DASH;
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (hours >= 24) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
}
