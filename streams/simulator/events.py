"""A simulated day as events (late, repeated or lost as in reality), and as rows of the feature table.

Both are derived from the same columns: joining the events by attempt gives the rows.
"""

import datetime as dt
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from leap.predictor.features import architecture
from leap.predictor.features.batch import NUMBERS, Floats
from leap.schemas.events import SUCCEEDED, THROUGHPUT, Event, JobAllocated, JobCompleted, JobSubmitted
from leap.schemas.launch import LaunchConfig
from leap.schemas.topics import ALLOCATED, COMPLETED, SUBMITTED
from leap.streams.simulator import constants as c
from leap.streams.simulator.day_batch import DayBatch
from leap.streams.simulator.job_families import OPTIMIZERS, PRECISIONS, SHARDINGS, Bools, Configurations
from leap.streams.simulator.job_names import job_names


class Arrival(NamedTuple):
    """An event and when it reaches its topic, milliseconds since 1970."""

    arrives_ms: int
    topic: str
    key: str
    event: Event


def arrivals(batch: DayBatch) -> list[Arrival]:
    """Events of a day's attempts in order of arrival, some of them days late."""
    in_order = [*_submissions(batch), *_allocations(batch), *_completions(batch)]
    in_order.sort(key=lambda arrival: arrival.arrives_ms)
    return in_order


def day_events(batch: DayBatch) -> Iterator[tuple[str, str, Event]]:
    """(topic, key, event) of a day's attempts in order of arrival."""
    for _, topic, key, event in arrivals(batch):
        yield topic, key, event


def succeeded(batch: DayBatch) -> Bools:
    """(n,) whether each attempt succeeds, even if its completion is lost."""
    return np.asarray(batch.run[:, 0] >= c.FAILED)


def joined(batch: DayBatch) -> Bools:
    """(n,) whether each attempt leaves a row: it succeeds, and its submission and completion arrive."""
    return succeeded(batch) & ~_completion_lost(batch) & ~_submission_lost(batch)


def attempt_columns(batch: DayBatch) -> dict[str, Any]:
    """Rows of the feature table from a day's attempts, by column, in order of submission.

    The columns are those of the retrainer's table, without the served predictions and history.
    """
    families, types, rows = batch.families, batch.types, np.flatnonzero(joined(batch))
    config = Configurations(**{name: column[rows] for name, column in vars(batch.config).items()})
    family, kind = batch.family[rows], batch.model_type[rows]
    ids, jobs = attempt_ids(batch), job_names(batch)
    candidates = {of: msgspec.json.encode(names).decode() for of, names in _candidates(batch).items()}
    table: dict[str, Any] = {
        "attempt_id": [ids[row] for row in rows.tolist()],
        "job_name": [jobs[row] for row in rows.tolist()],
        "family": [families.names[index] for index in family.tolist()],
        "model_type": [types.names[index] for index in kind.tolist()],
        "hardware_type": [batch.hardware_types[index] for index in batch.hardware[rows].tolist()],
        "candidates": [candidates[index] for index in family.tolist()],
        "precision": [PRECISIONS[index] for index in config.precision.tolist()],
        "optimizer": [OPTIMIZERS[index] for index in families.optimizer[family].tolist()],
        "sharding": [SHARDINGS[index] for index in families.sharding[family].tolist()],
        "submitted_at": batch.submitted[rows] / 1000,
        "started_at": batch.started[rows] / 1000,
        "finished_at": batch.finished[rows] / 1000,
        "resized": np.zeros(len(rows)),
        "accelerator_hours": _accelerator_hours(batch)[rows],
        f"measured_{THROUGHPUT}": batch.measured[rows],
    }
    table |= {name: column.astype(float) for name, column in _numbers(config).items()}
    summaries = np.where(families.describes[family][:, None], types.architectures[kind], np.nan)
    return table | {f"architecture_{name}": summaries[:, i] for i, name in enumerate(architecture.NAMES)}


def attempt_ids(batch: DayBatch) -> list[str]:
    """Attempt ids: day and number."""
    day = f"{batch.date:%Y%m%d}"
    return [f"{day}-{number:06d}" for number in range(len(batch))]


def _candidates(batch: DayBatch) -> dict[int, tuple[str, ...]]:
    """Family to the hardware types that its attempts may run on."""
    families, first = np.unique(batch.family, return_index=True)
    allowed = batch.candidates[first]
    return {
        family: tuple(batch.hardware_types[index] for index in np.flatnonzero(row).tolist())
        for family, row in zip(families.tolist(), allowed, strict=True)
    }


