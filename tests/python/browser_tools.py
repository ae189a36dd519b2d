"""Drives a headless Chromium through its debugging pipe: no port, no driver, no package.

Messages of the DevTools protocol are JSON that ends with a NUL byte; the browser reads them from file descriptor 3
and writes its own to 4.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60.0
FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--mute-audio"),
    *("--remote-debugging-pipe", "--window-size=1200,800", "--force-color-profile=srgb"),
]
# puts the pipes' ends at the browser's descriptors, then executes the browser
_BEGIN = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, "Tab": 9}


def installed() -> str | None:
    """The path of a Chromium of this machine."""
    found = os.environ.get("INVISO_CHROMIUM")
    return found or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser with one tab."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="inviso-browser-", ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
        begin = [sys.executable, "-S", "-E", "-c", _BEGIN, *map(str, ends)]
        command = [*begin, program, *FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"]
        null = subprocess.DEVNULL
        self.process = subprocess.Popen(command, pass_fds=ends, stdin=null, stdout=null, stderr=null)
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        """Messages of the browser other than answers, since the last page was opened."""
        targets = self.send("Target.getTargets")["targetInfos"]
        tab = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.send(f"{domain}.enable")

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(until - time.monotonic(), 0))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError(f"the browser says nothing more; its status: {self.process.poll()}")
            self._buffer += data
        one, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(one)
        return message

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command, and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while (answer := self._message(until)).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def event(self, method: str) -> dict[str, Any]:
        """The first event of that name since the page was opened."""
        until = time.monotonic() + PATIENCE
        while not (found := [event for event in self.events if event.get("method") == method]):
            self.events.append(self._message(until))
        parameters: dict[str, Any] = found[0]["params"]
        return parameters

    def open(self, path: pathlib.Path) -> None:
        """Opens a file, and waits until it is loaded."""
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        self.event("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of an expression of the page. A promise is awaited."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script: str) -> Any:
        """Waits until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            if time.monotonic() > until:
                raise TimeoutError(f"never true: {script}")
            time.sleep(0.01)
        return value

    def errors(self) -> list[str]:
        """Exceptions and errors of the console since the page was opened."""
        self.run("1")
        return [
            json.dumps(event["params"])
            for event in self.events
            if event["method"] == "Runtime.exceptionThrown"
            or (event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"))
        ]

    def asked(self) -> list[str]:
        """The addresses that the page requested."""
        self.run("1")
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def key(self, key: str, modifiers: int = 0) -> None:
        """Presses a key; modifiers: 1 Alt, 2 Ctrl, 8 Shift."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = KEYS.get(key, 0)
        self.send(
            "Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **text
        )
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def type(self, text: str) -> None:
        """Types into the focused element."""
        self.send("Input.insertText", text=text)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def move(self, x: float, y: float) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def wheel(self, x: float, y: float, by: float, modifiers: int = 0) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=by, modifiers=modifiers)

    def theme(self, name: str) -> None:
        """Sets the user's preference that pages see: "light" or "dark"."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path: pathlib.Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        self._session = None
        try:
            self.send("Browser.close")
            self.process.wait(PATIENCE)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self._out)
        os.close(self._in)
        self._folder.cleanup()
