"""Families that an event states, and patterns of one's own."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from leap.predictor.features.batch import JobBatch
from leap.predictor.features.family_patterns import MAX_PATTERNS, FamilyPatterns, PatternError, load_family_patterns
from leap.predictor.features.job_family import family_of, family_repeats
from leap.schemas.events import JobCompleted, JobSubmitted
from leap.schemas.hardware import Catalog
from leap.schemas.launch import LaunchConfig
from leap.streams.history.worker import keys
from leap.streams.kafka.partition_key import address

NOW = datetime(2026, 11, 28, tzinfo=UTC)


def submitted(family: str | None = None) -> JobSubmitted:
    return JobSubmitted(
        attempt_id="a",
        job_name="train-bert-kqzwx",
        model_type="bert",
        submitted_at=NOW,
        config=LaunchConfig(num_trainers=1, accelerators_per_trainer=8),
        family=family,
    )


def completed(family: str | None = None) -> JobCompleted:
    return JobCompleted(
        attempt_id="a",
        job_name="train-bert-kqzwx",
        hardware_type="H100-SXM-80GB",
        started_at=NOW,
        finished_at=NOW,
        status="succeeded",
        family=family,
    )


@pytest.mark.parametrize(("stated", "expected"), [(None, "train-bert-kqzwx"), ("bert-20260114", "bert-20260114")])
def test_a_stated_family_is_taken_as_it_is(stated: str | None, expected: str) -> None:
    assert family_of(submitted(stated)) == family_of(completed(stated)) == expected
    assert JobBatch.from_events([submitted(stated)]).family.tolist() == [expected]
    assert address(completed(stated)) == ("job-completed", expected.encode())
    assert {key.name for key in keys(completed(stated), Catalog(()))} == {expected}


def test_patterns_come_before_the_rules_and_after_what_is_stated() -> None:
    patterns = FamilyPatterns([r"-[a-z0-9]{5}$", r"^team-\w+/"])
    assert patterns.family("team-a/train-bert-20260114-kqzwx") == "train-bert"
    assert patterns.family("team-a/") == "team-a"
    assert patterns.state(submitted()).family == patterns.state(completed()).family == "train-bert"
    assert patterns.state(submitted("mine")).family == "mine"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a+)+$", "repeats a group"),
        ("(a|b)*c", "repeats a group"),
        ("(?:-[a-z]{1,9}){2,}", "repeats a group"),
        ("a*b*c", "take too long"),
        ("[a-z]{1,99}[a-z]{1,99}[a-z]{1,99}", "take too long"),
        ("(?P<x>[a-z]+).*", "take too long"),
        ("(", "missing"),
        ("a" * 201, "longer than 200"),
    ],
)
def test_a_pattern_that_could_take_long_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        FamilyPatterns([pattern])


@pytest.mark.parametrize("pattern", ["-[a-z0-9]{5}$", r"(?:-v\d+)?$", r"[(*+]\+{1,3}$", "(?<=x)-.+$", "(?P<a>b)|c"])
def test_an_ordinary_pattern_is_taken(pattern: str) -> None:
    FamilyPatterns([pattern])


def test_a_file_of_patterns(tmp_path: Path) -> None:
    file = tmp_path / "families.yaml"
    file.write_text('- "-[a-z0-9]{5}$"\n', encoding="utf-8")
    assert load_family_patterns(file).family("train-kqzwx") == "train"
    for text in ("pattern: a", "[1]", '["("]', str(["a"] * (MAX_PATTERNS + 1))):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(PatternError, match=r"families\.yaml"):
            load_family_patterns(file)


def test_whether_families_repeat() -> None:
    assert family_repeats(["bert-20260114", "bert-20260115", "bert-20260115", "dlrm"]) == (3, 2)
    assert family_repeats([]) == (0, 0)
