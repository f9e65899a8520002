"""No password in what a process says: logs, errors, representations, metrics, pages and documents."""

import logging
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import fsspec
import pytest
import structlog

from leap.streams.doctor.artifact_checks import reachable
from leap.streams.doctor.check import CheckContext
from leap.streams.doctor.redis_checks import answers
from leap.streams.history.worker import history_loop
from leap.streams.joining.worker import joiner_loop
from leap.streams.kafka import topic_admin as topics
from leap.streams.kafka.clients import CheckedProducer
from leap.streams.launcher.launcher import Launcher
from leap.streams.launcher.preference_follower import PreferenceFollower
from leap.streams.redis_store.client import connect
from leap.streams.runtime import logs
from leap.streams.runtime.health_server import health_server
from leap.streams.runtime.liveness import Progress
from leap.streams.runtime.settings import Settings
from tests.builders import submission
from tests.commands import invoke
from tests.security.conftest import House

ROOT = Path(__file__).parents[2]
SECRET = "hush-hush-7e1"
#: Every place that a secret is configured in; what follows an unescaped / or # is cut off an URL.
SECRETS = {
    "LEAP_KAFKA_SASL_MECHANISM": "PLAIN",
    "LEAP_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "LEAP_KAFKA_SASL_USERNAME": "user",
    "LEAP_KAFKA_SASL_PASSWORD": SECRET,
    "LEAP_KAFKA_SSL_KEY_PASSWORD": SECRET,
    "LEAP_ARTIFACTS": f"ftp://user:{SECRET}@127.0.0.1:1/artifacts",
    "LEAP_PARTITIONS": f"ftp://user:{SECRET}@127.0.0.1:1/partitions",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": SECRET,
}
Said = Callable[[], str]


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Iterator[Said]:
    """All that this process has written, with its logs set up as a worker's are."""
    root = logging.getLogger()
    kept = root.handlers[:]
    root.handlers.clear()
    logs.configure(logging.DEBUG)

    def read() -> str:
        out, err = capfd.readouterr()
        return out + err

    yield read
    structlog.reset_defaults()
    root.handlers[:] = kept


def errors_of(*actions: Callable[[], object]) -> str:
    """What the errors of actions say, with their causes; an action that succeeds is a mistake."""
    found = []
    for action in actions:
        try:
            action()
        except Exception as error:
            structlog.get_logger().exception("failed")
            logging.getLogger("test").exception("failed")
            found.append(repr(error))
            while error.__cause__ or (error.__context__ and not error.__suppress_context__):
                cause = error.__cause__ or error.__context__
                assert isinstance(cause, Exception)
                found.append(repr(error := cause))
            continue
        pytest.fail(f"{action} did not fail")
    return "\n".join(found)


def clients(settings: Settings) -> list[Callable[[], object]]:
    """Everything that connects."""

    def produce() -> None:
        producer = CheckedProducer(settings)
        producer.produce("t", b"x")
        producer.flush(1.0)

    return [
        lambda: topics.assert_topics(settings, ()),
        lambda: topics.topic_ids(settings, ["t"]),
        produce,
        lambda: connect(settings.redis_url),
        lambda: history_loop(settings).run(),
        lambda: joiner_loop(settings).run(),
    ]


def launch(settings: Settings) -> None:
    """A launcher never raises; it logs."""
    with Launcher(settings) as launcher:
        launcher.submitted(submission())
        assert launcher.close(1.0) == 1
    PreferenceFollower(settings).close()


STORES = ["redis://user:{}@127.0.0.1:1/0", "redis://user:{}/x@127.0.0.1:1/0", "{}", "redis://:{}@[/0"]


