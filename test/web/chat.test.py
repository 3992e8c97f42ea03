# SPDX-License-Identifier: Apache-2.0
"""chat.test.py: a real Chromium chats with a real model in the real program.

Streaming, stop, live figures, phone and dark: on the page that `motley up` itself serves.  MOTLEY_TEST_URL tests a
server that runs already; else MOTLEY_TEST_MODEL is served.  The page's finer points are in page.test.py.
"""
import contextlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', 'support')]
import motley  # noqa: E402
from chromium import Browser, find_browser  # noqa: E402

if not find_browser():
    motley.skip('no Chromium here: apt-get install chromium, or set MOTLEY_CHROMIUM')

checks = motley.Checks()
check = checks.check
FIELD = 'textarea[aria-label="Your message"]'


@contextlib.contextmanager
def server():
    if os.environ.get('MOTLEY_TEST_URL'):
        yield os.environ['MOTLEY_TEST_URL'].rstrip('/')
    else:
        with motley.Server(motley.chat_model()) as own:
            yield own.base


def prepare(page, url, **settings):
    page.open(url + '/')
    page.value('localStorage.clear(), localStorage.setItem("motley.settings", %s)' % json.dumps(json.dumps(settings)))
    page.open(url + '/')
    page.wait("document.querySelector('.state.ready')", 120)


def say(page, text):
    page.click(FIELD)
    page.type(text)
    page.press('Enter')


CHAT = '/v1/chat/completions'


def answers(page, count, timeout=300):
    page.wait("document.querySelectorAll('.answer').length === %d && !document.querySelector('.live')" % count, timeout)
    return page.value("[...document.querySelectorAll('.answer')].map(a => a.querySelector('.prose')?.innerText ?? '')")


def test_desktop(browser, url):
    page = browser.new_page(1280, 800)
    prepare(page, url, temperature=0, maxTokens=40)
    check('the page names the model', page.becomes("document.querySelector('.top .model').title.length > 3"))
    # The first text that the page shows, however short a time, is not yet all of the answer.
    page.value("""new MutationObserver(() => { window.seen ||= document.querySelector('.live .prose')?.innerText; })
        .observe(document.body, {subtree: true, childList: true, characterData: true})""")
    say(page, 'Name three colours.')
    page.wait('window.seen', 300)
    seen = page.value('window.seen').rstrip()
    first = answers(page, 1)[0]
    # Its words may look different there: "1" becomes the sign of a list once "1. Red" has come.
    check('an answer streams in', 0 < len(seen) < len(first), repr((seen, first)))
    check('it answers', 'colour' in first or 'Red' in first, first)
    check('it tells tokens and speed', page.becomes("document.querySelector('.stats').innerText.includes('tok/s')"))
    asked = page.ended(CHAT)
    page.click('.again')
    page.wait_ended(CHAT, asked + 1, 300)
    check('at temperature 0 the same comes again', answers(page, 1)[0] == first)
    page.wait("document.querySelector('#machine').innerText.includes('Parameters')")
    for words in ('Parameters', 'Context', 'Vocabulary', 'Processor', 'Memory', 'GiB'):
        check('the panel tells ' + words, words in page.text('#machine'))
    written = "Number(document.querySelector('section[aria-label=Engine] dl').innerText.match(/written\\s+(\\d+)/)?.[1])"
    page.wait(written + ' >= 10')
    points = "document.querySelector('.spark.processor polyline').getAttribute('points').trim().split(' ').length"
    before = page.value(points)
    page.wait('%s > %d || %s === 60' % (points, before, points))
    check('no errors, nothing refused by the policy', page.problems() == [], str(page.problems()))
    outside = [u for u in page.requested() if not u.startswith(url)]
    check('nothing outside is asked for', outside == [], str(outside))
    page.close()


def test_stop(browser, url):
    page = browser.new_page(1280, 800)
    prepare(page, url, maxTokens=4000)
    say(page, 'Write a very long story about the sea.')
    page.wait("document.querySelector('.live .prose')?.innerText.length > 20", 300)
    page.click('.send')
    text = answers(page, 1)[0]
    check('stop ends a long answer', 'Stopped.' in page.text('.answer') and 20 < len(text) < 10000)
    check('and the engine stops with it',
          page.becomes("fetch('/api/status').then(r => r.json()).then(s => s.engine.running === 0)"))
    page.close()


def test_phone(browser, url):
    grounds = set()
    for width, dark in ((320, False), (390, True)):
        page = browser.new_page(width, 700, dark=dark, phone=True)
        prepare(page, url, temperature=0, maxTokens=24)
        grounds.add(page.value('getComputedStyle(document.body).backgroundColor'))
        say(page, 'Name three colours.')
        answers(page, 1)
        page.settle()
        check('%d px: no sideways scrolling' % width,
              page.value('document.documentElement.scrollWidth <= innerWidth') and
              page.value("document.querySelector('.scroller').scrollWidth <= innerWidth"))
        page.click('[aria-controls=machine]')
        page.wait("!document.querySelector('#machine').inert")
        check('%d px: the panel is there' % width, page.becomes("document.querySelector('#machine').innerText.includes('Processor')"))
        page.close()
    check('dark is dark', len(grounds) == 2, str(grounds))


with server() as url, Browser(find_browser()) as chromium:
    for test in (test_desktop, test_stop, test_phone):
        try:
            test(chromium, url)
        except (TimeoutError, RuntimeError) as error:
            check(test.__name__, False, str(error))
checks.finish()
