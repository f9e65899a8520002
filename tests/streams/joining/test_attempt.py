"""An attempt's row: the same whatever the order and number of its parts."""

import random
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.features.architecture import summary
from leap.schemas.codec import decode, encode
from leap.schemas.events import JobAttempt
from leap.streams.joining.attempt import Part, join_parts, to_part
from leap.streams.joining.worker import MAX_ROW_BYTES
from tests.streams.joining.attempt_parts import (
    CATALOG,
    HARDWARE,
    MODEL,
    START,
    VERSIONS,
    allocation,
    completion,
    preference,
    row_of,
    submission,
)


def test_joined_row_has_the_content_of_every_part() -> None:
    row = row_of([preference(), allocation(), completion(), submission()])
    assert row == JobAttempt(
        attempt_id="a-1",
        family="bert",
        submitted=submission(model=None),
        completed=completion(),
        allocated=allocation(),
        architecture=summary(MODEL),
        hardware=CATALOG.specification(HARDWARE),
        predicted=790.0,
        artifact="throughput-0",
        served_history={"history_mean": 6.5, "history_count": 4.0},
    )
    assert decode(encode(row), JobAttempt, MAX_ROW_BYTES) == row


def test_row_requires_only_submission_and_completion() -> None:
    row = row_of([completion(), submission(model=None)])
    assert (row.allocated, row.predicted, row.artifact, row.served_history, row.architecture) == (
        None, None, None, {}, None
    )  # fmt: skip
    for alone in (submission(), completion()):
        with pytest.raises(KeyError):
            row_of([alone, allocation(), preference()])


def test_excluded_hardware_keeps_its_prediction_and_history() -> None:
    excluded = row_of([completion(hardware_type="A30"), submission(), preference()])
    unknown = row_of([completion(hardware_type="Abacus"), submission(), preference()])
    assert (excluded.predicted, excluded.served_history) == (120.0, {"history_mean": None, "history_count": 3.0})
    assert (unknown.predicted, unknown.served_history, unknown.hardware) == (None, {}, None)
    assert unknown.artifact == "throughput-0"


def test_parts_stored_by_a_newer_worker_are_read() -> None:
    """As while versions are changed one worker after the other, or changed back."""
    all_kinds: tuple[Part, ...] = (submission(), allocation(), completion())
    parts = {name: value.replace('{"attempt_id"', '{"later":1,"attempt_id"') for name, value in map(to_part, all_kinds)}
    row = join_parts(parts, CATALOG)
    assert row.allocated is not None
    assert row.submitted.unknown == row.allocated.unknown == row.completed.unknown == {"later": 1}


@pytest.mark.parametrize(
    ("hours", "allocated", "served"),
    [(1, 1, True), (1, 2, True), (1, 0, False), (1, None, False), (0, None, True), (400_000, 1, False)],
)
def test_late_preference_list_is_not_joined(hours: int, allocated: int | None, served: bool) -> None:
    """As when the ranking worker starts after a backfill: its artifact has learned from what it ranks."""
    parts: list[Part] = [preference(hours=hours), completion(hours=2), submission()]
    parts += [] if allocated is None else [allocation(hours=allocated)]
    row = row_of(parts)
    assert row == row_of(reversed(parts))
    expected = (790.0 + hours, f"throughput-{hours}", {"history_mean": 6.5, "history_count": 4.0})
    assert (row.predicted, row.artifact, row.served_history) == (expected if served else (None, None, {}))


def test_clock_skew_of_a_minute_is_tolerated() -> None:
    for seconds, served in ((60, True), (61, False)):
        late = msgspec.structs.replace(preference(), decided_at=START + timedelta(seconds=seconds))
        assert (row_of([submission(), completion(), late]).artifact is not None) is served


@given(st.permutations(VERSIONS), st.lists(st.sampled_from(VERSIONS), max_size=8), st.randoms(use_true_random=False))
def test_merge_is_independent_of_order_and_duplicates(
    order: list[Part], duplicates: list[Part], shuffle: random.Random
) -> None:
    arriving = [*order, *duplicates]
    shuffle.shuffle(arriving)
    assert row_of(arriving) == row_of(VERSIONS)


def test_latest_parts_win_except_for_the_first_list() -> None:
    row = row_of(VERSIONS)
    assert row.allocated is not None
    assert row.submitted.submitted_at == row.allocated.allocated_at == START + timedelta(hours=1)
    assert row.completed.finished_at == START + timedelta(hours=2)
    assert row.artifact == "throughput-0"