def _numbers(config: Configurations) -> dict[str, Floats]:
    """Numeric columns of the launch configuration; NaN is absent."""
    accelerators = config.trainers * config.accelerators
    return {
        "num_trainers": config.trainers,
        "accelerators_per_trainer": config.accelerators,
        "batch_size": config.batch,
        "data_readers": config.readers,
        "sequence_length": np.where(config.sequence > 0, config.sequence, np.nan),
        "gradient_accumulation": config.accumulation,
        "activation_checkpointing": config.checkpointing,
        "data_parallel": np.maximum(1, accelerators // (config.tensor_parallel * config.pipeline_parallel)),
        "tensor_parallel": config.tensor_parallel,
        "pipeline_parallel": config.pipeline_parallel,
        "expert_parallel": np.full(len(accelerators), np.nan),
    }


def _submissions(batch: DayBatch) -> Iterator[Arrival]:
    families, types = batch.families, batch.types
    arrives = batch.submitted + (batch.run[:, 2] * 400).astype(np.int64)
    lost, repeated = _submission_lost(batch), batch.run[:, 3] < c.REPEATED
    candidates = _candidates(batch)
    rows = zip(
        attempt_ids(batch),
        job_names(batch),
        batch.family.tolist(),
        _times(batch.submitted),
        _configs(batch),
        arrives.tolist(),
        strict=True,
    )
    for row, (attempt_id, job_name, family, submitted, config, arrival) in enumerate(rows):
        if lost[row]:
            continue
        kind = int(families.model_type[family])
        event = JobSubmitted(
            attempt_id=attempt_id,
            job_name=job_name,
            model_type=types.names[kind],
            submitted_at=submitted,
            config=config,
            candidates=candidates[family],
            model=types.definitions[kind] if families.describes[family] else None,
        )
        yield Arrival(arrival, SUBMITTED, attempt_id, event)
        if repeated[row]:
            yield Arrival(arrival + 1500, SUBMITTED, attempt_id, event)


def _allocations(batch: DayBatch) -> Iterator[Arrival]:
    arrives = batch.allocated + _delay(batch.run[:, 3])
    missing = batch.run[:, 2] < c.UNALLOCATED
    config = batch.config
    rows = zip(
        attempt_ids(batch),
        batch.hardware.tolist(),
        config.trainers.tolist(),
        (config.trainers * config.accelerators).tolist(),
        _times(batch.allocated),
        arrives.tolist(),
        strict=True,
    )
    for row, (attempt_id, hardware, hosts, accelerators, allocated, arrival) in enumerate(rows):
        if not missing[row]:
            event = JobAllocated(
                attempt_id=attempt_id,
                hardware_type=batch.hardware_types[hardware],
                hosts=hosts,
                accelerators=accelerators,
                allocated_at=allocated,
            )
            yield Arrival(arrival, ALLOCATED, attempt_id, event)


def _completions(batch: DayBatch) -> Iterator[Arrival]:
    families, types = batch.families, batch.types
    arrives = batch.finished + _delay(batch.run[:, 1])
    lost, repeated, good = _completion_lost(batch), batch.run[:, 3] > 1 - c.REPEATED, succeeded(batch)
    rows = zip(
        attempt_ids(batch),
        job_names(batch),
        batch.family.tolist(),
        batch.hardware.tolist(),
        _times(batch.started),
        _times(batch.finished),
        _accelerator_hours(batch).tolist(),
        batch.measured.tolist(),
        arrives.tolist(),
        strict=True,
    )
    for row, (attempt_id, job_name, family, hardware, started, finished, hours, measured, arrival) in enumerate(rows):
        if lost[row]:
            continue
        event = JobCompleted(
            attempt_id=attempt_id,
            job_name=job_name,
            hardware_type=batch.hardware_types[hardware],
            started_at=started,
            finished_at=finished,
            status=SUCCEEDED if good[row] else "failed",
            model_type=types.names[int(families.model_type[family])],
            accelerator_hours=hours,
            measurements={THROUGHPUT: measured} if good[row] else {},
        )
        yield Arrival(arrival, COMPLETED, families.names[family], event)
        if repeated[row]:
            yield Arrival(arrival + 60_000, COMPLETED, families.names[family], event)


def _configs(batch: DayBatch) -> Iterator[LaunchConfig]:
    """Configuration of each attempt; attempts of the same family and variant share an object."""
    made: dict[tuple[int, int], LaunchConfig] = {}
    families = batch.families
    numbers = {name: column.tolist() for name, column in _numbers(batch.config).items()}
    for row, key in enumerate(zip(batch.family.tolist(), batch.variant.tolist(), strict=True)):
        if key not in made:
            values = {name: numbers[name][row] for name in NUMBERS}
            values["activation_checkpointing"] = bool(values["activation_checkpointing"])
            made[key] = LaunchConfig(
                precision=PRECISIONS[batch.config.precision[row]],
                optimizer=OPTIMIZERS[families.optimizer[key[0]]],
                sharding=SHARDINGS[families.sharding[key[0]]],
                **{name: value for name, value in values.items() if value == value},  # NaN is absent
            )
        yield made[key]


def _times(milliseconds: Any) -> list[dt.datetime]:
    return [time.replace(tzinfo=dt.UTC) for time in milliseconds.astype("datetime64[ms]").tolist()]


def _delay(draw: Floats) -> Any:
    """Milliseconds between an event and its arrival: about a second, but hours or a day for late ones."""
    late = (draw < c.LATE) * (1 - draw / c.LATE) ** 2 * c.LATEST_HOURS * 3_600_000
    return (200 + 1800 * draw + late).astype(np.int64)


def _accelerator_hours(batch: DayBatch) -> Floats:
    hours = (batch.finished - batch.started) / 3_600_000
    return np.asarray(batch.config.trainers * batch.config.accelerators * hours)


def _submission_lost(batch: DayBatch) -> Bools:
    return np.asarray(batch.run[:, 1] > 1 - c.SUBMISSION_LOST)


def _completion_lost(batch: DayBatch) -> Bools:
    return np.asarray(batch.run[:, 0] > 1 - c.COMPLETION_LOST)
