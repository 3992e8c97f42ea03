# SPDX-License-Identifier: Apache-2.0
"""chromium.py: drives a headless Chromium by its DevTools protocol, over a pipe, with nothing but Python.

The browser reads commands from file descriptor 3 and writes answers to 4, each one JSON and a NUL byte.

    with Browser(find_browser()) as browser:
        page = browser.new_page()
        page.open("http://127.0.0.1:8080/")
        page.wait("document.querySelector('.send')")
        page.type("Hello"), page.press("Enter")

A test never assumes that the page has already done what it will do.  wait() and becomes() look again until something
is true; click() waits until its target stands still and would get the click; settle() waits until the page is at rest.
PATIENCE_S only bounds how long a failure takes: no test may depend on how fast the machine is.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import urllib.parse

# The blink settings: a mouse is there, also where the machine has none.
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-extensions --disable-dev-shm-usage --hide-scrollbars
--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4
--no-default-browser-check --remote-debugging-pipe about:blank""".split()

PATIENCE_S = 120

KEYS = {  # name: (code, virtual key, text)
    "Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, ""),
}


def find_browser():
    """The path of a Chromium here, or None."""
    names = [os.environ.get("MOTLEY_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"]
    return next((path for path in map(shutil.which, filter(None, names)) if path), None)


class Browser:
    def __init__(self, path):
        self.folder = tempfile.mkdtemp(prefix="motley-chromium-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def take_descriptors():  # in the child: 3 = commands in, 4 = answers out
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3), os.dup2(b, 4)

        self.process = subprocess.Popen(
            [path, f"--user-data-dir={self.folder}", *FLAGS], preexec_fn=take_descriptors, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        self.received, self.next_id, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError, TimeoutError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_end), os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _receive(self, deadline):
        while b"\0" not in self.received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.read_end, 1 << 16)
            if not data:
                raise RuntimeError("the browser is gone")
            self.received += data
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, timeout=PATIENCE_S, **params):
        """Sends one command and returns its result; what else arrives is kept in self.events."""
        self.next_id += 1
        command = {"id": self.next_id, "method": method, "params": params}
        if session:
            command["sessionId"] = session
        os.write(self.write_end, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            message = self._receive(deadline)
            if message.get("id") == self.next_id:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def new_page(self, width=1280, height=800, dark=False, phone=False):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.look(width, height, dark, phone)
        return page


class Page:
    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def look(self, width, height, dark=False, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url):
        """Goes there and waits until the new document is complete and was drawn once."""
        self.value("window.left = true")  # a new document has no such mark
        self.call("Page.navigate", url=url)
        self.wait("!window.left && document.readyState === 'complete'")
        self.settle()  # until something was drawn, Chromium drops what the mouse does

    def settle(self):
        """Waits until no transition runs and the page was drawn twice: effects of what happened before are there."""
        self.wait("""document.getAnimations().every((a) => a.playState !== 'running' ||
            a.effect.getComputedTiming().endTime === Infinity)""")
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 1))))")

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def value(self, expression):
        """The value of a JavaScript expression in the page (a promise is waited for)."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def wait(self, expression, timeout=PATIENCE_S):
        """Waits until the expression is true; returns its value.  One that cannot be computed yet (an element is not
        there, a document is just replaced) is not true yet."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                value = self.value(f"(() => {{ const v = ({expression}); return v instanceof Node ? true : v; }})()")
            except RuntimeError as error:
                value, reason = None, f"; {error}"
            else:
                reason = ""
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout} s: {expression}{reason}\n{self.text()[-1500:]}")
            time.sleep(0.05)

    def becomes(self, expression, timeout=PATIENCE_S):
        """Whether the expression is true within that time."""
        try:
            return bool(self.wait(expression, timeout))
        except TimeoutError:
            return False

    def ended(self, path):
        """How many requests of this page for that path have ended, answered in full or broken off."""
        self.value("1")  # takes in what the browser has told so far
        mine = [e for e in self.browser.events if e.get("sessionId") == self.session]
        asked = {e["params"]["requestId"] for e in mine if e["method"] == "Network.requestWillBeSent" and
                 urllib.parse.urlsplit(e["params"]["request"]["url"]).path == path}
        return sum(e["method"] in ("Network.loadingFinished", "Network.loadingFailed") and e["params"]["requestId"] in asked for e in mine)

    def wait_ended(self, path, count, timeout=PATIENCE_S):
        """Waits until that many were."""
        deadline = time.monotonic() + timeout
        while self.ended(path) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout} s: {count} requests for {path} have ended")
            time.sleep(0.05)
        self.settle()

    def text(self, selector="body"):
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector):
        """A real click on the middle of the element, once it stands still there and nothing lies over it."""
        target = self.wait(f"""(async () => {{
            const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: 'nearest'}});
            const frame = () => new Promise((done) => requestAnimationFrame(done));
            const middle = () => {{ const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }};
            const before = middle();
            await frame(), await frame();
            const [x, y] = middle();
            const there = e.isConnected && !e.disabled && e.contains(document.elementFromPoint(x, y));
            return there && x === before[0] && y === before[1] ? [x, y] : null;
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=target[0], y=target[1], button="left", clickCount=1)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False):
        code, number, text = KEYS[key]
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number,
                      modifiers=8 if shift else 0, **({"text": text} if kind == "keyDown" else {}))

    def wheel(self, dy):
        width, height = self.value("[innerWidth, innerHeight]")
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=width / 2, y=height / 2, deltaX=0, deltaY=dy)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def problems(self):
        """Uncaught errors, console errors and what the content policy refused, as text."""
        self.value("1")
        lines = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                lines.append(params["exceptionDetails"]["exception"].get("description", "exception"))
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                lines.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        return lines

    def requested(self):
        """Every URL that the page asked for."""
        return [e["params"]["request"]["url"] for e in self.browser.events
                if e.get("sessionId") == self.session and e["method"] == "Network.requestWillBeSent"]
