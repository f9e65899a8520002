"""The events of one row of a table, and their order."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from leap.predictor.features.family_patterns import FamilyPatterns
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted
from leap.schemas.launch import ModelDefinition
from leap.streams.joining.attempt import event_time
from leap.streams.kafka.partition_key import JobEvent

Job = tuple[JobSubmitted, JobAllocated, JobCompleted]

#: Extra value of a job that has a part of one accelerator: which part.
SHARE = "accelerator_share"


def in_time_order(jobs: Iterable[Job]) -> list[JobEvent]:
    """All events sorted by event time, so that completions are interleaved with later submissions.

    The sort is stable: events of the same time keep the order of `jobs`, and of submission, allocation, completion.
    """
    events: list[JobEvent] = [event for job in jobs for event in job]
    events.sort(key=event_time)
    return events


def events_of(
    values: dict[str, Any],
    candidates: Sequence[str],
    patterns: FamilyPatterns | None,
    model: ModelDefinition | None = None,
) -> Job:
    """The three events of a row.

    Parameters
    ----------
    values
        Fields by their names in a mapping (``config.batch_size``), in the types of the events.
    candidates
        Hardware types besides the one that it ran on, where the row has no list of its own.
    patterns
        Patterns by which the family is stated, where the row does not.
    model
        What is known of its model.

    Raises
    ------
    msgspec.ValidationError
        If a value is out of its range.
    OverflowError
        If it ends after the last time there is.
    """
    hardware_type = values["hardware_type"]
    started_at = values.get("started_at", values["submitted_at"])
    finished_at = values.get("finished_at") or started_at + timedelta(seconds=values["run_seconds"])
    job: dict[str, Any] = {
        name: values[name] for name in ("attempt_id", "job_name", "model_type", "family") if name in values
    }
    if patterns is not None:
        job.setdefault("family", patterns.family(job["job_name"]))
    share = values["config.accelerators_per_trainer"]
    if 0 < share < 1:
        values |= {"config.accelerators_per_trainer": 1, f"extra.{SHARE}": share}
    submitted = msgspec.convert(
        {
            **job,
            "submitted_at": values["submitted_at"],
            "config": {**_group(values, "config."), "extra": _group(values, "extra.")},
            "candidates": sorted({hardware_type, *values.get("candidates", candidates)}),
        },
        JobSubmitted,
    )
    if model is not None:
        submitted = msgspec.structs.replace(submitted, model=model)
    accelerators = submitted.config.accelerators
    allocated = msgspec.convert(
        {
            "attempt_id": job["attempt_id"],
            "hardware_type": hardware_type,
            "hosts": submitted.config.num_trainers,
            "accelerators": accelerators,
            "allocated_at": started_at,
        },
        JobAllocated,
    )
    completed = msgspec.convert(
        {
            **job,
            "hardware_type": hardware_type,
            "started_at": started_at,
            "finished_at": finished_at,
            "status": values["status"],
            "accelerator_hours": min(share, 1)
            * accelerators
            * max((finished_at - started_at).total_seconds(), 0.0)
            / 3600,
            "measurements": _group(values, "measurements."),
        },
        JobCompleted,
    )
    return submitted, allocated, completed


def _group(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
