"""Partitions: merging again changes nothing, and late rows land on their day."""

from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leap.retrainer.dataset.partitions import FILE, Partitions, day_number, day_of
from leap.schemas.hardware import load_catalog
from tests.builders import MIDNIGHT, attempt, submission


def test_a_day_is_when_an_attempt_finished(tmp_path: Path) -> None:
    partitions = Partitions(tmp_path)
    late = submission("late", at=MIDNIGHT - timedelta(hours=1))
    days = partitions.ingest([attempt(late, "fast", 1.0, hours=2.0), attempt(late, "fast", 1.0, hours=0.5)][:1])
    assert days == [date(2026, 3, 1)] == partitions.days()


def test_merging_twice_changes_nothing(tmp_path: Path) -> None:
    partitions = Partitions(tmp_path)
    made = [attempt(submission(f"a-{n}", at=MIDNIGHT + timedelta(hours=n)), "fast", 1.0 + n) for n in range(60)]
    partitions.ingest(made)
    before = {path: path.read_bytes() for path in tmp_path.rglob(FILE)}
    partitions.ingest(made)
    partitions.ingest(made[10:40])
    assert {path: path.read_bytes() for path in tmp_path.rglob(FILE)} == before
    assert len(before) == 3


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(12)), st.lists(st.integers(1, 11), max_size=3))
def test_any_order_and_any_batches_give_the_same_rows(tmp_path: Path, turn: list[int], cuts: list[int]) -> None:
    made = [attempt(submission(f"a-{n}", at=MIDNIGHT + timedelta(hours=5 * n)), "fast", 1.0 + n) for n in turn]
    partitions = Partitions(tmp_path / f"{turn}{cuts}".replace(" ", ""))
    edges = [0, *sorted(cuts), len(made)]
    for start, end in pairwise(edges):
        partitions.ingest(made[start:end])
    rows = partitions.read(partitions.days())
    assert rows["attempt_id"].tolist() == [f"a-{n}" for n in range(12)]
    assert rows["measured_throughput"].tolist() == [1.0 + n for n in range(12)]


def test_a_corrected_row_replaces_the_earlier(tmp_path: Path) -> None:
    partitions = Partitions(tmp_path)
    partitions.ingest([attempt(submission("a"), "fast", 1.0)])
    partitions.ingest([attempt(submission("a"), "fast", 2.0)])
    assert partitions.read(partitions.days())["measured_throughput"].tolist() == [2.0]


def test_a_correction_that_finished_on_another_day_wins(tmp_path: Path) -> None:
    partitions = Partitions(tmp_path)
    first, corrected = (
        attempt(submission("a"), "fast", speed, hours=hours) for speed, hours in ((1.0, 2.0), (2.0, 30.0))
    )
    partitions.ingest([corrected, attempt(submission("b"), "fast", 3.0)])
    partitions.ingest([first])
    assert len(partitions.days()) == 2
    rows = partitions.read(partitions.days())
    assert rows.set_index("attempt_id")["measured_throughput"].to_dict() == {"a": 2.0, "b": 3.0}
    assert len(rows) == 2


def test_rows_of_earlier_spellings_are_read_under_the_names_of_the_catalog(tmp_path: Path) -> None:
    spelled = ("Tesla T4", "nvidia-tesla-t4", "T4", "GH200 96GB", "strange")
    Partitions(tmp_path).ingest([attempt(submission(f"a-{n}"), name, 1.0) for n, name in enumerate(spelled)])
    partitions = Partitions(tmp_path, load_catalog())
    expected = ["T4", "T4", "T4", "GH200-96GB", "strange"]
    assert partitions.read(partitions.days())["hardware_type"].tolist() == expected
    assert partitions.read(partitions.days(), columns=["hardware_type"])["hardware_type"].tolist() == expected


def test_pruned_days_are_gone(tmp_path: Path) -> None:
    partitions = Partitions(tmp_path)
    partitions.ingest([attempt(submission(f"a-{n}", at=MIDNIGHT + timedelta(days=n)), "fast", 1.0) for n in range(4)])
    partitions.prune([date(2026, 3, 1), date(2026, 3, 2)])
    assert partitions.days() == [date(2026, 3, 3), date(2026, 3, 4)]
    assert partitions.read([date(2026, 3, 1)]).empty


def test_days_are_counted_from_the_epoch() -> None:
    assert day_number(date(1970, 1, 2)) == 1
    assert day_of(day_number(date(2026, 3, 1))) == date(2026, 3, 1)
