"""Wrong usages of the command: each ends within 5 s, in a status that is not 0 and a sentence that says what to do.

``python -m tests.test_wrong_usages`` prints the table with what was said and how long it took.
"""

import json
import logging
import re
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import chdir, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog

from leap.streams.embedded import free_port
from tests.commands import invoke

EXAMPLES = Path(__file__).parents[1] / "examples"
JOB, TABLE, MAPPING = (str(EXAMPLES / name) for name in ("job.json", "jobs.csv", "jobs.yaml"))
SECRET = "hush-7e1"
BUCKET = f"s3://key:{SECRET}@bucket/x"
LIMIT_S = 5.0


class Wrong(NamedTuple):
    """One wrong usage: a command, its environment, and what the sentence must have in it: the fault, and the remedy.

    In the environment ``AWAY``, ``SILENT``, ``OTHER``, ``DENIED`` and ``TAKEN`` stand for ports: where nobody listens,
    where nobody answers, where something else answers, where a password is refused, and one of another process.
    """

    command: str
    environment: dict[str, str]
    said: str
    status: int = 1


KAFKA, REDIS, PORT = "LEAP_KAFKA_BOOTSTRAP_SERVERS", "LEAP_REDIS_URL", "LEAP_METRICS_PORT"
AWAY, SILENT, OTHER = ({KAFKA: f"127.0.0.1:{port}"} for port in ("AWAY", "SILENT", "OTHER"))
NO_STORE, DENIED = ({REDIS: f"redis://user:{SECRET}@127.0.0.1:{port}/0"} for port in ("AWAY", "DENIED"))
NOBODY = r"no broker at 127.0.0.1:\d+: Connect to .* failed: Connection refused; LEAP_KAFKA_BOOTSTRAP_SERVERS says"
NOT_KAFKA = r"no broker at 127.0.0.1:\d+: what answers there is not Kafka; LEAP_KAFKA_BOOTSTRAP_SERVERS says"
NOTHING = r"the store does not answer as it should: .*Connection refused; LEAP_REDIS_URL says where it is"
UNWRITABLE = "none is not a writable directory; make it, or name another"
KEYS = "AWS_ACCESS_KEY_ID"
HELP = "Try 'root.* -h' for help.*Error: "

