"""The pictures of docs/report.md: ``python -m tests.screenshots docs/report``. Needs Chromium.

The report is that of what `leap learn` makes of examples/jobs.csv; the monitor has seen the events of its own tests.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from leap.schemas.codec import encode
from leap.streams.monitor.aggregates import Monitor
from leap.streams.monitor.app import LiveMonitor
from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.settings import Settings
from tests.browser import Browser, browser
from tests.streams.monitor.test_aggregates import EVENTS, NOW
from tests.streams.monitor.test_app import TOPICS

#: Picture to colours and size of the window.
REPORT = {"desktop": ("light", 1200, 1000), "dark": ("dark", 1200, 1000), "phone": ("light", 390, 1200)}


def main(folder: Path) -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as scratch, browser(Path(scratch) / "profile") as chromium:
        page = learned(Path(scratch))
        for name, (scheme, width, height) in REPORT.items():
            chromium.prefer(scheme)
            chromium.open(page.as_uri(), width, height)
            (folder / f"{name}.png").write_bytes(chromium.picture())
        chromium.prefer()
        monitor(chromium, folder / "monitor.png")


def learned(scratch: Path) -> Path:
    """The report of what the example teaches."""
    page, places = scratch / "report.html", {name: str(scratch / name.lower()) for name in ("PARTITIONS", "ARTIFACTS")}
    environment = os.environ | {f"LEAP_{name}": place for name, place in places.items()}
    for words in (["learn", "examples/jobs.csv", "--mapping", "examples/jobs.yaml"], ["report", str(page)]):
        subprocess.run([sys.executable, "-m", "leap", *words], env=environment, check=True)
    return page


def monitor(chromium: Browser, picture: Path) -> None:
    """The page of the live monitor."""
    settings = Settings.from_environment({})
    live = LiveMonitor(settings, Monitor(lambda: NOW.timestamp()))
    for event in EVENTS:
        live.take(settings.topic(TOPICS[type(event).__name__]), encode(event))
    with health_server(0, live.progress, live.pages) as port:
        chromium.open(f"http://127.0.0.1:{port}/")
        chromium.wait("document.querySelectorAll('#shares div').length > 0")
        picture.write_bytes(chromium.picture())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
