"""What partitions say of themselves: attempts are absorbed exactly once, whatever dies and whoever else reads."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.record import FILE, Record, RecordError
from leap.retrainer.night import connectors
from leap.retrainer.night.connectors import absorb
from leap.retrainer.storage.files import LocalFiles
from leap.schemas.codec import encode
from leap.schemas.events import JobAttempt
from leap.streams.kafka.message import Message
from tests.builders import MIDNIGHT, attempt, submission

#: Two partitions of a topic; half of the attempts are corrected later, and one message is no attempt.
COUNT = 12


def topic() -> list[Message]:
    values = [
        encode(attempt(submission(f"a-{n % 8}", at=MIDNIGHT + timedelta(hours=6 * (n % 8))), "fast", 1.0 + n))
        for n in range(COUNT)
    ]
    values.insert(7, b"broken")
    return [Message("attempts", "id", n % 2, n // 2, None, value, 1, position=n // 2) for n, value in enumerate(values)]


def unread(partitions: Partitions) -> Iterator[Message]:
    offsets = (Record.read(partitions.files) or Record()).offsets or {}
    return (one for one in topic() if one.offset >= offsets.get(f"id/{one.partition}", 0))


def on(day: int) -> JobAttempt:
    return attempt(submission(f"day-{day}", at=MIDNIGHT + timedelta(days=day)), "fast", 1.0)


class Killed(BaseException):
    """Nothing handles it, as nothing handles kill -9."""


class Dying(LocalFiles):
    """Files of a process that dies before or after its `last` write."""

    def __init__(self, root: Path, last: int, after: bool) -> None:
        super().__init__(root)
        self.left, self.after = last, after

    def write(self, name: str, data: bytes) -> None:
        self.left -= 1
        if self.left or self.after:
            super().write(name, data)
        if not self.left:
            raise Killed


def tables(partitions: Partitions) -> dict[str, object]:
    rows = partitions.read(partitions.days())
    return dict(zip(rows["attempt_id"], rows["measured_throughput"], strict=True))


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_write_loses_nothing_and_counts_nothing_twice(
    after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connectors, "BATCH_SIZE", 7)
    whole = Partitions(tmp_path / "whole")
    absorb(whole, unread(whole), lambda message, reason: None, lambda: None)
    crashes = 0
    while True:
        root = tmp_path / str(crashes)
        try:
            dying = Partitions(root, files=Dying(root, crashes + 1, after))
            absorb(dying, unread(dying), lambda message, reason: None, lambda: None)
        except Killed:
            crashes += 1
        else:
            break
        again = Partitions(root)
        absorb(again, unread(again), lambda message, reason: None, lambda: None)
        assert tables(again) == tables(whole)
        assert again.sizes() == whole.sizes()
        assert Record.read(again.files) == Record({"id/0": 7, "id/1": 6})
        assert list(unread(again)) == []
    assert crashes >= 6, "days and offsets of two batches"


def test_offsets_are_recorded_after_the_dead_letters_are_safe(tmp_path: Path) -> None:
    def lost() -> None:
        raise Killed

    partitions = Partitions(tmp_path)
    with pytest.raises(Killed):
        absorb(partitions, unread(partitions), lambda message, reason: None, lost)
    assert Record.read(partitions.files) is None


def test_what_is_learned_is_of_a_day_as_it_is(tmp_path: Path) -> None:
    partitions = Partitions(tmp_path)
    days = partitions.ingest(on(day) for day in (0, 1, 2))
    partitions.learned(days[:2])
    assert partitions.unlearned() == days[2:]
    partitions.ingest([attempt(submission("late", at=MIDNIGHT), "fast", 2.0)])
    assert partitions.unlearned() == [days[0], days[2]]
    partitions.learned(days)
    assert partitions.unlearned() == []
    assert Record.read(partitions.files) == Record({}, partitions.sizes())


@pytest.mark.parametrize("data", [b"", b"[]", b'{"offsets": {"a": "b"}}', b"\xff"])
def test_a_record_that_cannot_be_read_says_what_to_do(data: bytes, tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write(FILE, data)
    with pytest.raises(RecordError, match="Remove it"):
        Record.read(files)


def test_a_trial_leaves_no_trace(tmp_path: Path) -> None:
    partitions = Partitions(tmp_path)
    partitions.ingest([on(0), on(3)])
    before = contents(tmp_path)
    trial = partitions.for_trial()
    absorb(trial, unread(trial), lambda message, reason: None, lambda: None)
    trial.prune(trial.days()[:1])
    trial.files.create("locks/1", b"")
    assert trial.days() != partitions.days() and trial.files.names("locks/*") == ["locks/1"]
    assert len(tables(trial)) > 2
    assert contents(tmp_path) == before


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
