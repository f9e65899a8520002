"""Write a file whole or not at all: nobody sees a part of it, and a full disk leaves nothing behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leap.predictor.storage.fsync import sync


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put `path` into an error of the system that names none, as a full disk does not."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a draft beside `path`, which takes its place when the block has ended without an error.

    Raises
    ------
    OSError
        If it cannot be written; `path` is as before.
    """
    special = path.exists() and not path.is_file()  # a device or a pipe, such as /dev/stdout, cannot be replaced
    draft = path if special else path.with_name(f".{path.name}.draft")
    try:
        with naming(path):
            yield draft
            if not special:
                sync(draft)
                draft.replace(path)
    finally:
        if not special:
            draft.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file by `data`, as :func:`whole_file`."""
    with whole_file(path) as draft:
        draft.write_bytes(data)
