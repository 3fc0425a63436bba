"""A headless Chromium that a test drives over a pipe, by the protocol of its developer tools."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE = 25

LAUNCH = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Starts a program with the two ends of pipes as its files 3 and 4."""


class Chromium:
    """One window; what it said and asked for is kept."""

    def __init__(self, folder):
        assert CHROMIUM, "no chromium on the PATH: install it (Debian: chromium), or set CHROMIUM=PROGRAM"
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # Where files 3 and 4 are a pipe, it speaks over them, and no port is opened.
        words = [
            *(sys.executable, "-c", LAUNCH, str(to_browser), str(from_browser), CHROMIUM, "--headless=new"),
            *("--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *(
                "--no-first-run",
                "--hide-scrollbars",
                "--disable-extensions",
                "--disable-background-networking",
            ),
            *(f"--user-data-dir={folder / 'profile'}", "about:blank"),
        ]
        with (folder / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                words, stderr=log, stdout=log, pass_fds=(to_browser, from_browser)
            )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._rest, self._session = itertools.count(1), b"", None
        self.requests, self.complaints = [], []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **arguments):
        """Say something and give the answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == number:
                assert "error" not in heard, heard
                return heard["result"]
            self._note(heard)

    def _hear(self):
        while b"\0" not in self._rest:
            came = os.read(self._read, 1 << 16)
            assert came, "chromium has ended"
            self._rest += came
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, heard):
        match heard.get("method"), heard.get("params", {}):
            case "Network.requestWillBeSent", said:
                self.requests.append(said["request"]["url"])
            case "Log.entryAdded", said:
                self.complaints.append(said["entry"]["text"])
            case "Runtime.exceptionThrown", said:
                self.complaints.append(json.dumps(said["exceptionDetails"]))
            case "Runtime.consoleAPICalled", said if said["type"] in {"error", "warning", "assert"}:
                self.complaints.append(json.dumps(said["args"]))

    def value(self, code):
        """The value of JavaScript in the page."""
        got = self.ask("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def wait_for(self, code):
        """Ask until it is true."""
        until = time.monotonic() + PATIENCE
        while not (value := self.value(code)):
            assert time.monotonic() < until, f"{code}: {self.value('document.body.innerText')}"
            time.sleep(0.05)
        return value

    def picture(self, path, *, dark, width=1280, height=1000):
        """A picture of the whole page."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        """End it."""
        with suppress(OSError):
            os.close(self._write)
        self._process.kill()
        self._process.wait()
        os.close(self._read)
