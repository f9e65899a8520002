import socket
import urllib.error
import urllib.request

import pytest

from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.liveness import Progress

ONE, TWO = ("t", 0), ("t", 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_partition_stalls_only_with_lag() -> None:
    clock = Clock()
    progress = Progress(clock, stall_s=60)
    progress.assigned([ONE, TWO])
    progress.ends({ONE: 5, TWO: 5})
    progress.reached({ONE: 5, TWO: 3})
    clock.now = 61
    assert progress.stalled() == [TWO]
    assert progress.lag() == {ONE: 0, TWO: 2}
    progress.reached({TWO: 4})
    assert progress.stalled() == []


def test_stall_timer_starts_when_a_message_arrives() -> None:
    clock = Clock()
    progress = Progress(clock, stall_s=60)
    progress.assigned([ONE])
    progress.ends({ONE: 5})
    progress.reached({ONE: 5})
    clock.now = 1000
    progress.ends({ONE: 6})
    clock.now = 1060
    assert progress.stalled() == []
    clock.now = 1061
    assert progress.stalled() == [ONE]


def test_partition_that_was_never_fetched_stalls() -> None:
    clock = Clock()
    progress = Progress(clock, stall_s=60)
    progress.assigned([ONE])
    progress.ends({ONE: 0})
    clock.now = 61
    assert progress.stalled() == [ONE]


def test_revoked_partition_cannot_stall() -> None:
    clock = Clock()
    progress = Progress(clock, stall_s=60)
    progress.assigned([ONE, TWO])
    progress.ends({ONE: 5, TWO: 5})
    progress.assigned([TWO])
    progress.reached({ONE: 1})
    clock.now = 61
    assert progress.stalled() == [TWO]


@pytest.mark.parametrize("fails", [False, True])
def test_hanging_batch_stalls_all_partitions(fails: bool) -> None:
    clock = Clock()
    progress = Progress(clock, stall_s=60)
    progress.assigned([ONE, TWO])
    progress.taken(True)
    for clock.now in range(0, 61, 5):
        if fails:
            progress.failing()
        assert progress.stalled() == []
    clock.now = 61
    assert progress.stalled() == [ONE, TWO]
    clock.now = 1000
    progress.taken(False)
    assert progress.stalled() == []


def test_worker_outside_its_group_is_a_fault() -> None:
    clock = Clock()
    progress = Progress(clock, stall_s=60)
    clock.now = 121
    assert progress.fault() == "not in the consumer group"
    progress.assigned([])  # more workers than partitions: it may have none for ever
    clock.now = 1000
    assert progress.fault() is None and progress.ready()
    progress.revoked()
    clock.now = 1120
    assert progress.fault() is None and not progress.ready()
    clock.now = 1121
    assert progress.fault() == "not in the consumer group"


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_endpoints_follow_progress() -> None:
    clock = Clock()
    progress = Progress(clock, stall_s=60)
    with health_server(0, progress) as port:
        assert get(port, "/livez") == (200, "alive")
        assert get(port, "/readyz")[0] == 503
        progress.assigned([ONE])
        assert get(port, "/readyz") == (200, "ready")
        progress.failing()
        assert get(port, "/readyz")[0] == 503
        progress.ends({ONE: 5})
        clock.now = 61
        assert get(port, "/livez") == (503, "no progress on [('t', 0)] despite lag")
        assert "leap_batch_failures_total" in get(port, "/metrics")[1]
        assert get(port, "/")[0] == 404


def test_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leap.streams.runtime.health_server.IDLE_S", 1.0)
    with health_server(0, Progress()) as port, socket.create_connection(("127.0.0.1", port), timeout=30) as idle:
        assert idle.recv(1) == b""
        assert get(port, "/livez")[0] == 200
