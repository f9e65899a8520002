"""`check`: silent on what is committed, and one clear line for each thing that is wrong."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from leap.schemas import events
from leap.schemas.base import Event, Time
from leap.schemas.launch import Name
from leap.schemas.tooling.check import check
from leap.schemas.tooling.json_schema import ROOT, BreakingChange, export, on_disk
from leap.schemas.topics import load_topics

SCHEMA = "schemas/json/job-allocated.v1.json"
DECLARATION = "schemas/topics/job-allocated.yaml"
EXAMPLE = "schemas/examples/job-allocated/v1/full.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of what is committed."""
    for name in ("schemas/topics", "schemas/json", "schemas/examples", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "schemas/asyncapi.yaml", tmp_path / "schemas")
    load_topics.cache_clear()
    return tmp_path


def edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text(encoding="utf-8")
    after = change(before)
    assert after != before
    path.write_text(after, encoding="utf-8")


def test_check_finds_no_problem_in_the_repository(root: Path) -> None:
    assert check(ROOT) == check(root) == []


@pytest.mark.parametrize("name", ["schemas/asyncapi.yaml", "docs/events.md", SCHEMA])
def test_a_stale_or_missing_file_is_named_with_the_command(root: Path, name: str) -> None:
    edit(root / name, lambda text: text.replace("attempt", "Attempt", 1))
    assert f"{name}: is out of date; run `leap schemas export`" in "\n".join(check(root))
    (root / name).unlink()
    assert check(root) == [f"{name}: is missing; run `leap schemas export` and commit the result"]


def test_a_misspelt_keyword_in_a_committed_schema_is_found(root: Path) -> None:
    edit(root / SCHEMA, lambda text: text.replace("maxLength", "maxLenght"))
    problems = "\n".join(check(root))
    assert f"{SCHEMA}: $.attempt_id: keyword 'maxLenght' is not supported" in problems
    assert f"{SCHEMA}: is out of date" in problems


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("schemas/json/job-allocated.v2.json", "belongs to no declaration"),
        ("schemas/json/job-alocated.v1.json", "belongs to no declaration"),
        ("schemas/topics/job-started.yml", "is not read; name it <topic>.yaml"),
        ("schemas/examples/job-allocated/v2/full.json", "belongs to no topic and version"),
        ("schemas/examples/job-alocated/v1/full.json", "belongs to no topic and version"),
        ("schemas/examples/job-allocated/full.json", "belongs to no topic and version"),
        ("schemas/examples/job-allocated/v1/full.jsn", "belongs to no topic and version"),
    ],
)
def test_a_file_that_nothing_reads_is_found(root: Path, name: str, problem: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / SCHEMA, root / name)
    (line,) = check(root)
    assert line.startswith(f"{name}: {problem}")


def test_check_requires_two_examples(root: Path) -> None:
    (root / EXAMPLE).unlink()
    (problem,) = check(root)
    assert problem.startswith("schemas/examples/job-allocated/v1: 1 examples; write at least 2")


def test_check_reports_an_invalid_example(root: Path) -> None:
    edit(root / EXAMPLE, lambda text: text.replace('"hosts": 8', '"hosts": 0'))
    assert check(root) == [f"{EXAMPLE}: Expected `int` >= 1 - at `$.hosts`; correct the example"]


def test_a_wrong_declaration_is_reported_not_raised(root: Path) -> None:
    edit(root / DECLARATION, lambda text: text.replace("partitions:", "partition:"))
    (problem,) = check(root)
    assert DECLARATION in problem and "unknown field `partition`" in problem


def test_a_changed_declaration_makes_the_documents_stale(root: Path) -> None:
    edit(root / DECLARATION, lambda text: text.replace("retention_days: 35", "retention_days: 36"))
    assert {line.split(":")[0] for line in check(root)} == {"schemas/asyncapi.yaml", "docs/events.md"}


def test_check_reports_an_event_without_a_topic(root: Path) -> None:
    (root / DECLARATION).unlink()
    problems = "\n".join(check(root))
    assert "no topic carries JobAllocated" in problems
    assert f"{SCHEMA}: belongs to no declaration" in problems
    assert f"{EXAMPLE}: belongs to no topic and version" in problems


FIELDS: dict[str, tuple[Any, ...]] = {
    "attempt_id": (Name,),
    "hosts": (Annotated[int, Meta(ge=1, le=100)],),
    "kind": (Literal["spot", "reserved"], "spot"),
    "allocated_at": (Time | None, None),
}
NEWER = {"zone": (Name,)}


def publish(monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, tuple[Any, ...]], version: int = 1) -> None:
    """Put another struct in the place of JobAllocated; an empty tuple takes a field away."""
    struct = msgspec.defstruct(
        "JobAllocated",
        [(name, *field) for name, field in {**FIELDS, **changes}.items() if field],
        bases=(Event,),
        namespace={"VERSION": version},
        frozen=True,
        kw_only=True,
        omit_defaults=True,
    )
    monkeypatch.setattr(events, "JobAllocated", struct)
    load_topics.cache_clear()


