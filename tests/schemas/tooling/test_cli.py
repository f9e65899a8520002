"""`leap schemas`, as a user types it."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from leap.schemas.tooling import cli
from leap.schemas.tooling.cli import app, committed
from leap.schemas.tooling.json_schema import BreakingChange, on_disk
from leap.schemas.topics import load_topics
from tests.schemas.examples import example

PROBLEM = "schemas/json/x.v1.json: is missing; run `leap schemas export` and commit the result"


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=text)


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one schema, committed as 1 and lying there as 2."""
    path = tmp_path / "schemas/json/a.v1.json"
    path.parent.mkdir(parents=True)
    path.write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "schemas")
    git(tmp_path, "commit", "-q", "-m", "one")
    path.write_text("2")
    return tmp_path


def test_check_command_passes_on_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "committed", lambda root, revision: on_disk())
    result = run("check")
    assert (result.exit_code, result.stderr) == (0, "")
    count = len(load_topics())
    expected = (
        f"{count} topics: schemas, documents and examples are up to date; compatible with {count} schemas at HEAD\n"
    )
    assert result.stdout == expected


def test_check_prints_every_problem_with_its_remedy_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "check", lambda baseline: [PROBLEM, PROBLEM])
    monkeypatch.setattr(cli, "committed", lambda root, revision: None)
    result = run("check")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"{PROBLEM}\n{PROBLEM}\n2 problems\n")


def test_check_says_when_there_is_no_earlier_commit_to_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "committed", lambda root, revision: None)
    assert "no git repository to compare with" in run("check").stdout


def test_the_baseline_is_what_a_revision_holds(repository: Path) -> None:
    assert on_disk(repository) == {"schemas/json/a.v1.json": "2"}
    assert committed(repository, "HEAD") == {"schemas/json/a.v1.json": "1"}
    git(repository, "commit", "-q", "-a", "-m", "two")
    assert committed(repository, "HEAD") == {"schemas/json/a.v1.json": "2"}
    assert committed(repository, "HEAD~1") == {"schemas/json/a.v1.json": "1"}


@pytest.mark.parametrize("command", ["check", "export"])
def test_unreadable_revision_is_an_error(repository: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "ROOT", repository)
    result = run(command, "--against", "release-9")
    assert result.exit_code == 1
    assert "release-9; name a revision with --against" in result.stderr
    monkeypatch.setenv("PATH", "")
    result = run(command)
    assert (result.exit_code, "git is not installed" in result.stderr) == (1, True)


def test_a_tree_without_git_has_no_baseline(tmp_path: Path) -> None:
    assert committed(tmp_path, "HEAD") is None


def test_export_refuses_a_breaking_change_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def export(baseline: object) -> list[str]:
        raise BreakingChange("schemas/json/a.v1.json: $.b: is missing")

    monkeypatch.setattr(cli, "export", export)
    result = run("export")
    assert result.exit_code == 1
    assert result.stderr.startswith("schemas/json/a.v1.json: $.b: is missing\nundo it, or make it a new version")


def test_show_prints_declaration_and_schema() -> None:
    result = run("show", "job-allocated")
    declaration, schema = result.stdout.split("\n\n", 1)
    assert "partitions: 12" in declaration
    assert json.loads(schema)["title"] == "JobAllocated"


@pytest.mark.parametrize("command", [("show",), ("validate",)])
def test_unknown_topic_lists_the_known_ones(command: tuple[str], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    result = run(*command, "job-alocated", *([str(tmp_path / "a.jsonl")] if command == ("validate",) else []))
    assert result.exit_code == 1
    assert "no topic 'job-alocated'; available: artifact-published, dead-letter, job-allocated" in result.stderr


def test_validate_lists_every_invalid_line(tmp_path: Path) -> None:
    good = json.dumps(example("job-allocated"))
    bad = json.dumps(example("job-allocated") | {"hosts": 0})
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join([good, "", bad, good, "{", ""]))
    result = run("validate", "job-allocated", str(path))
    assert (result.exit_code, result.stdout) == (1, "2 valid, 2 invalid\n")
    first, second = result.stderr.splitlines()
    assert first == f"{path}:3: Expected `int` >= 1 - at `$.hosts`"
    assert second.startswith(f"{path}:5: ")


def test_validate_reads_a_json_file_and_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(example("job-allocated"), indent=2))
    assert run("validate", "job-allocated", str(path)).stdout == "1 valid, 0 invalid\n"
    line = json.dumps(example("job-allocated")) + "\r\n"
    assert run("validate", "job-allocated", "-", text=line * 3).stdout == "3 valid, 0 invalid\n"
