"""A headless Chromium, driven over its DevTools pipe: enough to open a page and look at it."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
         "--disable-dev-shm-usage", "--no-default-browser-check", "--mute-audio", "--force-color-profile=srgb",
         "--host-resolver-rules=MAP * ~NOTFOUND")


def find():
    """Path of a Chromium, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """Every wait ends after `limit` seconds, with TimeoutError."""

    def __init__(self, path, limit=60):
        self.limit = limit
        self.profile = tempfile.mkdtemp(prefix="turbo-page-")
        their_in, self.out = os.pipe()
        self.into, their_out = os.pipe()

        def place():  # Chromium reads commands from 3 and answers on 4
            held = os.dup(their_in), os.dup(their_out)
            for fd, at in zip(held, (3, 4)):
                os.dup2(fd, at)

        # high numbers, so that nothing is overwritten while the two are put in their places
        for fd in (their_in, their_out):
            os.set_inheritable(fd, True)
        self.process = subprocess.Popen([path, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"], close_fds=False,
                                        preexec_fn=place, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(their_in)
        os.close(their_out)
        self.buffer = b""
        self.last = 0
        self.events = []

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.into], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.into, 1 << 20)
            if not data:
                raise OSError("the browser has ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        until = time.monotonic() + self.limit
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)


class Page:
    """One tab: a file, opened with a size, a colour scheme and other media features."""

    def __init__(self, browser, path, width=1280, height=900, dark=False, touch=False, **features):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        if touch:
            self.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
        features["prefers-color-scheme"] = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": n, "value": v} for n, v in features.items()])
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        until = time.monotonic() + browser.limit
        while self.evaluate("document.readyState") != "complete" or not self.evaluate("location.href.startsWith('file:')"):
            if time.monotonic() > until:
                raise TimeoutError("the page does not load")
            time.sleep(0.02)

    def call(self, method, **params):
        return self.browser.call(method, session=self.session, **params)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def evaluate(self, expression):
        """The value of a JavaScript expression, a promise's when it settles."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def frames(self):
        """Waits until what was changed has been drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def said(self):
        """What the page wrote to its console, threw or was warned of."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [e["params"] for e in self.browser.events if e.get("sessionId") == self.session and e["method"] in kinds]

    def requests(self):
        return [e["params"]["request"]["url"] for e in self.browser.events
                if e.get("sessionId") == self.session and e["method"] == "Network.requestWillBeSent"]

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, name, text=None, shift=False):
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, modifiers=8 if shift else 0, **more)

    def screenshot(self, path, whole=True):
        more = {"captureBeyondViewport": True} if whole else {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            self.size(int(size["width"]), int(size["height"]))
            self.frames()
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])
        with open(path, "wb") as out:
            out.write(data)
        return data

    def pdf(self, path):
        data = base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
        with open(path, "wb") as out:
            out.write(data)
        return data
