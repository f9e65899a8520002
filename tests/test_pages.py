"""The report and the live monitor in a real browser: what it complains of, keyboard, colours, phone and paper."""

import base64
import re
from collections.abc import Callable, Iterator

import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.report.figures import figures
from leap.retrainer.report.html_page import page
from leap.retrainer.report.subject import of_night
from leap.schemas.codec import encode
from leap.schemas.events import THROUGHPUT
from leap.streams.monitor.aggregates import Monitor
from leap.streams.monitor.app import LiveMonitor
from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.settings import Settings
from tests.artifacts import NIGHT
from tests.browser import CHROMIUM, ENTER, TAB, Browser, browser
from tests.streams.monitor.test_aggregates import EVENTS, NOW, monitor_of
from tests.streams.monitor.test_app import TOPICS

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")

PHONE, DESK = 360, 1200
#: Least contrast of text that WCAG 2.2 allows at level AA.
CONTRAST = 4.5
#: Least contrast of the page's texts with what is behind them, and which text that is.
LEAST_CONTRAST = """(() => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = light(numbers(getComputedStyle(document.body).backgroundColor));
  const found = [...document.querySelectorAll("body *")]
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
    .filter(e => !e.matches("script, style, title, .inverse"))
    .map(e => [light(numbers(getComputedStyle(e)[e.closest("svg") ? "fill" : "color"])), e])
    .map(([l, e]) => [(Math.max(l, back) + 0.05) / (Math.min(l, back) + 0.05), e.textContent]);
  return found.sort((a, b) => a[0] - b[0])[0];
})()"""
#: Share of a picture's pixels that have another colour than its first.
DRAWN = """(async () => {
  const image = new Image();
  image.src = "data:image/png;base64,%s";
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, image.width, image.height).data.buffer);
  return pixels.filter(pixel => pixel !== pixels[0]).length / pixels.length;
})()"""
FOCUSED = "document.activeElement.id || document.activeElement.getAttribute('href')"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(scope="module")
def report(artifact_store: LocalStore, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of the report of a night."""
    subject = of_night(Partitions(artifact_store.root.parent / "partitions"), artifact_store, THROUGHPUT, NIGHT)
    place = tmp_path_factory.mktemp("report") / "report.html"
    place.write_text(page(subject, list(figures(subject))), encoding="utf-8")
    return place.as_uri()


@pytest.fixture
def monitor() -> Iterator[tuple[str, Callable[[], None]]]:
    """Address of a monitor that has seen `EVENTS`, and what ends it."""
    settings = Settings.from_environment({})
    live = LiveMonitor(settings, Monitor(lambda: NOW.timestamp()))
    for event in EVENTS:
        live.take(settings.topic(TOPICS[type(event).__name__]), encode(event))
    server = health_server(0, live.progress, live.pages)
    port = server.__enter__()
    ended = False

    def end() -> None:
        nonlocal ended
        if not ended:
            server.__exit__(None, None, None)
        ended = True

    yield f"http://127.0.0.1:{port}/", end
    end()


def drawn(chromium: Browser, picture: bytes) -> float:
    share: float = chromium.ask(DRAWN % base64.b64encode(picture).decode())
    return share


def sound(chromium: Browser, url: str, ready: str = "true") -> None:
    """On a desk and on a phone, in both schemes: nothing to complain of, readable, and nothing beyond the edge."""
    backs = set()
    for scheme in ("light", "dark"):
        chromium.prefer(scheme)
        for width in (DESK, PHONE):
            chromium.open(url, width)
            chromium.wait(ready)
            assert chromium.ask("document.documentElement.scrollWidth") <= width
            assert drawn(chromium, chromium.picture()) > 0.01
        contrast, text = chromium.ask(LEAST_CONTRAST)
        assert contrast >= CONTRAST, text
        backs.add(chromium.ask("getComputedStyle(document.body).backgroundColor"))
        assert chromium.complaints == []
    assert len(backs) == 2
    chromium.prefer()


def test_the_report_on_desk_and_phone_light_and_dark(chromium: Browser, report: str) -> None:
    sound(chromium, report)


def test_the_report_by_keyboard(chromium: Browser, report: str) -> None:
    chromium.open(report, PHONE)
    links = chromium.ask("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    tables = chromium.ask("[...document.querySelectorAll('.scroll')].map(table => table.id)")
    assert len(links) >= len(tables) > 5
    chromium.press(TAB)
    assert chromium.ask(FOCUSED) == "#content"
    assert chromium.ask("document.activeElement.getBoundingClientRect().left") >= 0, "the skip link shows itself"
    for expected in links:
        chromium.press(TAB)
        assert chromium.ask(FOCUSED) == expected
        assert chromium.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for expected in tables:
        chromium.press(TAB)
        assert chromium.ask(FOCUSED) == expected, "what scrolls sideways can be scrolled by keys"
    chromium.open(report, PHONE)
    chromium.press(TAB)
    chromium.press(ENTER)
    chromium.wait(f"{FOCUSED} === 'content'")
    chromium.press(TAB)
    assert chromium.ask(FOCUSED) == tables[0]


def test_the_report_on_paper(chromium: Browser, report: str) -> None:
    chromium.open(report)
    chromium.prefer("dark", "print")
    assert chromium.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert chromium.ask("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    paper = chromium.pdf()
    chromium.prefer()
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) >= 4


def test_the_monitor_on_desk_and_phone_light_and_dark(
    chromium: Browser, monitor: tuple[str, Callable[[], None]]
) -> None:
    sound(chromium, monitor[0], "document.querySelectorAll('#shares div').length > 0")


def test_the_monitor_shows_its_figures_and_says_when_they_are_old(
    chromium: Browser, monitor: tuple[str, Callable[[], None]]
) -> None:
    url, end = monitor
    chromium.open(url)
    chromium.wait("document.querySelectorAll('#shares div').length > 0")
    expected = monitor_of(EVENTS).figures()
    assert expected.accuracy is not None
    shown = dict(
        chromium.ask(
            "[...document.querySelectorAll('#shares div')].map(d => [...d.children].map(c => c.firstChild.data.trim()))"
        )
    )
    assert shown["within 20% (w20)"] == f"{expected.accuracy.w20:.1f}%"
    assert shown["accelerator-hours with a ranking"] == f"{expected.hours_ranked:.1f}%"
    assert shown["placed on the first choice"] == f"{expected.first_choice:.1f}%"
    rows = chromium.ask("[...document.querySelectorAll('#hardware_types tbody tr')].map(r => r.cells[0].textContent)")
    assert rows == [name for name, *_ in expected.hardware_types]
    end()
    # A browser may hold a spare connection that was accepted before the end; one more answer can come through it.
    chromium.ask("refresh()")
    chromium.wait("document.getElementById('status').textContent.startsWith('No answer from the monitor')")
