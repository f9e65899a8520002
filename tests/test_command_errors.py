"""What commands say of what is wrong outside of Leap: a sentence, without a password, and a status that is not 0."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leap import cli
from leap.predictor.cli.errors import error_boundary, in_words
from leap.streams.runtime import logs

ROOT = Path(__file__).parents[1]
JOB = str(ROOT / "examples" / "job.json")
NO_CREDENTIALS = {
    "PATH": "/usr/bin:/bin",
    "PYTHONPATH": ":".join(sys.path),
    "LEAP_ARTIFACTS": "s3://bucket/x",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_CONFIG_FILE": "/dev/null",
}


def run(monkeypatch: pytest.MonkeyPatch, arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["leap", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder to work in, and logging as it was."""
    monkeypatch.chdir(tmp_path)
    kept = logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = kept


@pytest.mark.parametrize("arguments", ["artifact list", f"rank {JOB}"])
def test_a_bucket_without_keys_is_a_sentence(arguments: str) -> None:
    """In a process of its own: a client of S3 that has keys is kept in this one."""
    command = [sys.executable, "-m", "leap", *arguments.split()]
    asked = subprocess.run(command, env=NO_CREDENTIALS, capture_output=True, text=True, timeout=60, check=False)
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "Unable to locate credentials; LEAP_" in asked.stderr
    assert "Traceback" not in asked.stderr


def test_a_mistake_of_our_own_stays_a_traceback() -> None:
    with pytest.raises(ValueError, match="ours"), error_boundary():
        raise ValueError("ours")


def test_an_error_without_words_has_its_name() -> None:
    assert in_words(OSError()) == "OSError"


def test_an_interrupt_while_modules_are_loading_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "import_module", interrupted)
    assert run(monkeypatch, "artifact list") == 130


def test_the_help_names_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "report --help") == 0
    assert "with the extra png" in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_lines_of_the_standard_library_are_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers[:] = []
    logs.configure()
    logging.getLogger("leap.predictor.routing.router").info("artifact in use: %s", "v1")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"], line["logger"]) == (
        "artifact in use: v1",
        "info",
        "leap.predictor.routing.router",
    )
