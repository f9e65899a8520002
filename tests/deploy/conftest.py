"""One running deployment for all tests that need one."""

from collections.abc import Iterator

import pytest

from leap.streams.embedded import Pair
from tests.deploy.stack import Stack, running


@pytest.fixture(scope="session")
def stack(backend: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Broker, store and Prometheus as in docker-compose.yml, and its services at hand."""
    with running(tmp_path_factory.mktemp("stack")) as found:
        yield found
