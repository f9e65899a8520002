"""The deployment on a day of the simulated fleet, and its dashboard: ``python -m tests.bench.dashboard PICTURE.png``.

Eight days of events are worked off, a night is run, then a day goes by in three minutes, in which the history worker's
store is away for half a minute. Needs what the tests on real services need, and Chromium.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from leap.schemas.codec import encode
from leap.schemas.topics import SUBMITTED
from leap.streams.kafka.clients import CheckedProducer, consumer_config
from leap.streams.simulator.events import Arrival, arrivals
from leap.streams.simulator.fleet import Fleet, FleetConfig
from tests.bench.panels import Line, page
from tests.browser import browser
from tests.deploy.stack import Stack, running
from tests.services import install_kafka

HISTORY_DAYS = 8
ATTEMPTS_PER_DAY = 400
SECONDS = 180.0
AWAY = (80.0, 105.0)
STEP_S = 1.0
RATE_S = 10.0


def send(stack: Stack, found: list[Arrival], seconds: float = 0.0) -> None:
    """Send events, spread evenly over so many seconds."""
    producer = CheckedProducer(stack.settings)
    began = time.monotonic()
    for number, arrival in enumerate(found):
        if seconds:
            passed = time.monotonic() - began
            time.sleep(max(0.0, seconds * number / len(found) - passed))
            stack.stores["history"].refuse = AWAY[0] <= passed < AWAY[1]
        producer.produce(arrival.topic, encode(arrival.event), arrival.key.encode())
    producer.flush()


def run(stack: Stack, start: datetime, picture: Path) -> None:
    """Eight days, a night, and a day to be drawn."""
    fleet = Fleet(FleetConfig(start=start.date(), days=HISTORY_DAYS + 1, attempts_per_day=ATTEMPTS_PER_DAY))
    found = sorted(
        (one for day in range(fleet.config.days) for one in arrivals(fleet.day(day))), key=lambda one: one.arrives_ms
    )
    today = start + timedelta(days=HISTORY_DAYS)
    midnight = today.timestamp() * 1000.0
    with ExitStack() as services:
        for name in ("history", "joiner"):
            services.enter_context(stack.service(name))
        send(stack, [one for one in found if one.arrives_ms < midnight])
        done = 'sum(leap_lag_messages) == 0 and sum(leap_consumed_total{worker="joiner"}) > 1000'
        stack.wait(lambda: bool(stack.query(done)), "the days before to be worked off")
        night = [sys.executable, "-m", "leap", "retrain", "--date", f"{today:%Y-%m-%d}"]
        subprocess.run(night, env=os.environ | stack.environment("retrain"), check=True)
        skip(stack, SUBMITTED, "ranking")
        for name in ("ranking", "monitor"):
            services.enter_context(stack.service(name))
        ready = 'leap_batch_begun_timestamp_seconds{worker="ranking"} and on () leap_live_share{what="coverage"}'
        stack.wait(lambda: bool(stack.query(ready)), "ranking and monitor")
        time.sleep(2 * RATE_S)  # nothing of the start in the picture
        send(stack, [one for one in found if midnight <= one.arrives_ms < midnight + 86_400_000], SECONDS)
        time.sleep(5.0)
        draw(stack, picture)


def skip(stack: Stack, topic: str, group: str) -> None:
    """Let a consumer group begin at the end: what is there was not submitted to it."""
    consumer = Consumer(consumer_config(stack.settings, group))
    count = len(consumer.list_topics(topic).topics[topic].partitions)
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number))[1] for number in range(count)]
    consumer.commit(offsets=[TopicPartition(topic, *end) for end in enumerate(ends)], asynchronous=False)
    consumer.close()


def draw(stack: Stack, picture: Path) -> None:
    """Ask Prometheus for all that the dashboard shows, and have a browser show it."""
    now = time.time()

    def ask(expression: str) -> list[tuple[dict[str, str], Line]]:
        series = stack.range(expression.replace("$__rate_interval", f"{RATE_S:.0f}s"), now - SECONDS, now, STEP_S)
        return [(one["metric"], [(float(at), float(value)) for at, value in one["values"]]) for one in series]

    note = f"a simulated day in {SECONDS / 60:.0f} minutes; drawn by tests/bench/dashboard.py, not by Grafana"
    html = stack.folder / "dashboard.html"
    html.write_text(page(ask, now, note), encoding="utf-8")
    with browser(stack.folder / "browser") as chromium:
        chromium.open(html.as_uri(), 1400, 1160)
        picture.write_bytes(chromium.picture())


def main(picture: Path) -> None:
    """Run it and draw it."""
    install_kafka()
    start = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=HISTORY_DAYS + 1)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), scrape_s=STEP_S, times=1) as stack:
        run(replace(stack, volume="volume"), start, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
