"""What terminals without colours or Unicode get, and what a full disk leaves."""

import io
import resource
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leap import cli
from leap.predictor.cli.terminal import tolerate
from leap.predictor.storage.whole_file import write_whole
from tests.commands import invoke


@pytest.mark.parametrize(("wish", "coloured"), [("", True), ("1", False)])
def test_no_color_is_heeded(wish: str, coloured: bool, tmp_path: Path) -> None:
    environment = {"NO_COLOR": wish, "LEAP_ARTIFACTS": str(tmp_path)}
    said = CliRunner().invoke(cli.app, ["artifact", "rollback"], env=environment, color=True).output
    assert ("\x1b[" in said) is coloured


def test_a_stream_in_ascii_takes_every_character() -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii")
    tolerate(stream)
    stream.write("a – b · c… ×2 → \N{SNOWMAN} \udcff")
    stream.flush()
    assert written.getvalue() == rb"a - b | c... x2 -> \u2603 \udcff"


def test_a_full_disk_leaves_nothing_and_is_told_with_the_path(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    file = tmp_path / "events.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        done = invoke("fleet", "generate", str(file), "--days", "1", "--attempts-per-day", "100")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (done.exit_code, f"{file}: File too large; raise the limit" in done.stderr) == (1, True), done.stderr
    assert list(tmp_path.iterdir()) == []
    full = invoke("fleet", "generate", "/dev/full", "--days", "1", "--attempts-per-day", "100")
    assert "/dev/full: No space left on device; free some space there" in full.stderr


def test_what_was_there_stays_if_its_successor_fails(tmp_path: Path) -> None:
    file = tmp_path / "a"
    write_whole(file, b"before")
    file.with_name(".a.draft").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        write_whole(file, b"after")
    assert file.read_bytes() == b"before"
