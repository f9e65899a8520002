"""A real browser without a window, driven over the DevTools protocol's pipe: no driver, no package."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
TIMEOUT_S = 60.0
TAB, ENTER = ("Tab", 9), ("Enter", 13)

Json = dict[str, Any]


class Browser:
    """One tab. Messages are JSON that ends in a zero byte, both ways.

    Attributes
    ----------
    complaints
        What the console and the page's scripts complained of since the last `open`.
    """

    def __init__(self, to: int, back: int) -> None:
        self.complaints: list[str] = []
        self._to, self._back = to, back
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str, width: int = 1200, height: int = 900) -> None:
        """Load a page in a window of that size and wait until it has loaded."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.complaints.clear()
        self._call("Page.navigate", url=url)
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def ask(self, expression: str) -> Any:
        """Value of a JavaScript expression; a promise is waited for."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self.ask(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.05)

    def press(self, key: tuple[str, int]) -> None:
        """Press and release a key."""
        name, code = key
        text = {"text": "\r"} if name == "Enter" else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, windowsVirtualKeyCode=code, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, windowsVirtualKeyCode=code)

    def prefer(self, scheme: str = "light", media: str = "screen") -> None:
        """Show the page in ``light`` or ``dark`` colours, on a ``screen`` or for ``print``."""
        self._call(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def picture(self, whole: bool = False) -> bytes:
        """PNG of the window, or of the whole page."""
        return base64.b64decode(self._call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def pdf(self) -> bytes:
        """The page as printed."""
        return base64.b64decode(self._call("Page.printToPDF")["data"])

    def _call(self, method: str, **parameters: object) -> Json:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: Json = answer["result"]
        return result

    def _receive(self) -> Json:
        while b"\0" not in self._rest:
            part = os.read(self._back, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        one, self._rest = self._rest.split(b"\0", 1)
        message: Json = json.loads(one)
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(message["params"]["exceptionDetails"]))
            case "Runtime.consoleAPICalled" | "Log.entryAdded":
                self.complaints.append(str(message["params"]))
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Run Chromium with its profile in `folder`."""
    assert CHROMIUM, "no Chromium: apt-get install chromium"
    their_in, to = os.pipe()
    back, their_out = os.pipe()
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={folder}"]
    # The protocol's descriptors are 3 and 4; a shell moves ours there.
    shell = ["bash", "-c", f'exec "$@" 3<&{their_in} 4>&{their_out}', "bash", CHROMIUM, *flags, "about:blank"]
    process = subprocess.Popen(shell, pass_fds=(their_in, their_out), stderr=subprocess.DEVNULL)
    os.close(their_in)
    os.close(their_out)
    try:
        yield Browser(to, back)
    finally:
        process.terminate()
        process.wait(30)
        os.close(to)
        os.close(back)
