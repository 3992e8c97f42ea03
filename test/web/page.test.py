# SPDX-License-Identifier: Apache-2.0
"""page.test.py: the page in a real Chromium, against a server that can be made to load, refuse, stall and break off.

What is looked at: streaming, stop, regenerate, copy, history, settings that reach the request, Markdown without markup
from the model, errors in plain words, loading, keys, following the text and leaving it, the keyboard, phones down to
320 pixels, contrast in both colour schemes, and that nothing outside the server is asked for.
"""
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', 'support')]
import motley  # noqa: E402
from chromium import PATIENCE_S, Browser, find_browser  # noqa: E402

if not find_browser():
    motley.skip('no Chromium here: apt-get install chromium, or set MOTLEY_CHROMIUM')
if not shutil.which('node'):
    motley.skip('no node here')

checks = motley.Checks()
check = checks.check
FIELD = 'textarea[aria-label="Your message"]'

# Every element with text of its own: its colour against the ground it stands on, by WCAG's formula.
CONTRAST = """(() => {
  const rgb = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const linear = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(e);
    if (style.visibility === 'hidden' || !e.getClientRects().length || e.closest('[inert], noscript')) continue;
    const [a, b] = [luminance(rgb(style.color)), luminance(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(e.className + ' "' + e.textContent.slice(0, 20) + '" ' + ratio.toFixed(2));
  }
  return poor;
})()"""

# Elements that reach beyond the window, other than those inside a box that scrolls by itself.
TOO_WIDE = """[...document.querySelectorAll('main *')].filter((e) => !e.closest('pre, .table, svg') &&
  e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 80))"""


def fake_answer(path, method='GET'):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return json.load(opener.open(urllib.request.Request(url + path, method=method)))


def mode(**options):
    fake_answer('/fake/mode?' + '&'.join('%s=%s' % pair for pair in options.items()), 'POST')


def asked():
    """The body of the newest chat request."""
    return fake_answer('/fake/asked')


def until_nothing_runs():
    """Waits until the server writes no answer: it saw that the page hung up."""
    deadline = time.monotonic() + PATIENCE_S
    while fake_answer('/fake/running') != 0:
        if time.monotonic() > deadline:
            raise TimeoutError('the server still writes an answer')
        time.sleep(0.05)


pages = []


def fresh(browser, width=1280, height=800, **look):
    """A new page on the fake server in its usual mode with nothing kept; the one before is closed."""
    if pages:
        pages.pop().close()
    mode(loading=0, gone=0, bare=0, hold=0, cut=0, key='')
    page = browser.new_page(width, height, **look)
    pages.append(page)
    page.open(url + '/')
    page.value('localStorage.clear()')
    page.open(url + '/')
    page.wait("document.querySelector('.state.ready') && document.querySelector('.top .model').title")
    return page


def say(page, text):
    page.click(FIELD)
    page.type(text)
    page.press('Enter')


def told(page, text, selector='.live .prose'):
    """Waits until the page shows this text there."""
    page.wait("document.querySelector('%s')?.innerText.includes(%s)" % (selector, json.dumps(text)))


def until_answered(page, count=1):
    page.wait("document.querySelectorAll('.answer').length === %d && !document.querySelector('.live')" % count)


def open_settings(page):
    page.click('.open-settings')
    page.wait("document.querySelector('dialog').open")


def last_answer(page):
    return page.value("[...document.querySelectorAll('.answer')].at(-1).innerText")