@pytest.mark.parametrize("store", STORES)
def test_nothing_that_is_not_there_tells_a_secret(said: Said, store: str) -> None:
    given = SECRETS | {"LEAP_REDIS_URL": store.format(SECRET), "LEAP_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    settings = Settings.from_environment(given)
    whole = store == STORES[0]
    found = errors_of(*(clients(settings) if whole else [lambda: connect(settings.redis_url)]))
    if whole:
        launch(settings)
    assert ("Connection refused" if whole else "LEAP_REDIS_URL is invalid") in found
    keeps(said() + found + repr(settings))


def keeps(text: str) -> None:
    """Neither the secret nor its beginning, and something at all."""
    assert len(text) > 100
    assert SECRET not in text and SECRET[:8] not in text, text


COMMANDS = [
    ["topics", "check"], ["worker", "history"], ["worker", "monitor"], ["switch", "show"], ["history", "show", "x"],
    ["artifact", "list"], ["retrain", "--offline"], ["explain", "a"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_tells_a_secret(said: Said, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    nowhere = {"LEAP_REDIS_URL": STORES[0].format(SECRET), "LEAP_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    found = run(monkeypatch, command, SECRETS | nowhere)
    keeps(said() + found + " " * 100)


def run(monkeypatch: pytest.MonkeyPatch, command: list[str], given: Mapping[str, str]) -> str:
    """What a command that fails says, and its traceback."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    done = invoke(*command)
    assert done.exit_code
    return done.output + "".join(traceback.format_exception(done.exception))


@pytest.fixture
def fresh_s3() -> Iterator[None]:
    """Clients of S3 are kept by a process, with the server that they found first."""
    kept = fsspec.get_filesystem_class("s3")
    kept.clear_instance_cache()
    yield
    kept.clear_instance_cache()


@pytest.mark.usefixtures("fresh_s3")
@pytest.mark.parametrize("command", [["artifact", "list"], ["retrain", "--offline"]], ids=" ".join)
def test_an_object_store_that_is_not_there_tells_no_secret(
    said: Said, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    stores = {"LEAP_ARTIFACTS": "s3://leap/artifacts", "LEAP_PARTITIONS": "s3://leap/partitions"}
    nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1"}
    found = run(monkeypatch, command, SECRETS | stores | nowhere)
    assert "127.0.0.1:1" in found, "it was asked"
    keeps(said() + found)


@pytest.mark.parametrize("store", STORES)
def test_the_doctor_tells_no_secret(said: Said, store: str) -> None:
    context = CheckContext(Settings.from_environment(SECRETS | {"LEAP_REDIS_URL": store.format(SECRET)}))
    found = errors_of(lambda: answers(context), lambda: reachable(context))
    assert "ftp://127.0.0.1:1/artifacts" in found
    keeps(said() + found)


def test_no_secret_in_metrics_and_documents() -> None:
    settings = Settings.from_environment(SECRETS | {"LEAP_REDIS_URL": STORES[0].format(SECRET)})
    errors_of(*clients(settings)[3:4])
    with health_server(0, Progress()) as port:
        for page in ("metrics", "livez", "readyz", "elsewhere"):
            try:
                with urlopen(f"http://127.0.0.1:{port}/{page}") as answer:
                    text = answer.read().decode()
            except HTTPError as error:
                text = error.read().decode()
            assert text and SECRET not in text
    for words in ("password", "://", "127.0.0.1"):
        assert words not in (ROOT / "schemas" / "asyncapi.yaml").read_text().replace("application/", "")


@pytest.mark.real("the embedded pair refuses nobody")
def test_nobody_who_refuses_us_tells_a_secret(house: House, said: Said) -> None:
    wrong = house.environment("history", password=SECRET)
    stranger = house.environment("history", ca=house.authority.other_ca)
    for environment, why in ((wrong, "(?i)authentication"), (stranger, "(?i)certificate")):
        settings = Settings.from_environment(environment)
        found = errors_of(*(clients(settings)[:4]))
        assert re.search(why, found), found
        launch(settings)
        keeps((said() + found + repr(settings)).replace(house.password("history"), SECRET))
