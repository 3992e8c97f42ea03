// SPDX-License-Identifier: Apache-2.0
//
// html.js: the template tag that all components are written with, and the page's few icons.

import htm from 'htm';
import { h } from 'preact';

export const html = htm.bind(h);

// Outlines on a 24 x 24 grid.
const ICONS = {
  plus: 'M12 5v14M5 12h14',
  send: 'M12 19V5M5.5 11.5 12 5l6.5 6.5',
  stop: 'M6.5 6.5h11v11h-11z',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  check: 'M5 12.5 10 17 19 7',
  again: 'M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4',
  menu: 'M4 7h16M4 12h16M4 17h16',
  gauge: 'M4 17a8 8 0 1 1 16 0M12 17l4-6',
  gear: 'M4 7h9M19 7h1M4 17h1M11 17h9M16 4.5v5M8 14.5v5',
  bin: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  close: 'M6 6l12 12M18 6 6 18',
  down: 'M12 5v14M6 13l6 6 6-6',
};

export const Icon = ({ name }) => html`
  <svg class="icon icon-${name}" viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

// A button that shows an icon only; its label is for screen readers and the tooltip.
export const IconButton = ({ icon, label, ...rest }) => html`
  <button type="button" class="icon-button" aria-label=${label} title=${label} ...${rest}>
    <${Icon} name=${icon} />
  </button>`;
