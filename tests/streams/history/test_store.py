"""The contract of the history store, on whichever store the suite runs on."""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from leap.predictor.history.welford import Statistics
from leap.streams.history import store as history_store
from leap.streams.history.store import Applied, HistoryStore
from leap.streams.history.updates import BUCKETS, Key, Observation, group_by_bucket, unverified_ranges
from leap.streams.redis_store.client import Client, connect
from leap.streams.redis_store.offset_fence import OffsetRange, StoreDataLost
from leap.streams.runtime.settings import Settings

TARGET = "throughput"
numbers = itertools.count()


@pytest.fixture(scope="session")
def client(store: str) -> Iterator[Client]:
    with connect(store) as client:
        yield client


@pytest.fixture
def history(client: Client, settings: Settings) -> HistoryStore:
    return HistoryStore(client, settings.redis_prefix)


def seen(
    offset: int, attempt: str, value: float, event_time: float, family: str = "bert", source: str = "id/0"
) -> Observation:
    keys = (Key("family", family), Key("family_hardware", family, "A100"), Key("model_type", "transformer"))
    return Observation(source, offset, attempt, TARGET, value, event_time, keys)


def everything(history: HistoryStore) -> dict[Key, Statistics]:
    return {key: value for bucket in history.buckets(TARGET) for key, value in bucket.statistics.items()}


def assert_equals_numpy(stored: dict[Key, Statistics], once: Iterable[Observation]) -> None:
    values: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for observation in once:
        for key in observation.keys:
            values[key].append((observation.event_time, observation.value))
    assert stored.keys() == values.keys()
    for key, pairs in values.items():
        column = np.array([value for _, value in pairs])
        statistics = stored[key]
        assert statistics.n == len(pairs)
        assert statistics.mean == pytest.approx(column.mean(), rel=1e-12)
        if len(pairs) > 1:
            assert statistics.deviation == pytest.approx(column.std(ddof=1), rel=1e-12, abs=1e-14)
        assert (statistics.last_at, statistics.last) == max(pairs)


def stream(count: int, seed: int, partitions: int = 3, families: int = 20) -> list[list[Observation]]:
    """Each partition's observations in order of offset, with gaps; families come on several partitions."""
    rng = random.Random(seed)
    offsets = [0] * partitions
    observations: list[list[Observation]] = [[] for _ in range(partitions)]
    for number in range(count):
        partition = rng.randrange(partitions)
        offsets[partition] += rng.choice((1, 1, 1, 4))
        family = f"family-{int(rng.paretovariate(0.6)) % families}"
        value, event_time = rng.gauss(8, 1.5), 1.7e9 + rng.randrange(count)
        observations[partition].append(
            seen(offsets[partition], f"a-{seed}-{number}", value, event_time, family, f"id/{partition}")
        )
    return observations


def batches(partitions: Sequence[Sequence[Observation]], rng: random.Random) -> Iterable[list[Observation]]:
    """What a consumer takes: some of each partition, in order."""
    begins = [0] * len(partitions)
    while any(begin < len(rows) for begin, rows in zip(begins, partitions, strict=True)):
        batch: list[Observation] = []
        for number, rows in enumerate(partitions):
            taken = rng.randrange(0, 60)
            batch += rows[begins[number] : begins[number] + taken]
            begins[number] += taken
        yield batch


def test_statistics_equal_numpy(history: HistoryStore) -> None:
    partitions = stream(5000, seed=1)
    total = sum(history.apply(batch).added for batch in batches(partitions, random.Random(2)))
    assert total == 3 * 5000
    assert_equals_numpy(everything(history), itertools.chain(*partitions))


