"""A headless Chromium over its own pipe (DevTools protocol): opens a page, asks it, presses keys, takes pictures."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = "chromium"
INSTALL = "Chromium is missing: apt-get install chromium"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
ANSWER_SECONDS = 60.0


class BrowserError(Exception):
    """What the browser said no to, or did not do in time."""


class Page:
    """One tab. `problems` are its console errors, exceptions and policy violations; `wire` bytes by address."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.problems: list[str] = []
        self.wire: dict[str, int] = {}
        self._addresses: dict[str, str] = {}
        self._read_fd, self._write_fd = read_fd, write_fd
        self._buffer, self._last_id, self._session = b"", 0, ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call one method of the protocol; its result."""
        self._last_id += 1
        wanted = self._last_id
        message: dict[str, Any] = {"id": wanted, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write_fd, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            answer = self._next(deadline)
            if answer is not None and answer.get("id") == wanted:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
        raise BrowserError(f"{method}: no answer in {ANSWER_SECONDS:.0f} s")

    def open(self, url: str) -> None:
        """Go there; waits until the document has loaded."""
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 20.0) -> Any:
        """Ask until the answer is truthy; BrowserError with the page's text when it never is."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(BrowserError):
                found = self.ask(f"(value => value instanceof Node || value)({expression})")
                if found:
                    return found
            self._next(time.monotonic() + 0.05)
        text = self.ask("document.body ? document.body.innerText.slice(0, 1500) : ''")
        raise BrowserError(f"not within {seconds:g} s: {expression}\n{self.problems}\n{text}")

    def text(self, selector: str) -> str:
        """The text that is shown in the first element that matches."""
        return str(self.ask(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of the first element that matches."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.until(found)
        x, y = self.ask(
            f"(() => {{ const el = {found}; el.scrollIntoView({{block: 'center'}});"
            "const box = el.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self.mouse(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def mouse(self, x: float, y: float) -> None:
        """Move the pointer there."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def key(self, name: str, text: str = "") -> None:
        """Press one key."""
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}
        extra: dict[str, Any] = {"windowsVirtualKeyCode": codes.get(name, 0)}
        if text:
            extra["text"] = text
        self.send("Input.dispatchKeyEvent", type="keyDown", key=name, **extra)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=codes.get(name, 0))

    def type(self, text: str) -> None:
        """Put text into what has the focus."""
        self.send("Input.insertText", text=text)

    def size(self, width: int, height: int, *, scale: float = 1.0, is_phone: bool = False) -> None:
        """The size of the window in CSS pixels."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=is_phone,
        )

    def prefer(self, **features: str) -> None:
        """Media features, such as `color_scheme="dark"`."""
        named = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()]
        self.send("Emulation.setEmulatedMedia", features=named)

    def picture(self, path: Path) -> None:
        """The window as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def _next(self, deadline: float) -> dict[str, Any] | None:
        """The next message, events noted on the way; None when the time is up."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read_fd], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                return None
            chunk = os.read(self._read_fd, 1 << 20)
            if not chunk:
                raise BrowserError("the browser is gone")
            self._buffer += chunk
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.responseReceived":
            self._addresses[params["requestId"]] = params["response"]["url"]
        elif method == "Network.loadingFinished" and params["requestId"] in self._addresses:
            address = self._addresses[params["requestId"]]
            self.wire[address] = self.wire.get(address, 0) + int(params["encodedDataLength"])


@contextlib.contextmanager
def browsing() -> Iterator[Page]:
    """A fresh browser with one tab."""
    program = shutil.which(CHROMIUM)
    if program is None:
        raise BrowserError(INSTALL)
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-chromium-", ignore_cleanup_errors=True))
        (their_read, our_write), (our_read, their_write) = _pipe(stack), _pipe(stack)
        # The protocol's pipe is descriptors 3 and 4 of the browser; ours are high, so that none is in the way.
        shell = 'exec "${@:3}" 3<&"$1" 4>&"$2"'
        command = [program, *_FLAGS, f"--user-data-dir={home}", "--window-size=1400,860", "about:blank"]
        process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", str(their_read), str(their_write), *command],
            pass_fds=(their_read, their_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": home},
            start_new_session=True,
        )
        stack.callback(_stop, process)
        yield Page(our_read, our_write)


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    ends = []
    for low in os.pipe():
        high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 20)
        os.close(low)
        stack.callback(os.close, high)
        ends.append(high)
    return ends[0], ends[1]


def _stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 15)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait(5)