@pytest.fixture
def published(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in order in which JobAllocated has the fields above."""
    publish(monkeypatch, {})
    export(root, baseline={})
    example = {"attempt_id": "a", "hosts": 1}
    for path in (root / EXAMPLE).parent.iterdir():
        path.write_text(json.dumps(example), encoding="utf-8")
    assert check(root) == []
    return root


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"zone": (Name,)}, "$.zone: is required now"),
        ({"allocated_at": (Time | None,)}, "$.allocated_at: is required now"),
        ({"kind": ()}, "$.kind: is missing"),
        ({"kind": (), "type": (Literal["spot", "reserved"], "spot")}, "$.kind: is missing"),
        ({"hosts": (Annotated[int, Meta(ge=1, le=99)],)}, "$.hosts: maximum is narrower, 99 instead of 100"),
        ({"hosts": (Annotated[int, Meta(ge=2, le=100)],)}, "$.hosts: minimum is narrower, 2 instead of 1"),
        ({"hosts": (Annotated[str, Meta(max_length=3)],)}, "$.hosts: integer is no longer accepted"),
        ({"attempt_id": (Annotated[str, Meta(min_length=1, max_length=99)],)}, "$.attempt_id: maxLength"),
        ({"attempt_id": (Annotated[str, Meta(pattern="^a")],)}, "$.attempt_id: pattern is narrower"),
        ({"kind": (Literal["spot"], "spot")}, "$.kind: ['reserved'] are no longer accepted"),
        ({"kind": (Literal["spot", "reserved"], "reserved")}, "$.kind: messages without it would read 'reserved'"),
        ({"allocated_at": (Time,)}, "$.allocated_at: null is no longer accepted"),
        ({"allocated_at": (int | None, None)}, "$.allocated_at: string is no longer accepted"),
    ],
)
def test_a_breaking_change_is_found_and_not_exported(
    published: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, tuple[Any, ...]], problem: str
) -> None:
    baseline = on_disk(published)
    publish(monkeypatch, changes)
    for problems in (check(published), check(published, baseline)):
        (reported,) = [line for line in problems if problem in line]
        assert reported.startswith(f"{SCHEMA}: ") and "make it a new version" in reported
    with pytest.raises(BreakingChange, match=re.escape(problem)):
        export(published)
    export(published, baseline={})  # whoever writes the file by other means is found by the earlier commit
    assert not [line for line in check(published) if problem in line]
    assert [line for line in check(published, baseline) if problem in line]


@pytest.mark.parametrize(
    "changes",
    [
        {"zone": (Name | None, None)},
        {"attempt_id": (Name | None, None)},
        {"hosts": (Annotated[float, Meta(ge=0, le=101)],)},
        {"hosts": (Annotated[int, Meta(ge=1, le=100)], 1)},
        {"attempt_id": (str,)},
        {"kind": (Literal["spot", "reserved", "own"], "spot")},
        {"kind": (str, "spot")},
    ],
)
def test_compatible_change_only_needs_an_export(
    published: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, tuple[Any, ...]]
) -> None:
    baseline = on_disk(published)
    publish(monkeypatch, changes)
    assert all("run `leap schemas export`" in line for line in check(published))
    export(published)
    assert check(published) == check(published, baseline) == []


@pytest.fixture
def second(published: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with a second version that breaks the first."""
    publish(monkeypatch, NEWER, version=2)
    edit(published / DECLARATION, lambda text: text.replace("version: 1", "version: 2"))
    export(published)
    folder = published / "schemas/examples/job-allocated/v2"
    folder.mkdir()
    for name in ("minimal.json", "full.json"):
        (folder / name).write_text('{"attempt_id": "a", "hosts": 1, "zone": "z"}', encoding="utf-8")
    load_topics.cache_clear()
    return published


def test_a_breaking_change_is_a_new_version(second: Path) -> None:
    assert check(second) == []
    assert {"schemas/json/job-allocated.v1.json", "schemas/json/job-allocated.v2.json"} <= on_disk(second).keys()


def test_struct_and_declaration_have_one_version(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, NEWER, version=2)
    (problem,) = check(published)
    assert "version 1, but JobAllocated is 2; correct the declaration" in problem


def test_a_new_version_needs_its_own_schema_and_examples(second: Path) -> None:
    shutil.rmtree(second / "schemas/examples/job-allocated/v2")
    (second / "schemas/json/job-allocated.v2.json").unlink()
    first, other = check(second)
    assert first.startswith("schemas/json/job-allocated.v2.json: is missing; run `leap schemas export`")
    assert other.startswith("schemas/examples/job-allocated/v2: 0 examples")


def test_earlier_schema_version_must_not_change_or_vanish(second: Path) -> None:
    baseline = on_disk(second)
    edit(second / SCHEMA, lambda text: text.replace("100", "101"))
    assert check(second, baseline) == [f"{SCHEMA}: an earlier version never changes; restore it"]
    (second / SCHEMA).unlink()
    gone, published = check(second, baseline)
    assert gone.startswith(f"{SCHEMA}: is missing; versions run from 1 to the declared one")
    assert published.startswith(f"{SCHEMA}: was published and is deleted")


def test_a_topic_that_was_published_does_not_vanish(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = on_disk(root)
    monkeypatch.delattr(events, "JobAllocated")
    for name in (DECLARATION, SCHEMA):
        (root / name).unlink()
    shutil.rmtree((root / EXAMPLE).parent.parent)
    load_topics.cache_clear()
    export(root)
    assert check(root) == []
    assert check(root, baseline) == [
        f"{SCHEMA}: was published and is deleted; its messages may still be read: restore it"
    ]