@examples(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_statistics_are_exact_under_crashes_duplicates_and_rebatching(
    client: Client, settings: Settings, seed: int
) -> None:
    """Workers die after writing part of a batch; the next begins anywhere before, with batches of its own."""
    rng = random.Random(seed)
    partitions = stream(400, seed)
    once = list(itertools.chain(*partitions))
    for rows in partitions:  # a producer sends some again, soon after, with offsets and partitions of their own
        end = rows[-1].offset
        again = rng.sample(once[-60:], 20)
        rows += [row._replace(source=rows[0].source, offset=end + 1 + i) for i, row in enumerate(again)]
    history = HistoryStore(client, f"{settings.redis_prefix}-{next(numbers)}", window=len(once))
    committed = [0] * len(partitions)
    while any(begin < len(rows) for begin, rows in zip(committed, partitions, strict=True)):
        for batch in batches([rows[begin:] for begin, rows in zip(committed, partitions, strict=True)], rng):
            if rng.random() < 0.3:
                apply_partly(history, batch, rng)
                break
            history.apply(batch)
            if rng.random() < 0.3:  # written, not committed
                break
            for number, rows in enumerate(partitions):
                committed[number] += sum(row in batch for row in rows[committed[number] :])
    assert_equals_numpy(everything(history), once)


def apply_partly(history: HistoryStore, batch: list[Observation], rng: random.Random) -> None:
    """Die with the pipeline half way: some buckets have the batch, others do not."""
    for target, (arguments, buckets) in group_by_bucket(batch, unverified_ranges(batch)).items():
        for number, updates in enumerate(buckets):
            if rng.random() < 0.5:
                bucket = history._bucket(0, target, number)
                history.client.eval(history_store.SCRIPT, 1, bucket, history._window, arguments, updates)


def test_full_replay_is_idempotent(history: HistoryStore) -> None:
    partitions = stream(3000, seed=3)  # far more than the window of attempts holds
    once = list(itertools.chain(*partitions))
    history.apply(once)
    before = everything(history)
    assert history.apply(once) == Applied(0, 0, 9000)
    for batch in batches(partitions, random.Random(4)):
        assert history.apply(batch).added == 0
    assert everything(history) == before


def test_observations_of_a_recreated_topic_are_added(history: HistoryStore) -> None:
    first = [seen(offset, f"a{offset}", 1.0, offset) for offset in range(100)]
    second = [seen(offset, f"b{offset}", 3.0, offset, source="other/0") for offset in range(100)]
    history.apply(first)
    history.apply(second)
    history.apply(first)
    history.apply(second)
    assert_equals_numpy(everything(history), first + second)


def test_duplicate_attempt_counts_once(history: HistoryStore) -> None:
    original = seen(1, "a", 2.0, 5.0)
    elsewhere = seen(7, "a", 2.0, 5.0, source="id/1")
    assert history.apply([original, seen(2, "a", 2.0, 5.0)]) == Applied(3, 3, 0)
    assert history.apply([elsewhere]) == Applied(0, 3, 0)
    assert history.apply([elsewhere]) == Applied(0, 0, 3)
    assert_equals_numpy(everything(history), [original])


def test_duplicate_window_has_the_given_size(client: Client, settings: Settings) -> None:
    history = HistoryStore(client, settings.redis_prefix, window=4)
    history.apply([seen(offset, f"a{offset}", 1.0, 0.0) for offset in range(1, 6)])
    assert history.apply([seen(6, "a2", 1.0, 0.0)]) == Applied(0, 3, 0)
    assert history.apply([seen(7, "a1", 1.0, 0.0)]) == Applied(3, 0, 0)


def test_last_is_the_greatest_event_time_whatever_the_order(history: HistoryStore) -> None:
    rows = [(4.0, 10.0), (1.0, 30.0), (9.0, 30.0), (5.0, 30.0), (7.0, 20.0)]
    history.apply([seen(offset, f"a{offset}", *row) for offset, row in enumerate(rows[:3])])
    history.apply([seen(offset + 3, f"b{offset}", *row) for offset, row in enumerate(rows[3:])])
    assert {(statistic.last, statistic.last_at) for statistic in everything(history).values()} == {(9.0, 30.0)}


def test_repeated_offset_in_a_batch_counts_once(history: HistoryStore) -> None:
    rows = [seen(offset, f"a{offset}", float(offset), 0.0) for offset in range(1000)]
    history.apply(rows + rows)
    assert_equals_numpy(everything(history), rows)


def test_script_flush_does_not_break_updates(history: HistoryStore) -> None:
    history.apply([seen(0, "a", 1.0, 0.0)])
    history.client.script_flush()
    assert history.apply([seen(1, "b", 2.0, 0.0)]).added == 3


@pytest.mark.parametrize(
    "name", ["{", "{}", "}{", "{a}b", "bért 模型 🚀", 'a"b\\c', "a\nb\tc", "@id/0", " ", "x" * 512]
)
def test_arbitrary_names_round_trip(history: HistoryStore, name: str) -> None:
    keys = (Key("family", name), Key("family_hardware", name, name), Key("model_type", name))
    history.apply([Observation("id/0", 0, name, TARGET, 1.0, 0.0, keys)])
    assert everything(history).keys() == set(keys)
    assert history.bucket(TARGET, name).statistics.keys() == set(keys)
    assert history.bucket(TARGET, name).fences == {"id/0": 0}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_observations_are_rejected_before_writing(history: HistoryStore, value: float) -> None:
    good = seen(0, "a", 1.0, 0.0)
    for bad in (seen(1, "b", value, 0.0), seen(1, "b", 1.0, value)):
        with pytest.raises(ValueError, match="finite"):
            history.apply([good, bad])
    assert everything(history) == {}


@pytest.mark.parametrize("value", [5e-324, 1e140, -1e140, 0.1, 1 / 3, 2**53 + 1.0])
def test_doubles_round_trip_exactly(history: HistoryStore, value: float) -> None:
    history.apply([seen(2**53 - 1, "a", value, 1767225600.123456)])
    assert set(everything(history).values()) == {Statistics(1, value, 0.0, value, 1767225600.123456)}
    assert history.bucket(TARGET, "bert").fences == {"id/0": 2**53 - 1}


def test_targets_have_separate_statistics(history: HistoryStore) -> None:
    history.apply([seen(0, "a", 1.0, 0.0), seen(0, "a", 5.0, 0.0)._replace(target="step time")])
    assert {statistic.mean for statistic in everything(history).values()} == {1.0}
    assert history.bucket("step time", "bert").statistics[Key("family", "bert")].mean == 5.0


def test_empty_batch_changes_nothing(history: HistoryStore) -> None:
    assert history.apply([]) == Applied(0, 0, 0)


def test_key_prefix_with_a_brace_is_rejected(client: Client) -> None:
    with pytest.raises(ValueError, match="brace"):
        HistoryStore(client, "{leap}")


def test_unavailable_redis_raises(unused_port: int) -> None:
    with pytest.raises(redis.ConnectionError):
        connect(f"redis://127.0.0.1:{unused_port}/0")


@pytest.fixture
def unused_port() -> int:
    from leap.streams.embedded import free_port

    return free_port()


def test_every_bucket_has_the_same_fences(history: HistoryStore) -> None:
    history.apply([seen(7, "a", 1.0, 0.0)], {TARGET: {"id/0": OffsetRange(0, 9), "id/1": OffsetRange(0, 0)}})
    assert [bucket.fences for bucket in history.buckets(TARGET)] == [{"id/0": 8}] * BUCKETS


@examples(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_lost_bucket_is_detected_and_applied_again(client: Client, settings: Settings, seed: int) -> None:
    """Buckets fall back now and then, each to a moment of its own, as when primaries fail; the last time at the end."""
    rng = random.Random(seed)
    (rows,) = stream(400, seed, partitions=1)
    history = HistoryStore(client, f"{settings.redis_prefix}-{next(numbers)}")
    states: list[list[dict[bytes, bytes]]] = [[{}] * BUCKETS]
    position, losses, detected = 0, 0, 0
    while True:
        batch = [row for row in rows if row.offset >= position][: rng.randrange(80)]
        end = batch[-1].offset + 1 if batch else position
        try:
            history.apply(batch, {TARGET: {"id/0": OffsetRange(position, end)}})
        except StoreDataLost as lost:
            assert lost.begins["id/0"] < position
            position = lost.begins["id/0"]
            detected += 1
            continue
        position = end
        if rng.random() < 0.3:
            states.append(list(history.dump(TARGET, 0)))
        if position > rows[-1].offset and losses >= 3:
            break
        if position > rows[-1].offset or rng.random() < 0.2:
            losses += 1
            for number in range(BUCKETS):
                fall_back(history, number, rng.choice(states)[number])
    assert detected > 0
    assert_equals_numpy(everything(history), rows)


def fall_back(history: HistoryStore, number: int, fields: dict[bytes, bytes]) -> None:
    history.client.delete(history._bucket(0, TARGET, number))
    history.load(0, TARGET, number, {name.decode(): value.decode() for name, value in fields.items()})
