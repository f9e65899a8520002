"""One wheel for all tests here."""

import tarfile
from pathlib import Path

import pytest

from tests.package.wheel import SOURCES, build, copy_sources


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built of the source distribution, which is built of the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    copy_sources(SOURCES, source)
    with tarfile.open(build("sdist", source, folder)) as archive:
        archive.extractall(folder, filter="data")
    [unpacked] = (path for path in folder.iterdir() if path.is_dir() and path != source)
    return build("wheel", unpacked, folder)
