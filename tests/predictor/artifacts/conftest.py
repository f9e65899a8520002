"""The artifact that stores are filled with."""

from pathlib import Path

import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.schemas.events import THROUGHPUT


@pytest.fixture
def trained(artifact_store: LocalStore) -> Path:
    """Folder of a small artifact."""
    [version] = artifact_store.versions(THROUGHPUT)
    return artifact_store.folder(THROUGHPUT, version)
