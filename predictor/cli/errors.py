"""What a command says when something is wrong: one sentence on standard error without a password, and status 1."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from leap.predictor.cli.terminal import printable
from leap.predictor.storage.urls import redact_url
from leap.schemas.errors import BrokerError, LeapError

BROKER = "{}; LEAP_KAFKA_BOOTSTRAP_SERVERS says where the broker is, and LEAP_KAFKA_<PROPERTY> how it is asked"
STORE = "the store does not answer as it should: {}; LEAP_REDIS_URL says where it is"
BUCKET = "{}; LEAP_ARTIFACTS and LEAP_PARTITIONS say where files are; the client of S3 reads keys from AWS_*"
#: Clients' own errors: module, class, and how each is told. Who has not imported the module cannot have met the class.
CLIENTS = (
    ("confluent_kafka", "KafkaException", BROKER),
    ("redis.exceptions", "RedisError", STORE),
    ("redis.exceptions", "RedisClusterException", STORE),  # of a cluster that is away: no RedisError
    ("botocore.exceptions", "BotoCoreError", BUCKET),
)
#: What to do about a file, by the number of the system's error.
FILES = {
    errno.ENOENT: "check the path",
    errno.ENOSPC: "free some space there, or name another place",
    errno.EDQUOT: "free some space there, or name another place",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f), or name another place",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "let this user write there, or name another place"),
}


def fail(message: str) -> typer.Exit:
    """Say what is wrong on standard error; raise what is returned."""
    typer.secho(printable(redact_url(message)), fg="red", err=True)
    return typer.Exit(1)


@contextmanager
def error_boundary() -> Iterator[None]:
    """Make a sentence of an error whose cause is outside of Leap; one of its own stays a traceback."""
    try:
        yield
    except BrokenPipeError:  # whoever reads has enough
        raise
    except Exception as error:
        told = sentence(error)
        if told is None:
            raise
        raise fail(told) from error


def sentence(error: Exception) -> str | None:
    """What is wrong, and what to do about it; None of an error that is a mistake in Leap."""
    words = in_words(error)
    for module, name, template in CLIENTS:
        if module in sys.modules and isinstance(error, getattr(sys.modules[module], name)):
            return template.format(words)
    if isinstance(error, BrokerError):
        return BROKER.format(words)
    if isinstance(error, OSError) and error.errno in FILES:
        return f"{words}; {FILES[error.errno]}"
    return words if isinstance(error, LeapError | OSError) else None


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
    return str(error).rstrip(".") or type(error).__name__


def writable(path: Path | None) -> Path | None:
    """Refuse, before the work, a file that could not be written after it: a callback of an option."""
    if path is not None:
        folder = path.parent
        if path.is_dir():
            raise fail(f"{path} is a folder; name a file in it")
        if path.exists() and not path.is_file():
            return path  # a device or a pipe, such as /dev/stdout
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise fail(f"{path} cannot be written: {folder} is not a writable directory; make it, or name another")
    return path
