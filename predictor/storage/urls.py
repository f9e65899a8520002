"""URLs of files elsewhere: what is wrong with one is said before it is used, without its password."""

import re
from typing import Any

from leap.schemas.errors import LeapError

#: A bucket has no user part; whoever writes keys there would read them in the client library's errors.
KEYS_IN_URL = re.compile(r"\b(s3a?|gs|gcs)://[^/@]*(:.*)?@")


class StorageUrlError(LeapError, ValueError):
    """A URL that cannot be used; the message names it without what may be a password."""


def redact_url(url: str) -> str:
    """A path or URL, or a text with some, as it may be shown.

    >>> redact_url("s3://key:secret@bucket/leap"), redact_url(".leap/artifacts")
    ('s3://bucket/leap', '.leap/artifacts')
    """
    return re.sub(r"(?<=://)\S*@", "", url)


def open_filesystem(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path there.

    Raises
    ------
    StorageUrlError
        If it is malformed or nobody answers there.
    ImportError
        If a package is missing; the message names it.
    """
    import fsspec  # which whoever has local files need not wait for

    shown = redact_url(url)
    if KEYS_IN_URL.search(url):
        raise StorageUrlError(f"{shown}: a bucket's URL has no keys in it; give them as its client reads them, for S3 "
                         "as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")  # fmt: skip
    try:
        files, root = fsspec.core.url_to_fs(url)
    except ImportError:
        raise
    except Exception as error:  # every file system has errors of its own
        known = not isinstance(error, ValueError)
        advice = "is it there, and lets you in?" if known else "expected a path, or a URL that fsspec reaches"
        raise StorageUrlError(redact_url(f"{shown}: {error}; {advice}")) from error
    return files, root
