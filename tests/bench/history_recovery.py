"""How long the history takes to come back from a lost Redis: `python -m tests.bench.history_recovery`.

Real Kafka and Redis; every family has one completion on each of two hardware types.
"""

import itertools
import json
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from leap.schemas.codec import encode
from leap.schemas.events import SUCCEEDED, THROUGHPUT, JobAttempt, JobCompleted
from leap.schemas.topics import ATTEMPTS, COMPLETED, load_topics
from leap.streams.history.audit import attempts, compare
from leap.streams.history.backup import write_backup
from leap.streams.history.rebuild import rebuild
from leap.streams.history.store import HistoryStore
from leap.streams.history.worker import history_loop
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.redis_store.client import connect
from leap.streams.runtime.settings import Settings
from tests.builders import submission
from tests.services import real_pair

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HARDWARE_TYPES = ("basic", "fast")


def send(settings: Settings, families: int) -> None:
    """Publish completions, and the joined attempts that they would become."""
    producer = CheckedProducer(settings)
    for family, hardware_type in itertools.product(range(families), HARDWARE_TYPES):
        attempt, name = f"attempt-{family}-{hardware_type}", f"team/job-{family}x"
        finished = BEGIN + timedelta(seconds=family)
        completed = JobCompleted(
            attempt_id=attempt, job_name=name, model_type=f"model-{family % 660}", hardware_type=hardware_type,
            started_at=BEGIN, finished_at=finished, status=SUCCEEDED, measurements={THROUGHPUT: 1.0 + family},
        )  # fmt: skip
        row = JobAttempt(attempt_id=attempt, family=name, submitted=submission(attempt, name), completed=completed)
        producer.produce(settings.topic(COMPLETED), encode(completed), name.encode())
        producer.produce(settings.topic(ATTEMPTS), encode(row), name.encode())
    producer.flush(120)


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Seconds on the clock, and of this process's processor time."""
    began, used = time.perf_counter(), time.process_time()
    work()
    return {"s": round(time.perf_counter() - began, 1), "cpu_s": round(time.process_time() - used, 1)}


def main(families: Annotated[int, typer.Option(help="Families in the history.")] = 250_000) -> None:
    """Fill the store, lose it, and time each way back."""
    with tempfile.TemporaryDirectory() as folder, real_pair(Path(folder)) as pair:
        settings = replace(Settings.from_environment(pair.environment()), topic_replication=1)
        ensure_topics(settings, load_topics().values())
        send(settings, families)
        backup = Path(folder) / "history.gz"
        wanted = len(HARDWARE_TYPES) * families
        with connect(settings.redis_url) as client:
            store = HistoryStore(client, settings.redis_prefix)

            def lose() -> None:
                client.flushall()

            def worked() -> None:
                loop = history_loop(settings)
                working = threading.Thread(target=loop.run)
                working.start()
                while counted(store) < wanted:
                    time.sleep(2)  # counting costs time as well
                loop.stop()
                working.join()

            def audited() -> None:
                done = compare(store.buckets(THROUGHPUT), attempts(settings, THROUGHPUT))
                if done.differences or done.compared < 3 * families:
                    raise RuntimeError(f"{len(done.differences)} of {done.compared} statistics differ")

            figures = {"worker, first time": timed(worked), "backup": timed(lambda: write(store, backup))}
            figures["audit"] = timed(audited)
            lose()
            figures["worker, by itself after the loss"] = timed(worked)
            audited()
            lose()
            figures["rebuild"] = timed(lambda: rebuild(settings, store))
            audited()
            lose()
            figures["restore"] = timed(lambda: rebuild(settings, store, backup=backup))
            audited()
    print(json.dumps({"families": families, "completions": wanted} | figures))


def write(store: HistoryStore, path: Path) -> None:
    write_backup(store, (THROUGHPUT,), path)


def counted(store: HistoryStore) -> int:
    """Completions in the statistics, by the fences of any bucket: all are the same."""
    return sum(offset + 1 for offset in store.bucket(THROUGHPUT, "any").fences.values())


if __name__ == "__main__":
    typer.run(main)
