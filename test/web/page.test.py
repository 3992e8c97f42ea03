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
from chromium import Browser, find_browser  # noqa: E402

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


def mode(**options):
    query = '&'.join('%s=%s' % pair for pair in options.items())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(urllib.request.Request(url + '/fake/mode?' + query, method='POST')).read()


def asked():
    """The body of the newest chat request."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return json.load(opener.open(url + '/fake/asked'))


pages = []


def fresh(browser, width=1280, height=800, **look):
    """A new page on the fake server with nothing kept; the one before is closed."""
    if pages:
        pages.pop().close()
    page = browser.new_page(width, height, **look)
    pages.append(page)
    page.open(url + '/')
    page.value('localStorage.clear()')
    page.open(url + '/')
    page.wait("document.querySelector('.state.ready')")
    return page


def say(page, text):
    page.click(FIELD)
    page.type(text)
    page.press('Enter')


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
    page.press('Enter')
    page.wait("document.querySelector('.live .prose')?.innerText.length > 20")
    early = len(page.text('.live .prose'))
    check('text comes piece by piece', early < 250, str(early))
    check('it is marked busy meanwhile', page.value("document.querySelector('[role=log]').ariaBusy") == 'true')
    until_answered(page)
    check('the whole text is there', 'fans out into a spectrum' in last_answer(page) and 'lower ones.' in last_answer(page))
    check('tokens and speed are told', '56 tokens' in last_answer(page) and 'tok/s' in last_answer(page))
    check('a screen reader is told', page.text('.unseen') == 'Answer complete')
    check('the field is empty and has the focus', page.value("document.activeElement === document.querySelector('%s') &&"
                                                              " document.activeElement.value === ''" % FIELD))
    say(page, 'and again')
    until_answered(page, 2)
    roles = [m['role'] for m in asked()['messages']]
    check('the conversation is sent', roles == ['user', 'assistant', 'user'], str(roles))
    page.click('.again')
    page.wait("document.querySelector('.live')")
    until_answered(page, 2)
    check('regenerating asks the same again', [m['role'] for m in asked()['messages']] == roles)
    page.open(url + '/')
    page.wait("document.querySelector('.chat-title')")
    page.click('.chat-title')
    check('chats are kept', page.value("document.querySelectorAll('.answer').length") == 2)
    page.click('.new-chat')
    check('a new chat is empty', page.value("document.querySelectorAll('.message').length") == 0)
    page.wait("document.activeElement.tagName === 'TEXTAREA'")
    page.click('.chat-delete')
    page.click('.chat-delete.sure')
    page.wait("!document.querySelector('.chat-title')")
    check('a deleted chat is gone', page.value("Object.keys(localStorage).filter(k => k.startsWith('motley.chat.')).length") == 0)
    check('no errors, nothing refused by the policy', page.problems() == [], str(page.problems()))
    outside = [u for u in page.requested() if not u.startswith(url)]
    check('nothing outside is asked for', outside == [], str(outside))


def test_stop(browser):
    page = fresh(browser)
    say(page, 'slow please')
    page.wait("document.querySelector('.live .prose')?.innerText.length > 20")
    page.click('.send')
    until_answered(page)
    length = len(last_answer(page))
    time.sleep(0.5)
    check('stop keeps what came and ends it', 'Stopped.' in last_answer(page) and len(last_answer(page)) == length)
    say(page, 'slow again')
    page.wait("document.querySelector('.live .prose')")
    page.press('Escape')
    until_answered(page, 2)
    check('Escape stops too', 'Stopped.' in last_answer(page))
    say(page, 'slow once more')
    page.wait("document.querySelector('.live .prose')?.innerText.length > 20")
    page.open(url + '/')
    page.click('.chat-title')
    check('a page left in the middle keeps its part', page.value("document.querySelectorAll('.answer').length") == 3 and
          'Stopped.' in last_answer(page), page.text())


def test_markdown(browser):
    page = fresh(browser)
    say(page, 'markdown')
    until_answered(page)
    for what, selector in (('bold', 'strong'), ('inline code', 'p code'), ('emphasis', 'em'), ('a heading', 'h4'),
                           ('a list', 'ol > li > ul > li'), ('a code block', 'figure pre code'), ('a table', 'td.right'),
                           ('a quote', 'blockquote p'), ('a link', 'a[href="https://example.org/a"][rel~=noopener]')):
        check(what, page.value("document.querySelector('.prose %s') !== null" % selector))
    page.value("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.click('figure .copy')
    page.wait("document.querySelector('figure .copy').innerText === 'Copied'")
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
    page.click('.settings .main-button')
    page.wait("!document.querySelector('dialog').open")
    say(page, 'go')
    until_answered(page)
    body = asked()
    got = [body['messages'][0], body['temperature'], body['max_tokens'], body['seed'], body['stream'], body['model']]
    check('settings reach the request', got == [{'role': 'system', 'content': 'You are a pirate.'}, 0.2, 30, 42, True,
                                                'smollm2-135m-instruct'], str(got))
    check('a cut answer says so', 'Cut at the longest answer' in last_answer(page), last_answer(page))
    page.open(url + '/')
    open_settings(page)
    check('settings are kept', page.value("document.querySelector('#seed').value") == '42')
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
    check('and can be tried again', page.text('.again') == 'Try again')
    say(page, 'cut')
    until_answered(page, 2)
    check('a cut connection is told', 'cut in the middle' in last_answer(page), last_answer(page))
    check('what came of it is kept', 'Rainbows' in last_answer(page), last_answer(page))
    mode(loading=1)
    page.wait("document.querySelector('.state.loading')")
    page.click('.new-chat')
    check('loading is told', 'The model is loading' in page.text('.welcome'))
    say(page, 'hello')
    page.wait("document.querySelector('.live .thinking')?.innerText.includes('loading')")
    mode(loading=0)
    until_answered(page)
    check('a message waits for the model', 'Rainbows' in last_answer(page) and page.text('.failure') == '')
    mode(key='secret')
    page.wait("document.querySelector('.state.locked')")
    open_settings(page)
    page.click('#key')
    page.type('secret')
    page.click('.settings .main-button')
    page.wait("document.querySelector('.state.ready')")
    say(page, 'hello')
    until_answered(page, 2)
    check('a key opens the server', 'Rainbows' in last_answer(page), last_answer(page))
    mode(key='')


def test_following(browser):
    page = fresh(browser, height=600)
    say(page, 'long')
    bottom = "(s => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector('.scroller'))"
    page.wait("document.querySelector('.scroller').scrollHeight > 900")
    check('the newest text is in view', page.value(bottom) < 60, str(page.value(bottom)))
    page.wheel(-400)
    page.wait(bottom + ' > 100')
    here = page.value("document.querySelector('.scroller').scrollTop")
    time.sleep(0.6)
    check('who scrolled up is left there', abs(page.value("document.querySelector('.scroller').scrollTop") - here) < 5)
    page.click('.to-end')
    page.wait(bottom + ' < 60')
    until_answered(page)
    check('back at the end it follows again', page.value(bottom) < 60, str(page.value(bottom)))


def test_figures(browser):
    page = fresh(browser)
    points = "document.querySelector('.spark.speed polyline').getAttribute('points').trim().split(' ').length"
    page.wait(points + ' >= 3')
    card = page.text('#machine')
    for words in ('135 M', 'llama', 'Q4_1', '93.5 MiB', '8,192 tokens', '30 layers × 576', '49,152', '8.5 GiB of 24 GiB',
                  'AMD EPYC', '0.1.0'):
        check('the card says ' + words, words in card, card)
    say(page, 'long')
    page.wait("parseFloat(document.querySelector('[data-figure=speed] output').innerText) > 5")
    check('the speed is live', True)
    before = page.value(points)
    page.wait('%s > %d' % (points, before), 10)


def test_phone(browser):
    for width in (320, 390):
        for dark in (False, True):
            page = fresh(browser, width, 700, dark=dark, phone=True)
            what = '%d px%s: ' % (width, ' dark' if dark else '')
            say(page, 'markdown')
            until_answered(page)
            check(what + 'no sideways scrolling', page.value('document.documentElement.scrollWidth <= innerWidth &&'
                                                             "document.querySelector('.scroller').scrollWidth <= innerWidth"))
            wide = page.value(TOO_WIDE)
            check(what + 'nothing sticks out', wide == [], str(wide))
            small = page.value("""[...document.querySelectorAll('main button')].map(b => [b.getAttribute('aria-label') ||
                b.innerText, b.getBoundingClientRect().height]).filter(([, h]) => h < 28)""")
            check(what + 'buttons can be hit', small == [], str(small))
            page.click('[aria-controls=machine]')
            page.wait("!document.querySelector('#machine').inert")
            check(what + 'the machine slides in', 'Processor' in page.text('#machine'))
            page.wait("document.querySelector('#machine').contains(document.activeElement)")  # it has the focus
            poor = page.value(CONTRAST)
            check(what + 'contrast in the machine', poor == [], str(poor))
            page.press('Escape')
            page.wait("document.querySelector('#machine').inert")
            page.wait("document.activeElement.getAttribute('aria-controls') === 'machine'")  # the focus comes back
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
        poor = page.value(CONTRAST)
        check('contrast, %s' % ('dark' if dark else 'light'), poor == [], str(poor))
        open_settings(page)
        poor = page.value(CONTRAST)
        check('contrast of settings, %s' % ('dark' if dark else 'light'), poor == [], str(poor))
    check('dark is dark', len(grounds) == 2, str(grounds))
    page = fresh(browser)
    reached = set()
    for _ in range(12):
        page.press('Tab')
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
                     test_phone, test_schemes_and_keyboard):
            try:
                test(chromium)
            except (TimeoutError, RuntimeError) as error:
                check(test.__name__, False, str(error))
finally:
    fake.terminate()
    fake.wait(10)
checks.finish()
