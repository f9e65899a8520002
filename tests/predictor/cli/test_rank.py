"""``leap rank``: one job's list for a reader, for a program, and for other schedulers."""

from pathlib import Path

import pytest
import yaml
from rich.console import Console
from typer import Typer
from typer.testing import CliRunner

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.cli import ranking
from leap.predictor.cli.rank import rank
from leap.schemas.codec import decode, encode
from leap.schemas.events import PreferenceList
from tests.builders import submission

app = Typer()
app.command()(rank)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.json"
    path.write_bytes(encode(submission("a-1", job_name="team/job-3x", model_type="model-3")))
    return path


def run(store: LocalStore, job: Path, *arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(job), "--artifacts", str(store.root), *arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_as_json(artifact_store: LocalStore, job: Path) -> None:
    for arguments in (["--json"], ["--as", "json"]):
        answer = decode(run(artifact_store, job, *arguments).encode(), PreferenceList)
        assert answer.ranked


def test_in_the_words_of_other_schedulers(artifact_store: LocalStore, job: Path) -> None:
    names = run(artifact_store, job, "--as", "list").split()
    affinity = yaml.safe_load(run(artifact_store, job, "--as", "kubernetes"))
    assert len(affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]) == len(names)
    resources = yaml.safe_load(run(artifact_store, job, "--as", "skypilot"))["resources"]
    assert [one["accelerators"] for one in resources["ordered"]] == [f"{name}:8" for name in names]
    fallbacks = yaml.safe_load(run(artifact_store, job, "--as", "ray"))["fallback_strategy"]
    assert len(fallbacks) == len(names) - 1


HOSTILE = ("[/x]", "\x1b[31mred\x1b[8m", "a" * 70, "basic")


@pytest.mark.parametrize("width", [120, 60])
def test_a_table_shows_names_as_they_are_and_fits(
    artifact_store: LocalStore, job: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(ranking, "console", Console(width=width, markup=False, emoji=False))
    job.write_bytes(encode(submission("a[b]", candidates=HOSTILE)))
    shown = run(artifact_store, job)
    assert all(name in shown for name in ("[/x]", r"\x1b[31mred\x1b[8m", "a[b]", "basic"))
    assert shown.count("a" * 10) and "\x1b" not in shown + run(artifact_store, job, "--explain")
    assert max(map(len, shown.splitlines())) <= width


def test_by_the_names_of_that_scheduler(artifact_store: LocalStore, job: Path) -> None:
    names = job.with_name("names.yaml")
    names.write_text("basic: V100\nfast: A100\nnewest: H100\n")
    listed = run(artifact_store, job, "--as", "list", "--names", str(names)).split()
    assert listed and set(listed) <= {"V100", "A100", "H100"}
    names.write_text("- basic\n")
    assert "expected lines such as" in run(artifact_store, job, "--as", "list", "--names", str(names), code=1)
    names.write_text("basic: my gpu\nfast: my gpu\nnewest: my gpu\n")
    assert "cannot be the value of a label" in run(
        artifact_store, job, "--as", "kubernetes", "--names", str(names), code=1
    )


def test_explained(artifact_store: LocalStore, job: Path) -> None:
    told = run(artifact_store, job, "--explain")
    first = run(artifact_store, job, "--as", "list").split()[0]
    assert f"1. {first}\n" in told
    assert "2 trainers x 8 accelerators x" in told


@pytest.mark.parametrize(("share", "dear"), [("0", 0), ("100", 1)])
def test_premium_types_are_kept_as_a_worker_keeps_them(
    artifact_store: LocalStore, job: Path, monkeypatch: pytest.MonkeyPatch, share: str, dear: int
) -> None:
    monkeypatch.setenv("LEAP_PREMIUM_EFFICIENCY", share)
    answer = decode(run(artifact_store, job, "--json").encode(), PreferenceList)
    assert sum("premium" in one.reason for one in answer.excluded) == dear
    assert (f"reaches {share} x" in run(artifact_store, job, "--explain")) is not bool(dear)


def test_a_file_that_is_no_submission(artifact_store: LocalStore, job: Path) -> None:
    job.write_text("{}")
    assert "leap schemas show job-submitted" in run(artifact_store, job, code=1)