WRONG = [
    # Nobody there, or somebody else.
    *(Wrong(command, AWAY, NOBODY) for command in (
        "topics check", "topics ensure", "dead-letters list", "dead-letters replay", "explain attempt-1", "retrain",
        "worker history", "worker joiner", "worker ranking", "worker monitor",
        f"backfill {TABLE} --mapping {MAPPING}",
    )),
    Wrong("topics check", SILENT, "no answer within 3 s; LEAP_KAFKA_BOOTSTRAP_SERVERS says where the broker is"),
    Wrong("dead-letters list", OTHER, NOT_KAFKA),
    Wrong("worker joiner", OTHER, NOT_KAFKA),
    Wrong("topics check", {KAFKA: "no.invalid:9092"}, "Failed to resolve 'no.invalid:9092'.*; LEAP_KAFKA_BOOTSTRAP"),
    *(Wrong(command, NO_STORE, NOTHING) for command in ("switch show", "history audit", "history rebuild")),
    Wrong("switch show", DENIED, "invalid username-password pair .*; LEAP_REDIS_URL says where it is"),
    Wrong("history show resnet", {REDIS: "redis://127.0.0.1:SILENT/0"}, "Timeout.*; LEAP_REDIS_URL says where it is"),
    # Settings.
    Wrong("switch show", {REDIS: "foo"}, "LEAP_REDIS_URL is invalid: expected redis://host"),
    Wrong("worker ranking", {REDIS: f"http://u:{SECRET}@x"}, "LEAP_REDIS_URL is invalid: expected redis://host"),
    Wrong("topics check", {"LEAP_KAFKA_FOO_BAR": "x"}, 'No such configuration property: "foo.bar"; LEAP_KAFKA_BOOTS'),
    Wrong("worker history", {"LEAP_KAFKA_AUTO_OFFSET_RESET": "latest"}, "auto.offset.reset cannot be .*; unset it"),
    Wrong("worker history", {PORT: "99999"}, r"LEAP_METRICS_PORT: 99999 is not a port \(0 to 65535\)"),
    Wrong("retrain --every day", {PORT: "TAKEN"}, r"port \d+ cannot be served: Address already in use; LEAP_METRICS"),
    Wrong("up --broker-port TAKEN", {}, r"port \d+ is taken: .* name another with --broker-port"),
    Wrong("up --store-port 99999", {}, HELP, 2),
    Wrong(f"rank {JOB}", {"LEAP_PREMIUM_EFFICIENCY": "x"}, "LEAP_PREMIUM_EFFICIENCY: 'x' is not a number from 0"),
    # Artifacts and partitions.
    *(Wrong(command, {"LEAP_ARTIFACTS": BUCKET, "LEAP_PARTITIONS": BUCKET}, KEYS) for command in (
        "artifact list", f"rank {JOB}", "retrain --offline", "report x.html", "backtest",
        "bootstrap plan --hardware L4",
    )),
    Wrong("artifact list", {"LEAP_ARTIFACTS": "foo://x"}, "foo://x: Protocol not known"),
    Wrong("artifact list", {"LEAP_ARTIFACTS": f"ftp://u:{SECRET}@127.0.0.1:1/x"}, "ftp://127.0.0.1:1/x: "),
    Wrong("artifact list --target nope", {}, "no artifacts of nope under .*; `leap retrain` makes one"),
    Wrong("artifact promote nope", {}, "no artifact 'nope' of target 'throughput' under .*; see `leap artifact list`"),
    Wrong("artifact rollback", {}, "has no version before it; see `leap artifact list`"),
    Wrong("artifact sign nope --key none.pem", {}, "none.pem: No such file or directory; name a readable PEM file"),
    Wrong(f"rank {JOB}", {"LEAP_ARTIFACTS": "nowhere"}, "nothing of throughput .* under nowhere; `leap learn`"),
    Wrong(f"rank {JOB} --version nope", {}, "no artifact 'nope' of target 'throughput'.*; see `leap artifact list`"),
    Wrong("retrain --offline", {"LEAP_PARTITIONS": "/proc/x"}, "/proc/x: No such file or directory; LEAP_PARTITIONS"),
    Wrong("retrain --offline", {}, "training run for .* failed: 0 attempts .* There are no partitions yet. Check"),
    Wrong("retrain --offline --backend foo", {}, "Invalid backend: foo"),
    Wrong("retrain --offline --recipe nope", {}, "no recipe nope; there are structured, boosted"),
    Wrong("retrain --date soon", {}, HELP, 2),
    # Files.
    Wrong("report .", {}, ". is a folder; name a file in it"),
    *(Wrong(command, {}, UNWRITABLE) for command in (
        "report none/x.html", "history backup none/b", "fleet generate none/x", "artifact export v --onnx none/x",
        "replay --from 2026-01-01 --to 2026-01-02 --parquet none/x",
        f"backfill {TABLE} --mapping mlperf --rejects none/x",
    )),
    Wrong(f"rank {TABLE}", {}, "JSON is malformed.*`leap schemas show job-submitted` tells what is expected"),
    Wrong("rank empty.json", {}, "no candidates; list hardware types under `candidates`, as `leap catalog list` names"),
    Wrong(f"backfill none.csv --mapping {MAPPING}", {}, HELP, 2),
    Wrong(f"backfill {TABLE} --mapping none.yaml", {}, "none.yaml: .*; give a file, or one of kubernetes"),
    Wrong("history restore none.gz", {}, HELP, 2),
    Wrong("describe none.onnx", {}, "none.onnx: no such file; name an .onnx file"),
    # What does not exist, or does not go together.
    Wrong("nonsense", {}, HELP, 2),
    Wrong(f"rank {JOB} --json --as list", {}, "--json, --as and --explain are three ways to answer; name one"),
    Wrong(f"rank {JOB} --explain --as list", {}, "name one"),
    Wrong(f"backfill {TABLE} --mapping {MAPPING} --speed quick --dry-run", {}, "expected max, attempts per second"),
    Wrong("topics rights nobody", {}, "no role 'nobody'; there are launcher, scheduler, history"),
    Wrong("schemas show nothing", {}, "no topic 'nothing'; available: artifact-published"),
    Wrong("catalog show nothing", {}, "see `leap catalog list`"),
    Wrong("catalog list", {"LEAP_CATALOG": "none.yaml"}, "none.yaml: cannot be read .*; check the path"),
    Wrong("doctor --role nobody", {}, "none of: launcher, scheduler", 2),
    Wrong("replay --from 2026-01-02 --to 2026-01-01", {}, "--from .* is not before --to"),
    Wrong("dead-letters list --hours -1", {}, HELP, 2),
]  # fmt: skip


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """The ports that stand in the table."""
    replies: dict[str, bytes] = {
        "SILENT": b"", "OTHER": b"HTTP/1.1 400 Bad Request\r\n\r\n", "TAKEN": b"",
        "DENIED": b"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    }  # fmt: skip
    sockets = {name: socket.create_server(("", 0)) for name in replies}
    for name, listening in sockets.items():
        threading.Thread(target=_answer, args=(listening, replies[name]), daemon=True).start()
    yield {name: str(each.getsockname()[1]) for name, each in sockets.items()} | {"AWAY": str(free_port())}
    for listening in sockets.values():
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _answer(listening: socket.socket, reply: bytes) -> None:
    """Say the same to whatever is asked, each connection in a thread of its own, until the socket is closed."""

    def talk(connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):  # the other side has had enough
            while connection.recv(4096):
                connection.sendall(reply)

    with suppress(OSError):
        while True:
            threading.Thread(target=talk, args=listening.accept()[:1], daemon=True).start()


def used(wrong: Wrong, ports: dict[str, str]) -> tuple[int, str, str, float]:
    """Status, output, what is said of errors, and seconds of a wrong usage."""

    def filled(text: str) -> str:
        return re.sub(r"\b(AWAY|SILENT|OTHER|DENIED|TAKEN)\b", lambda found: ports[found[0]], text)

    Path("empty.json").write_text(json.dumps(json.loads(Path(JOB).read_text()) | {"candidates": []}))
    environment = {name: filled(value) for name, value in wrong.environment.items()}
    began = time.monotonic()
    done = invoke(*filled(wrong.command).split(), env=environment)
    Path("empty.json").unlink()
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done.exit_code, done.stdout, done.stderr, time.monotonic() - began


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, str]]:
    """Ports with the servers behind them."""
    with servers() as found:
        yield found


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder to work in, and logging as it was."""
    monkeypatch.chdir(tmp_path)
    kept = logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = kept
    structlog.reset_defaults()


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.command[-40:]} {'+'.join(wrong.environment)}")
def test_a_wrong_usage_ends_soon_in_a_sentence_with_a_remedy(
    wrong: Wrong, ports: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, out, err, seconds = used(wrong, ports)
    written = out + err + "".join(capfd.readouterr())
    assert (status, out) == (wrong.status, ""), err
    assert re.search(wrong.said, err, re.DOTALL), err
    assert seconds < LIMIT_S
    assert "Traceback" not in written and "rdkafka" not in written and SECRET not in written
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".night.lock"]


def main() -> None:
    """Print the table."""
    with servers() as found, tempfile.TemporaryDirectory() as folder, chdir(folder):
        for wrong in WRONG:
            status, _, err, seconds = used(wrong, found)
            said = [line for line in err.splitlines() if not line.startswith(("Usage:", "Try ", "{")) and line.strip()]
            environment = " ".join(f"{name}={value}" for name, value in wrong.environment.items())
            print(f"{status} {seconds:4.1f} s  {environment} leap {wrong.command}\n          {' '.join(said)}")


if __name__ == "__main__":
    main()
