"""Headless Chromium, driven through chromedriver's HTTP API (W3C WebDriver), for the tests of the Temporal UI.

A dozen requests are enough, so no browser library is needed. The browser gets an empty profile and is told to connect only to
the page.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import patience
from tests.free_ports import free_ports
from tests.waiting import wait_until

PROGRAMS: Final = ("chromium", "chromedriver")
FLAGS: Final = (
    "--headless",
    "--no-sandbox",  # root has no user namespace for the renderers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
PATIENCE: Final = patience.PATIENCE
ONE_LOAD: Final = 10.0
"""Seconds until a page is loaded again for the first time. Each further load has twice as long: on a busy machine one may need more."""
LOOK_AGAIN: Final = 0.5
"""Each look lays the page out anew."""
BROKEN: Final = ("Uh oh.", "ERR_NETWORK_CHANGED")
LOADED: Final = """
    const loads = performance.getEntriesByType("resource").map(one => [one.name, one.responseStatus, Math.round(one.duration)]);
    return [location.href, document.readyState, document.documentElement.outerHTML.length, loads.slice(-40)];
"""
"""What the page is, and the requests that have ended, each with its status and milliseconds: one that failed has 0, one that hangs is missing."""
TEXT: Final = """
    const frames = [...document.querySelectorAll("iframe")].map(one => one.contentDocument);
    return [document, ...frames].map(one => one?.body?.innerText ?? "").join("\\n");
"""


def missing_browser() -> str:
    """Return what is missing and how to get it, or an empty string."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"no {' and no '.join(missing)} on PATH: apt-get install chromium chromium-driver" if missing else ""


@dataclass(frozen=True, slots=True)
class Browser:
    """One window."""

    session: str
    """The WebDriver session's URL."""

    def show(self, url: str, holds: Callable[[str], Any], what: str) -> str:
        """Load a page and return its text once it satisfies a condition; raises TimeoutError with its text.

        Chromium fails every pending request when a network interface appears or disappears, as at each start of a pod.
        So a page that failed to load is loaded again: it shows an error, or stays empty.
        """
        begun, one_load = time.monotonic(), ONE_LOAD
        loads = [self._load(url)]
        while not holds(text := self.text()):
            if time.monotonic() > begun + PATIENCE:
                ended = [round(one - begun, 1) for one in loads]
                raise TimeoutError(
                    f"the page does not show {what}:\n{text}\nloads ended at {ended} s; {self.run(LOADED)}"
                )
            time.sleep(LOOK_AGAIN)
            if any(words in text for words in BROKEN):
                loads.append(self._load(url))
            elif time.monotonic() > loads[-1] + one_load:
                loads.append(self._load(url))
                one_load *= 2
        return text

    def size(self, width: int, height: int, scale: float = 1) -> None:
        """Resize the page in CSS pixels; a picture has `scale` times as many."""
        view = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        _ask("POST", f"{self.session}/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": view})

    def run(self, script: str) -> Any:
        """Return the result of a piece of JavaScript."""
        return _ask("POST", f"{self.session}/execute/sync", {"script": script, "args": []})

    def text(self) -> str:
        """Return the page's visible text, including its frames and what is outside the window."""
        return str(self.run(TEXT))

    def picture(self) -> bytes:
        """Return the window's content as PNG."""
        return base64.b64decode(_ask("GET", f"{self.session}/screenshot"))

    def _load(self, url: str) -> float:
        with contextlib.suppress(RuntimeError):  # the text shows a page that cannot be loaded
            _ask("POST", f"{self.session}/url", {"url": url})
        return time.monotonic()


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Run a browser with an empty profile, which is removed afterwards."""
    port = free_ports(1)[0]
    with tempfile.TemporaryDirectory(prefix="tpl.chromium.", ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "HOME": profile, "TMPDIR": profile},  # and no proxy
        )
        try:
            session = _open_session(f"http://127.0.0.1:{port}", Path(profile))
            try:
                yield Browser(session)
            finally:
                _ask("DELETE", session)
        finally:
            driver.terminate()
            driver.wait(timeout=PATIENCE)


def _open_session(driver: str, profile: Path) -> str:
    arguments = [*FLAGS, f"--user-data-dir={profile}"]
    wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}}}

    def opened() -> str:
        with contextlib.suppress(ConnectionError):  # it does not listen yet
            return str(_ask("POST", f"{driver}/session", {"capabilities": wanted})["sessionId"])
        return ""

    return f"{driver}/session/{wait_until(opened, 'chromedriver listens', looks=(LOOK_AGAIN, LOOK_AGAIN))}"


def _ask(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"chromedriver refused {method}: {json.load(error)['value']['message']}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionError):
            raise error.reason from error
        raise