def test_chat(browser):
    page = fresh(browser)
    check('the model is named', 'SmolLM2 135M Instruct' in page.text('.welcome'))
    page.click(FIELD)
    page.type('one')
    page.press('Enter', shift=True)
    page.type('two')
    check('Shift-Enter is a new line', page.value("document.querySelector('%s').value" % FIELD) == 'one\ntwo')
    mode(hold=10)
    page.press('Enter')
    told(page, 'drops of rain')
    check('text comes piece by piece', 'Inside each' not in page.text('.live .prose'), page.text('.live .prose'))
    check('it is marked busy meanwhile', page.value("document.querySelector('[role=log]').ariaBusy") == 'true')
    mode(hold=0)
    until_answered(page)
    check('the whole text is there', 'fans out into a spectrum' in last_answer(page) and 'lower ones.' in last_answer(page))
    check('tokens and speed are told', '56 tokens' in last_answer(page) and 'tok/s' in last_answer(page))
    check('a screen reader is told', page.becomes("document.querySelector('.unseen').innerText === 'Answer complete'"))
    check('the field is empty and has the focus', page.becomes("document.activeElement === document.querySelector('%s') &&"
                                                               " document.activeElement.value === ''" % FIELD))
    say(page, 'and again')
    until_answered(page, 2)
    roles = [m['role'] for m in asked()['messages']]
    check('the conversation is sent', roles == ['user', 'assistant', 'user'], str(roles))
    mode(hold=10)
    page.click('.again')
    page.wait("document.querySelector('.live')")
    mode(hold=0)
    until_answered(page, 2)
    check('regenerating asks the same again', [m['role'] for m in asked()['messages']] == roles)
    page.open(url + '/')
    page.wait("document.querySelector('.chat-title')")
    check('a page loaded again shows the chat it had', page.becomes("document.querySelectorAll('.answer').length === 2"))
    page.click('.new-chat')
    page.wait("document.querySelector('.welcome')")
    page.open(url + '/')
    page.wait("document.querySelector('.chat-title')")
    check('or the new one', page.becomes("document.querySelectorAll('.answer').length === 0"))
    page.click('.chat-title')
    check('chats are kept', page.becomes("document.querySelectorAll('.answer').length === 2"))
    page.click('.new-chat')
    check('a new chat is empty', page.becomes("document.querySelectorAll('.message').length === 0"))
    page.wait("document.activeElement.tagName === 'TEXTAREA'")
    page.click('.chat-delete')
    page.click('.chat-delete.sure')
    page.wait("!document.querySelector('.chat-title')")
    check('a deleted chat is gone', page.becomes("Object.keys(localStorage).every(k => !k.startsWith('motley.chat.'))"))
    check('no errors, nothing refused by the policy', page.problems() == [], str(page.problems()))
    outside = [u for u in page.requested() if not u.startswith(url)]
    check('nothing outside is asked for', outside == [], str(outside))


def test_stop(browser):
    page = fresh(browser)
    mode(hold=30)
    say(page, 'first')
    told(page, 'Inside each drop')
    page.click('.send')
    until_answered(page)
    text = last_answer(page)
    until_nothing_runs()
    page.settle()
    check('stop keeps what came and ends it', 'Stopped.' in text and last_answer(page) == text)
    say(page, 'second')
    told(page, 'Inside each drop')
    page.press('Escape')
    until_answered(page, 2)
    check('Escape stops too', 'Stopped.' in last_answer(page))
    say(page, 'third')
    told(page, 'Inside each drop')
    page.open(url + '/')
    page.wait("document.querySelector('.answer')")
    check('a page left in the middle keeps its part', page.becomes("document.querySelectorAll('.answer').length === 3") and
          'Stopped.' in last_answer(page) and 'Inside each drop' in last_answer(page), page.text())


