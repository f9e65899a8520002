"""The simulated fleet: one seed one fleet, events and rows agree, and nothing hidden is in them."""

import datetime as dt
import itertools
from collections import Counter

import msgspec
import numpy as np
import pandas as pd
import pytest

from leap.predictor.features.job_family import family
from leap.retrainer.dataset.feature_table import frame, normalise
from leap.schemas.events import Event, JobAllocated, JobCompleted, JobSubmitted
from leap.schemas.topics import ALLOCATED, COMPLETED, load_topics
from leap.streams.joining.attempt import join_parts, merge_part, to_part
from leap.streams.simulator.day_batch import DayBatch
from leap.streams.simulator.events import attempt_columns, day_events
from leap.streams.simulator.fleet import DAY_S, Fleet, FleetConfig

SMALL = FleetConfig(days=8, attempts_per_day=300)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(SMALL)


def events_of(batch: DayBatch, kind: type[Event]) -> list[Event]:
    return [event for _, _, event in day_events(batch) if isinstance(event, kind)]


def test_fleet_is_determined_by_its_seed_in_any_order_of_days(fleet: Fleet) -> None:
    assert list(day_events(Fleet(SMALL).day(5))) == list(day_events(fleet.day(5)))
    assert list(day_events(fleet.day(5))) == list(day_events(fleet.day(5)))
    other = Fleet(FleetConfig(seed=1, days=8, attempts_per_day=300))
    assert list(day_events(other.day(5))) != list(day_events(fleet.day(5)))


def test_longer_fleet_starts_with_the_same_days(fleet: Fleet) -> None:
    longer = Fleet(FleetConfig(days=15, attempts_per_day=300))
    for day in range(4):  # before the new hardware of the shorter one
        assert list(day_events(longer.day(day))) == list(day_events(fleet.day(day)))
        np.testing.assert_array_equal(longer.truth(longer.day(day)), fleet.truth(fleet.day(day)))


def test_submissions_do_not_depend_on_latent_effects() -> None:
    left, right = (Fleet(FleetConfig(days=8, attempts_per_day=300, hidden_seed=seed)) for seed in (1, 2))
    differing = 0
    for day in range(8):
        first, second = left.day(day), right.day(day)
        assert events_of(first, JobSubmitted) == events_of(second, JobSubmitted)
        assert events_of(first, JobAllocated) == events_of(second, JobAllocated)
        for a, b in zip(events_of(first, JobCompleted), events_of(second, JobCompleted), strict=True):
            assert isinstance(a, JobCompleted) and isinstance(b, JobCompleted)
            differing += a.measurements != b.measurements
            assert msgspec.structs.replace(a, measurements={}) == msgspec.structs.replace(b, measurements={})
    assert differing > 1000


def test_rows_equal_the_joined_events(fleet: Fleet) -> None:
    for day in range(fleet.config.days):
        batch = fleet.day(day)
        parts: dict[str, dict[str, str]] = {}
        for _, _, event in day_events(batch):
            assert isinstance(event, JobSubmitted | JobAllocated | JobCompleted)
            merge_part(parts.setdefault(event.attempt_id, {}), *to_part(event))
        rows = [join_parts(part, fleet.catalog) for part in parts.values() if {"submitted", "completed"} <= part.keys()]
        expected = frame(rows).sort_values("attempt_id", ignore_index=True)
        assert len(expected) > 200
        pd.testing.assert_frame_equal(
            normalise(pd.DataFrame(attempt_columns(batch))), expected, check_exact=False, rtol=1e-12
        )


def test_rows_are_successes_with_submission_and_completion(fleet: Fleet) -> None:
    batch = fleet.day(2)
    submitted = {event.attempt_id for event in events_of(batch, JobSubmitted) if isinstance(event, JobSubmitted)}
    good = {
        event.attempt_id
        for event in events_of(batch, JobCompleted)
        if isinstance(event, JobCompleted) and event.measurements.get("throughput", 0) > 0
    }
    assert set(attempt_columns(batch)["attempt_id"]) == submitted & good


