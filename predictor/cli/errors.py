"""What a command says when something is wrong: one sentence on standard error without a password, and status 1."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from leap.predictor.storage.urls import redact_url

BROKER = "{}; LEAP_KAFKA_BOOTSTRAP_SERVERS says where the broker is, and LEAP_KAFKA_<PROPERTY> how it is asked"
STORE = "the store does not answer as it should: {}; LEAP_REDIS_URL says where it is"
BUCKET = "{}; LEAP_ARTIFACTS and LEAP_PARTITIONS say where files are; the client of S3 reads keys from AWS_*"
#: Name of a class of errors whose cause is outside of Leap, to how it is told. By name: its package may be missing.
SENTENCES = {
    "TopicError": BROKER,
    "DeliveryError": BROKER,
    "KafkaException": BROKER,
    "RedisError": STORE,
    "RedisClusterException": STORE,  # of a Cluster that is away: no RedisError
    "BotoCoreError": BUCKET,
    "ArtifactError": "{}",
    "CatalogError": "{}",
    "KeyFileError": "{}",
    "PlaceError": "{}",
    "PointerMoved": "{}",
    "SettingsError": "{}",
    "OSError": "{}",
}


def fail(message: str) -> typer.Exit:
    """Say what is wrong on standard error; raise what is returned."""
    typer.secho(redact_url(message), fg="red", err=True)
    return typer.Exit(1)


@contextmanager
def error_boundary() -> Iterator[None]:
    """Make a sentence of an error whose cause is outside of Leap; one of its own stays a traceback."""
    try:
        yield
    except BrokenPipeError:  # whoever reads has enough
        raise
    except Exception as error:
        found = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in SENTENCES), None)
        if found is None:
            raise
        raise fail(SENTENCES[found].format(in_words(error))) from error


def in_words(error: Exception) -> str:
    """What an error says, without numbers of errors.

    >>> in_words(FileNotFoundError(2, "No such file or directory", "/a"))
    '/a: No such file or directory'
    """
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    for held in error.args[:1]:
        if hasattr(held, "str"):  # Kafka's errors hold one that is no exception
            return str(held.str())
    return str(error) or type(error).__name__


def writable(path: Path | None) -> Path | None:
    """Refuse, before the work, a file that could not be written after it: a callback of an option."""
    if path is not None:
        folder = path.parent
        if path.is_dir():
            raise fail(f"{path} is a folder; name a file in it")
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise fail(f"{path} cannot be written: {folder} is no folder in which you may; make it, or name another")
    return path