def test_markdown(browser):
    page = fresh(browser)
    say(page, 'markdown')
    until_answered(page)
    for what, selector in (('bold', 'strong'), ('inline code', 'p code'), ('emphasis', 'em'), ('a heading', 'h4'),
                           ('a list', 'ol > li > ul > li'), ('a code block', 'figure pre code'), ('a table', 'td.right'),
                           ('a quote', 'blockquote p'), ('a link', 'a[href="https://example.org/a"][rel~=noopener]')):
        check(what, page.value("document.querySelector('.prose %s') !== null" % selector))
    page.value("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.value("""new MutationObserver(() => { window.told ||= document.querySelector('figure .copy').innerText === 'Copied'; })
        .observe(document.querySelector('figure .copy'), {subtree: true, childList: true, characterData: true})""")
    page.click('figure .copy')
    check('a copy is confirmed', page.becomes('window.told'))  # the word goes again after a moment
    check('code is copied as it stands', page.value('window.copied').startswith('def quicksort(a):\n    if len'))
    page.value("document.querySelector('.answer footer .copy').click()")
    page.wait("window.copied.startsWith('Here is')")
    check('an answer is copied as Markdown', '```python' in page.value('window.copied'))
    say(page, 'hostile')
    until_answered(page, 2)
    check('markup of a model stays text', '<img src=x onerror=' in last_answer(page) and
          page.value("document.querySelectorAll('.prose img, .prose script, .prose b, .prose a[href^=javascript]').length") == 0)
    check('and does nothing', page.value('document.title') == 'Motley')


def test_settings(browser):
    page = fresh(browser)
    open_settings(page)
    page.click('#system')
    page.type('You are a pirate.')
    page.value("""(() => { const t = document.querySelector('#temperature'); t.value = '0.2';
        t.dispatchEvent(new Event('input', {bubbles: true})); })()""")
    for selector, text in (('#max-tokens', '30'), ('#seed', '42')):
        page.click(selector)
        page.value("document.querySelector('%s').select()" % selector)
        page.type(text)
        readings = page.ended('/api/status')
        page.wait_ended('/api/status', readings + 2)  # the dialog is drawn anew with each
        kept = page.value("document.querySelector('%s').value" % selector)
        check('what is typed stays while figures come in', kept == text, kept)
    page.click('.settings .main-button')
    page.wait("!document.querySelector('dialog').open")
    say(page, 'go')
    until_answered(page)
    body = asked()
    got = [body['messages'][0], *[body.get(key) for key in ('temperature', 'max_tokens', 'seed', 'stream', 'model')]]
    check('settings reach the request', got == [{'role': 'system', 'content': 'You are a pirate.'}, 0.2, 30, 42, True,
                                                'smollm2-135m-instruct'], str(got))
    check('a cut answer says so', 'Cut at the longest answer' in last_answer(page), last_answer(page))
    page.open(url + '/')
    open_settings(page)
    check('settings are kept', page.becomes("document.querySelector('#seed').value === '42' &&"
                                            " document.querySelector('#max-tokens').value === '30'"))
    page.press('Escape')
    page.wait("!document.querySelector('dialog').open")
    open_settings(page)
    page.click('.settings .plain-button')
    page.wait("document.querySelector('#seed').value + document.querySelector('#max-tokens').value === '1024'")


def test_trouble(browser):
    page = fresh(browser)
    say(page, 'error')
    until_answered(page)
    check('a refusal is told in the server\'s words', 'this model takes 8,192' in page.text('.failure'))
    check('the same again is not offered', page.text('.again') == '' and page.text('.edit') == 'Edit message')
    page.click('.edit')
    page.wait("document.querySelector('%s').value === 'error'" % FIELD)
    page.press('Escape')
    page.wait("document.querySelector('%s').value === ''" % FIELD)
    page.settle()
    check('editing can be left', page.text('.question') == 'error' and page.text('.failure') != '')
    page.click('.edit')
    page.wait("document.activeElement.value === 'error'")
    page.value("document.activeElement.select()")
    page.type('a shorter one')
    page.press('Enter')
    page.wait("document.querySelector('.prose')")
    until_answered(page)
    check('an edited message takes the place of the old one',
          [m['content'] for m in asked()['messages']] == ['a shorter one'] and page.text('.question') == 'a shorter one')
    say(page, 'busy')
    until_answered(page, 2)
    check('a busy server can be asked again', 'too many' in page.text('.failure') and page.text('.again') == 'Try again')
    page.click('.edit')
    page.wait("document.activeElement.value === 'busy'")
    page.value("document.activeElement.select()")
    page.type('go on')
    mode(hold=10)
    page.press('Enter')
    told(page, 'Rainbows')
    mode(cut=1)
    until_answered(page, 2)
    mode(hold=0, cut=0)
    check('a cut connection is told', 'cut in the middle' in last_answer(page), last_answer(page))
    check('what came of it is kept', 'Rainbows' in last_answer(page), last_answer(page))
    mode(loading=1)
    page.wait("document.querySelector('.state.loading')")
    page.click('.new-chat')
    told(page, 'The model is loading', '.welcome')
    say(page, 'hello')
    told(page, 'loading', '.live .thinking')
    mode(loading=0)
    until_answered(page)
    check('a message waits for the model', 'Rainbows' in last_answer(page) and page.text('.failure') == '')
    mode(key='secret')
    page.wait("document.querySelector('.state.locked')")
    say(page, 'hello')
    until_answered(page, 2)
    page.click('.give-key')
    page.wait("document.querySelector('dialog').open")
    page.press('Escape')
    page.wait("!document.querySelector('dialog').open")
    page.click('.new-chat')
    page.click('.welcome .link-button')
    page.wait("document.querySelector('dialog').open")
    page.click('#key')
    page.type('secret')
    page.click('.settings .main-button')
    page.wait("document.querySelector('.state.ready')")
    say(page, 'hello')
    until_answered(page)
    check('a key opens the server', 'Rainbows' in last_answer(page), last_answer(page))


def test_following(browser):
    page = fresh(browser, height=600)
    bottom = "(s => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector('.scroller'))"
    height = "document.querySelector('.scroller').scrollHeight"
    top = "document.querySelector('.scroller').scrollTop"
    mode(hold=350)
    say(page, 'long')
    page.wait(height + ' > 750')
    check('the newest text is in view', page.becomes(bottom + ' < 60'), str(page.value(bottom)))
    page.wheel(-400)
    page.wait(bottom + ' > 100')
    here = None
    while here != page.value(top):  # until the wheel has run out
        here = page.value(top)
        page.settle()
    before = page.value(height)
    mode(hold=430)
    page.wait('%s > %d' % (height, before + 50))
    page.settle()
    check('who scrolled up is left there', page.value(top) == here, str((page.value(top), here)))
    page.click('.to-end')
    page.wait(bottom + ' < 60')
    mode(hold=0)
    until_answered(page)
    check('back at the end it follows again', page.becomes(bottom + ' < 60'), str(page.value(bottom)))


def test_figures(browser):
    page = fresh(browser)
    points = "document.querySelector('.spark.speed polyline').getAttribute('points').trim().split(' ').length"
    page.wait(points + ' >= 3')
    page.wait("document.querySelector('#machine').innerText.includes('135 M')")
    card = page.text('#machine')
    for words in ('135 M', 'llama', 'Q4_1', '98 MB', '8,192 tokens', '30 layers × 576', '49,152', '8.5 GiB of 24 GiB',
                  'AMD EPYC', '0.1.0'):
        check('the card says ' + words, words in card, card)
    page.value("""new MutationObserver(() => { window.fastest = Math.max(window.fastest ?? 0,
        parseFloat(document.querySelector('[data-figure=speed] output').innerText) || 0); })
        .observe(document.querySelector('#machine'), {subtree: true, childList: true, characterData: true})""")
    say(page, 'long')
    check('the speed is live', page.becomes('window.fastest > 0'))
    until_answered(page)
    check('and falls to nothing', page.becomes("parseFloat(document.querySelector('[data-figure=speed] output').innerText) === 0"),
          page.text('[data-figure=speed]'))
    before = page.value(points)
    check('the picture grows', page.becomes('%s > %d || %s === 60' % (points, before, points)))


def test_states(browser):
    page = fresh(browser)
    order = "[...document.querySelectorAll('#machine section')].map(s => s.ariaLabel).join()"
    caption = "document.querySelector('[data-figure=speed] p').innerText"
    usual, words = page.value(order), page.value(caption)
    check('the sections are in their order', usual == 'Model,Live figures,Engine', usual)
    say(page, 'long')
    until_answered(page)
    check('the caption under Writing is steady', page.value(caption) == words, page.value(caption))
    for name, options, state, sign in (
            ('unreachable', {'gone': 1}, '.state.unreachable', 'Not connected'),
            ('a server that starts again', {'gone': 0, 'loading': 1}, '.state.loading', 'It is loading'),
            ('and knows nothing of the machine', {'bare': 1}, '.state.loading', '–'),
            ('ready again', {'bare': 0, 'loading': 0}, '.state.ready', 'SmolLM2')):
        mode(**options)
        page.wait("document.querySelector('%s') && document.querySelector('#machine').innerText.includes('%s')" % (state, sign))
        page.settle()
        check(name + ': the sections are in their order', page.value(order) == usual, page.value(order))
        check(name + ': nothing is shown that is none',
              not any(word in page.text('#machine') for word in ('NaN', 'undefined', 'null')), page.text('#machine'))
        stale = page.value("document.querySelector('#machine .stale') !== null")
        check(name + ': figures are grey only when they are old', stale == (name == 'unreachable'))
        poor = page.value(CONTRAST)
        check(name + ': contrast', poor == [], str(poor))
    wrong = [p for p in page.problems() if 'ERR_' not in p and '503' not in p]
    check('no errors in any state', wrong == [], str(wrong))


def test_titles(browser):
    page = fresh(browser)
    say(page, 'The title of this chat is a long one, longer than the list is wide')
    until_answered(page)
    page.call('Input.dispatchMouseEvent', type='mouseMoved', x=700, y=300)
    page.value("document.activeElement.blur()")
    room = "(e => e.clientWidth - parseFloat(getComputedStyle(e).paddingRight))(document.querySelector('.chat-title'))"
    page.wait(room + ' > 190')
    check('a title has the whole row', True)
    x, y = page.value("(r => [r.x + 20, r.y + 10])(document.querySelector('.chat-title').getBoundingClientRect())")
    page.call('Input.dispatchMouseEvent', type='mouseMoved', x=x, y=y)
    page.wait("getComputedStyle(document.querySelector('.chat-delete')).opacity === '1'")
    check('and leaves it to the button under the mouse', page.becomes(room + ' < 190'), page.value(room))


def test_phone(browser):
    for width in (320, 390):
        for dark in (False, True):
            page = fresh(browser, width, 700, dark=dark, phone=True)
            what = '%d px%s: ' % (width, ' dark' if dark else '')
            say(page, 'markdown')
            until_answered(page)
            page.settle()
            check(what + 'no sideways scrolling', page.value('document.documentElement.scrollWidth <= innerWidth &&'
                                                             "document.querySelector('.scroller').scrollWidth <= innerWidth"))
            wide = page.value(TOO_WIDE)
            check(what + 'nothing sticks out', wide == [], str(wide))
            small = page.value("""[...document.querySelectorAll('main button')].map(b => [b.getAttribute('aria-label') ||
                b.innerText, b.getBoundingClientRect().height]).filter(([, h]) => h < 28)""")
            check(what + 'buttons can be hit', small == [], str(small))
            page.click('[aria-controls=machine]')
            page.wait("!document.querySelector('#machine').inert")
            check(what + 'the machine slides in', page.becomes("document.querySelector('#machine').innerText.includes('Processor')"))
            page.wait("document.querySelector('#machine').contains(document.activeElement)")  # it has the focus
            page.settle()
            poor = page.value(CONTRAST)
            check(what + 'contrast in the machine', poor == [], str(poor))
            page.press('Escape')
            page.wait("document.querySelector('#machine').inert")
            page.wait("document.activeElement.getAttribute('aria-controls') === 'machine'")  # the focus comes back
            page.settle()
            poor = page.value(CONTRAST)
            check(what + 'contrast', poor == [], str(poor))
            check(what + 'no errors', page.problems() == [], str(page.problems()))


def test_schemes_and_keyboard(browser):
    grounds = set()
    for dark in (False, True):
        page = fresh(browser, dark=dark)
        grounds.add(page.value('getComputedStyle(document.body).backgroundColor'))
        say(page, 'error')
        until_answered(page)
        page.settle()
        poor = page.value(CONTRAST)
        check('contrast, %s' % ('dark' if dark else 'light'), poor == [], str(poor))
        open_settings(page)
        page.settle()
        poor = page.value(CONTRAST)
        check('contrast of settings, %s' % ('dark' if dark else 'light'), poor == [], str(poor))
    check('dark is dark', len(grounds) == 2, str(grounds))
    page = fresh(browser)
    reached = set()
    for _ in range(12):
        page.press('Tab')
        page.settle()
        reached.add(page.value('document.activeElement.className || document.activeElement.tagName'))
        style = page.value("(e => e.matches('body, textarea') || getComputedStyle(e).outlineStyle !== 'none')(document.activeElement)")
        check('the focus can be seen', style, page.value('document.activeElement.outerHTML'))
    check('all is reached by Tab', {'main-button new-chat', 'plain-button open-settings', 'TEXTAREA'} <= reached, str(reached))
    unnamed = page.value("""[...document.querySelectorAll('button, input, textarea')].filter(e => !(e.innerText.trim() ||
        e.ariaLabel || e.labels?.length)).map(e => e.outerHTML)""")
    check('every control has a name', unnamed == [], str(unnamed))


fake = subprocess.Popen(['node', os.path.join(HERE, 'fake_server.mjs')], stdout=subprocess.PIPE, text=True)
url = fake.stdout.readline().strip()
if not url:
    sys.exit('the fake server did not start')
try:
    with Browser(find_browser()) as chromium:
        for test in (test_chat, test_stop, test_markdown, test_settings, test_trouble, test_following, test_figures,
                     test_states, test_titles, test_phone, test_schemes_and_keyboard):
            try:
                test(chromium)
            except (TimeoutError, RuntimeError) as error:
                check(test.__name__, False, str(error))
finally:
    fake.terminate()
    fake.wait(10)
checks.finish()
