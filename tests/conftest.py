"""The backends and the data that tests run on.

``LEAP_TEST_BACKEND=embedded`` (the default) runs the suite on the embedded broker and store, ``real`` on
Apache Kafka and Redis, which are started here and whose absence is a failure.
"""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.schemas.topics import load_topics
from leap.streams.embedded import Pair, embedded_pair
from leap.streams.kafka.topic_admin import ensure_topics
from leap.streams.runtime.settings import Settings
from tests.artifacts import night_over, past
from tests.s3 import BUCKET, s3_server
from tests.services import ROOT, real_pair

# How long an example takes is the machine's affair: timings are benchmarks, never assertions.
hypothesis.settings.register_profile("leap", deadline=None)
hypothesis.settings.load_profile("leap")

BACKEND = os.environ.get("LEAP_TEST_BACKEND", "embedded")
SHARED_DATA = Path(os.environ.get("LEAP_SHARED_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Run a broker and a store for the whole session."""
    start = {"embedded": embedded_pair, "real": real_pair}[BACKEND]
    with start(tmp_path_factory.mktemp("backend")) as pair:
        yield pair


@pytest.fixture(scope="session")
def kafka(backend: Pair) -> str:
    """Bootstrap servers of the running broker."""
    return backend.bootstrap_servers


@pytest.fixture(scope="session")
def store(backend: Pair) -> str:
    """URL of the running store."""
    return backend.redis_url


@pytest.fixture
def settings(backend: Pair) -> Settings:
    """Settings with topics, groups and keys that no other test uses; sessions last 1 s."""
    fresh = uuid.uuid4().hex[:8]
    return Settings.from_environment(
        backend.environment() | {"LEAP_TOPIC_PREFIX": f"{fresh}-", "LEAP_REDIS_PREFIX": fresh}
    )


@pytest.fixture
def topics(settings: Settings) -> Settings:
    """The same settings, once every declared topic exists."""
    ensure_topics(settings, load_topics().values())
    return settings


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a bucket on an S3 server that runs for the whole session."""
    with s3_server(tmp_path_factory.mktemp("s3")) as environment, pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        yield f"s3://{BUCKET}"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of public data, beside the checkout or where LEAP_SHARED_DATA says.

    It is not part of the repository, so what needs it is skipped without it; a folder that is named but not
    there is a mistake.
    """
    if not SHARED_DATA.is_dir():
        if "LEAP_SHARED_DATA" in os.environ:
            pytest.fail(f"LEAP_SHARED_DATA={SHARED_DATA} is not a folder")
        pytest.skip(f"no public data in {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def artifact_store(tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
    """A store with one small artifact in production; read only."""
    store, _ = night_over(tmp_path_factory.mktemp("trained"), past())
    return store


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real(reason): runs on Apache Kafka and Redis only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the embedded pair cannot do, and what would not touch the real services."""

    def belongs(item: pytest.Item) -> bool:
        if "check_array_api_input" in item.name:  # of scikit-learn, which skips it: our estimators take numpy alone
            return False
        if BACKEND == "real":
            return "backend" in getattr(item, "fixturenames", ())
        return item.get_closest_marker("real") is None

    config.hook.pytest_deselected(items=[item for item in items if not belongs(item)])
    items[:] = [item for item in items if belongs(item)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped test is a failure, unless the public data are not there."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("LEAP_CI") == "1" and SHARED_DATA.is_dir() and reporter and "skipped" in reporter.stats:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
