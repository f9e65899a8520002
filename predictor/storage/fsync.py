"""What must outlive a crash of the machine: on disk, not in its cache, before it gets its final name."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Wait until a flat folder and all its files are on disk."""
    for path in folder.iterdir():
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Wait until one file, or the names in a directory, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
