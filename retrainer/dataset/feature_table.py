"""The feature table: one row a finished attempt, as a frame, and back to the columns that features take."""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.features import architecture
from leap.predictor.features.batch import NAMES, NUMBERS, Floats, JobBatch, seconds
from leap.predictor.features.history import FEATURES as HISTORY
from leap.predictor.history.ran_shape import allocated_late, as_asked, reshaped, shape_of
from leap.schemas.events import SUCCEEDED, JobAttempt
from leap.schemas.hardware import Catalog
from leap.streams.backfill.row_events import Job
from leap.streams.joining.attempt import join_parts, merge_part, to_part

KEYS: tuple[str, ...] = ("attempt_id", "job_name", "family", "model_type", "hardware_type")
TIMES: tuple[str, ...] = ("submitted_at", "started_at", "finished_at")  # seconds since the epoch
ARCHITECTURE: tuple[str, ...] = tuple(f"architecture_{name}" for name in architecture.NAMES)
SERVED: tuple[str, ...] = tuple(f"served_{name}" for name in HISTORY)
#: What was asked for, of an attempt that ran in another shape: `NUMBERS` and `NAMES` are what it ran with.
ASKED: tuple[str, ...] = ("asked_num_trainers", "asked_accelerators_per_trainer", "asked_batch_size")
#: `extra` and `candidates` as JSON.
STRINGS: tuple[str, ...] = (*KEYS, *NAMES, "extra", "candidates", "artifact")
#: `stated_accelerators` are those of the completion, by which the running statistics count it; `resized` is 1 if the
#: shape changed while it ran.
FLOATS: tuple[str, ...] = (
    *TIMES, *NUMBERS, *ASKED, "stated_accelerators", "resized", *ARCHITECTURE, *SERVED, "accelerator_hours", "predicted"
)  # fmt: skip
MEASURED = "measured_"


def frame(attempts: Iterable[JobAttempt]) -> pd.DataFrame:
    """Rows of the attempts that succeeded, in the order given; of one attempt the last row stays.

    Each prediction target has a column ``measured_<target>``; NaN is missing.
    """
    rows = {attempt.attempt_id: _row(attempt) for attempt in attempts if attempt.completed.status == SUCCEEDED}
    return normalise(pd.DataFrame(list(rows.values()), columns=None if rows else [*STRINGS, *FLOATS]))


def attempt_of(job: Job) -> JobAttempt:
    """The attempt that a mapped past job leaves, as the joiner makes it of its events."""
    parts: dict[str, str] = {}
    for event in job:
        merge_part(parts, *to_part(event))
    return join_parts(parts, Catalog(()))


def normalise(rows: pd.DataFrame) -> pd.DataFrame:
    """The same columns and types whatever the rows hold, so that partitions of all days fit together."""
    columns: dict[str, Any] = {
        name: rows[name].astype(object).where(rows[name].notna(), None) if name in rows else None for name in STRINGS
    }
    targets = sorted(name for name in map(str, rows.columns) if name.startswith(MEASURED))
    for name in (*FLOATS, *targets):
        columns[name] = rows[name].astype(np.float64) if name in rows else np.nan
    return pd.DataFrame(columns, index=rows.index).reset_index(drop=True)


def jobs(rows: pd.DataFrame) -> JobBatch:
    """Columns of the jobs as they ran; as asked, those of :meth:`JobBatch.from_events` of their submissions."""
    parsed: dict[str | None, dict[str, float | str]] = {None: {}}
    for text in rows["extra"].unique():
        if isinstance(text, str):
            parsed[text] = msgspec.json.decode(text, type=dict[str, float | str])
    return JobBatch(
        model_type=rows["model_type"].to_numpy(dtype=object),
        family=rows["family"].to_numpy(dtype=object),
        submitted_at=rows["submitted_at"].to_numpy(dtype=np.float64),
        numbers=rows[list(NUMBERS)].to_numpy(dtype=np.float64),
        names=rows[list(NAMES)].to_numpy(dtype=object),
        architecture=rows[list(ARCHITECTURE)].to_numpy(dtype=np.float64),
        extra=[parsed.get(text, {}) for text in rows["extra"]],
    )


def log_target(rows: pd.DataFrame, target: str) -> Floats:
    """(n,) ln of the measured target; NaN where it is missing or not positive."""
    if MEASURED + target not in rows:
        return np.full(len(rows), np.nan)
    values = rows[MEASURED + target].to_numpy(dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log(values), np.nan)


def _row(attempt: JobAttempt) -> dict[str, Any]:
    submitted, completed = attempt.submitted, attempt.completed
    asked, ran = submitted.config, reshaped(submitted.config, shape_of(attempt.allocated, completed))
    same = as_asked(asked, ran)
    changed_unstated = not same and allocated_late(attempt.allocated, completed)
    row: dict[str, Any] = {
        "attempt_id": attempt.attempt_id,
        "job_name": submitted.job_name,
        "family": attempt.family,
        "model_type": submitted.model_type,
        "hardware_type": completed.hardware_type,
        "submitted_at": seconds(submitted.submitted_at),
        "started_at": seconds(completed.started_at),
        "finished_at": seconds(completed.finished_at),
        "extra": msgspec.json.encode(ran.extra, order="sorted").decode() if ran.extra else None,
        "candidates": msgspec.json.encode(submitted.candidates).decode() if submitted.candidates else None,
        "accelerator_hours": completed.accelerator_hours,
        "artifact": attempt.artifact,
        "stated_accelerators": completed.shape.accelerators if completed.shape else None,
        "resized": changed_unstated or len(completed.shapes) > 1,
    }
    if same:
        row["predicted"] = attempt.predicted
    else:  # the prediction was of another shape
        row |= {name: getattr(asked, name.removeprefix("asked_")) for name in ASKED}
    row |= {name: getattr(ran, name) for name in (*NUMBERS, *NAMES)}
    row |= {f"architecture_{name}": value for name, value in (attempt.architecture or {}).items()}
    row |= {f"served_{name}": value for name, value in attempt.served_history.items()}
    if not changed_unstated:
        row |= {MEASURED + target: value for target, value in completed.of_shape.items()}
    return row
