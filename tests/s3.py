"""An S3 server process, for what is kept in a remote store."""

import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leap.streams.embedded import child, free_port

BUCKET = "leap"


@contextmanager
def s3_server(directory: Path) -> Iterator[dict[str, str]]:
    """Run an S3 server until the block ends.

    Yields
    ------
    dict of str to str
        Variables that send every S3 client of a process to it. `BUCKET` is there.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with child(command, directory / "s3.log", lambda: _ready(url), deadline_s=60):
        with urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT")):
            pass
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/moto-api/", timeout=1):
            return True
    except (urllib.error.URLError, OSError):
        return False