def test_events_are_late_repeated_lost_and_failed() -> None:
    batch = Fleet(FleetConfig(days=2, attempts_per_day=5000)).day(1)
    events = list(day_events(batch))
    count = Counter(topic for topic, _, _ in events)
    assert count[ALLOCATED] < 0.99 * len(batch)
    completions = [event for _, _, event in events if isinstance(event, JobCompleted)]
    assert len({event.attempt_id for event in completions}) < len(completions)  # repeated
    assert len({event.attempt_id for event in completions}) < len(batch)  # lost
    failed = [event for event in completions if event.status != "succeeded"]
    assert 0.03 < len(failed) / len(completions) < 0.06
    assert not any(event.measurements for event in failed)
    order = [event.finished_at for event in completions]
    assert sum(b < a - dt.timedelta(hours=1) for a, b in itertools.pairwise(order)) > 10  # late


def test_events_of_several_days_are_ordered_and_complete(fleet: Fleet) -> None:
    streamed = list(fleet.events(range(4)))
    daily = [message for day in range(4) for message in day_events(fleet.day(day))]
    assert Counter(msgspec.json.encode(message) for message in streamed) == Counter(map(msgspec.json.encode, daily))
    submissions = [event.submitted_at for _, _, event in streamed if isinstance(event, JobSubmitted)]
    assert sum(b < a - dt.timedelta(seconds=2) for a, b in itertools.pairwise(submissions)) == 0


def test_names_normalise_to_the_family_and_events_fit_their_topics(fleet: Fleet) -> None:
    topics = load_topics()
    for topic, key, event in itertools.islice(fleet.events(range(3)), 2500):
        encoded = msgspec.json.encode(event)
        assert len(encoded) < 64 * 1024 < topics[topic].max_message_bytes
        assert msgspec.json.decode(encoded, type=type(event)) == event
        if topic == COMPLETED:
            assert isinstance(event, JobCompleted)
            assert family(event.job_name) == key


def test_truth_covers_all_candidates_and_noise_is_centred_on_it(fleet: Fleet) -> None:
    batch = fleet.day(3)
    truth = fleet.truth(batch)
    np.testing.assert_array_equal(np.isfinite(truth), batch.candidates)
    assert batch.candidates[np.arange(len(batch)), batch.hardware].all()
    error = np.log(batch.measured / truth[np.arange(len(batch)), batch.hardware])
    assert 0.01 < np.median(np.abs(error)) < 0.08
    assert np.mean(error < -0.2) > 3 * np.mean(error > 0.2)  # slow runs, no fast ones


def test_hardware_families_and_model_types_appear_over_time(fleet: Fleet) -> None:
    new = fleet.hardware.index("B200")
    seen = [fleet.day(day) for day in range(8)]
    assert not any(batch.candidates[:, new].any() for batch in seen[:4])
    assert all(batch.candidates[:, new].any() for batch in seen[4:])
    early = set(np.concatenate([batch.family for batch in seen[:4]]).tolist())
    fresh = np.array([family not in early for family in seen[7].family.tolist()])
    assert 0.01 < fresh.mean() < 0.5
    assert (fleet.types.born > 0).any() and (fleet.types.born[:3] == 0).all()
    assert all((fleet.types.born[batch.model_type] <= batch.day).all() for batch in seen)


def test_batch_is_within_its_day_and_days_are_bounded(fleet: Fleet) -> None:
    batch = fleet.day(6)
    assert batch.date == dt.date(2026, 1, 7)
    midnight = dt.datetime(2026, 1, 7, tzinfo=dt.UTC).timestamp() * 1000
    assert (batch.submitted >= midnight).all() and (batch.submitted < midnight + DAY_S * 1000).all()
    assert (np.diff(batch.submitted) >= 0).all()
    with pytest.raises(ValueError, match="8 days"):
        fleet.day(8)
    with pytest.raises(ValueError, match="400 days"):
        FleetConfig(days=0)
