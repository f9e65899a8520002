"""The lock in a remote store: one holder, also of many in the same moment, and none for ever."""

import threading
import time
import uuid

import pytest

from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.record import Record
from leap.retrainer.storage import lease
from leap.retrainer.storage.files import RemoteFiles, open_files
from leap.retrainer.storage.guarded import Guarded
from leap.retrainer.storage.lease import DEAD_S, Busy, leased
from tests.builders import attempt, submission


@pytest.fixture(params=["memory", "s3"])
def root(request: pytest.FixtureRequest) -> str:
    place = "memory:/" if request.param == "memory" else request.getfixturevalue("s3")
    return f"{place}/{uuid.uuid4().hex}"


def test_one_holds_it_at_a_time(root: str) -> None:
    for _ in range(2):
        with leased(root), pytest.raises(Busy, match="another night is running"), leased(root):
            pass
    assert open_files(root).names("locks/*") == []


def test_one_that_died_holds_it_no_longer(root: str) -> None:
    open_files(root).write("locks/000000000007", b"1000 elsewhere")
    with pytest.raises(Busy, match="its last sign of life is 100 s old"), leased(root, now=lambda: 1100.0):
        pass
    with leased(root, now=lambda: 1000.0 + DEAD_S):
        assert open_files(root).names("locks/*") == ["locks/000000000008"]


def test_one_that_stood_still_writes_nothing_over_what_the_next_has_written(root: str) -> None:
    clock = [1000.0]
    with leased(root, now=lambda: clock[0]) as assert_held:
        slow = Partitions(root, files=Guarded(open_files(root), assert_held))
        slow.absorb([], {"id/0": 7})
        clock[0] += DEAD_S
        with leased(root, now=lambda: clock[0]) as held_by_next:
            following = Partitions(root, files=Guarded(open_files(root), held_by_next))
            following.absorb([attempt(submission("a"), "fast", 1.0)], {"id/0": 8})
            with pytest.raises(Busy, match="took over"):
                slow.absorb([attempt(submission("b"), "fast", 1.0)], {"id/0": 9})
        with pytest.raises(Busy, match="took over"):  # nor when that has ended
            slow.learned(slow.days())
    partitions = Partitions(root)
    assert Record.read(partitions.files) == Record({"id/0": 8})
    assert partitions.read(partitions.days())["attempt_id"].tolist() == ["a"]


def test_a_holder_that_lives_long_gives_signs(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_S", 0.01)
    clock = [1000.0]
    with leased(root, now=lambda: clock[0]):
        clock[0] += 2 * DEAD_S
        [name] = open_files(root).names("locks/*")
        given = threading.Event()
        while not given.wait(0.01):
            if open_files(root).read(name).startswith(b"1360 "):
                given.set()
        with pytest.raises(Busy), leased(root, now=lambda: clock[0]):
            pass


def test_signs_go_on_after_the_store_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_S", 0.01)
    root = f"memory://{uuid.uuid4().hex}"
    clock, refused = [1000.0], threading.Event()

    def refuse(*_: object) -> None:
        refused.set()
        raise Exception("Connection was closed")  # as botocore does: no OSError

    with leased(root, now=lambda: clock[0]):
        [name] = open_files(root).names("locks/*")
        with monkeypatch.context() as away:
            away.setattr(RemoteFiles, "write", refuse)
            assert refused.wait(60)
        clock[0] += 500.0
        deadline = time.monotonic() + 60
        while not open_files(root).read(name).startswith(b"1500 "):
            assert time.monotonic() < deadline, "no sign of life any more"
            time.sleep(0.01)


def test_of_many_in_the_same_moment_one_has_it(s3: str) -> None:
    root = f"{s3}/{uuid.uuid4().hex}"
    open_files(root).write("locks/000000000001", b"0 died long ago")
    together, done = threading.Barrier(6), threading.Barrier(6)
    held: list[int] = []

    def take(number: int) -> None:
        together.wait()
        try:
            with leased(root):
                held.append(number)
                done.wait()
        except Busy:
            done.wait()

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 1
