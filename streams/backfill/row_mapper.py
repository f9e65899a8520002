"""Maps rows of a table of past jobs to the events that a launcher would have sent; no I/O."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from leap.predictor.features.family_patterns import FamilyPatterns, PatternError
from leap.schemas.backfill.mapping import ROW_NUMBER, Field, Mapping, MappingError, Source
from leap.schemas.backfill.status import StatusError, status_of
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted
from leap.schemas.launch import ModelDefinition
from leap.streams.backfill.field_readers import Reader, Unusable, condition, flag, moment, number, reader, text
from leap.streams.backfill.model_reader import model_reader
from leap.streams.backfill.table_reader import Row
from leap.streams.joining.attempt import event_time
from leap.streams.kafka.partition_key import JobEvent

Job = tuple[JobSubmitted, JobAllocated, JobCompleted]

#: Distinct words that are counted.
MAX_STATUSES = 1_000
_NAMES = ("attempt_id", "job_name", "model_type", "hardware_type", "status", "family")
_SHARED = ("attempt_id", "job_name", "model_type", "family")
_TIMES = ("submitted_at", "started_at", "finished_at")
_REQUIRED = frozenset({*_NAMES[:-1], *_TIMES, "run_seconds", "config.num_trainers", "config.accelerators_per_trainer"})
_CONFIG_TEXTS = frozenset({"precision", "optimizer", "sharding"})
_CONFIG_FLAGS = frozenset({"activation_checkpointing"})


@dataclass(frozen=True)
class BadRow:
    """An invalid row: its number (from 1, without the header), the problem and its remedy."""

    row: int
    field: str
    value: str
    problem: str

    def __str__(self) -> str:
        shown = f" (found {self.value!r})" if self.value else ""
        return f"row {self.row}: {self.field}: {self.problem}{shown}"


def in_time_order(jobs: Iterable[Job]) -> list[JobEvent]:
    """All events sorted by event time, so that completions are interleaved with later submissions.

    The sort is stable: events of the same time keep the order of `jobs`, and of submission, allocation, completion.
    """
    events: list[JobEvent] = [event for job in jobs for event in job]
    events.sort(key=event_time)
    return events


class RowMapper:
    """A mapping compiled for the columns of a table.

    Parameters
    ----------
    mapping
        The mapping.
    columns
        Column names of the table.
    folder
        In which the table is.

    Raises
    ------
    MappingError
        If the mapping uses a column that the table does not have, a pattern of families is refused, or definitions of
        models cannot be read.

    Attributes
    ----------
    statuses
        Word of the table and status that it was taken for to the number of rows.
    """

    def __init__(self, mapping: Mapping, columns: Iterable[str], folder: Path = Path()) -> None:
        self._mapping = mapping
        self.statuses: Counter[tuple[str, str]] = Counter()
        try:
            self._patterns = FamilyPatterns(mapping.family_patterns) if mapping.family_patterns else None
        except PatternError as error:
            raise MappingError(f"family_patterns: {error}") from error
        self._missing = frozenset(mapping.missing)
        self._columns = {*columns, ROW_NUMBER}
        for test in mapping.keep:
            self._check("keep", test.column)
        self._keep = [condition(test, self._missing) for test in mapping.keep]
        self._derived = {}
        for name, field in mapping.derived.items():
            self._derived[name] = self._reader(f"derived.{name}", field)
            self._columns.add(name)
        self._readers = {
            name: self._reader(name, field)
            for name in (*_NAMES, *_TIMES, "run_seconds")
            if (field := getattr(mapping, name)) is not None
        }
        for group in ("config", "extra", "measurements"):
            for name, field in getattr(mapping, group).items():
                self._readers[f"{group}.{name}"] = self._reader(f"{group}.{name}", field)
        sources = mapping.model if isinstance(mapping.model, tuple) else (mapping.model,)
        self._model = model_reader(sources, self._reader, folder)

    def job(self, row_number: int, row: Row) -> Job | BadRow | None:
        """The three events of a row; a `BadRow` if it is invalid; None if the conditions exclude it."""
        row[ROW_NUMBER] = row_number
        name = ""
        try:
            if not all(passes(row) for passes in self._keep):
                return None
            for name, read in self._derived.items():
                row[name] = read(row)
            values: dict[str, Any] = {}
            for name, read in self._readers.items():
                if (value := read(row)) is not None:
                    values[name] = _typed(name, value, self._mapping.time_format)
                elif name in _REQUIRED:
                    raise Unusable(None, "missing; add a default, or exclude such rows under `keep`")
            self._count_status(row, values["status"])
            name = "model"
            return self._events(values, self._model(row) if self._model else None)
        except Unusable as error:
            return BadRow(row_number, name, error.value, error.problem)
        except OverflowError as error:
            return BadRow(row_number, "run_seconds", str(values["run_seconds"]), str(error))
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at `$.")
            return BadRow(row_number, path.rstrip("`") or "event", "", problem)

    def _events(self, values: dict[str, Any], model: ModelDefinition | None) -> Job:
        hardware_type = values["hardware_type"]
        started_at = values.get("started_at", values["submitted_at"])
        finished_at = values.get("finished_at") or started_at + timedelta(seconds=values["run_seconds"])
        job: dict[str, Any] = {
            name: values[name] for name in ("attempt_id", "job_name", "model_type", "family") if name in values
        }
        if self._patterns is not None:
            job.setdefault("family", self._patterns.family(job["job_name"]))
        submitted = msgspec.convert(
            {
                **job,
                "submitted_at": values["submitted_at"],
                "config": {**_group(values, "config."), "extra": _group(values, "extra.")},
                "candidates": sorted({hardware_type, *self._mapping.candidates}),
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
                "accelerator_hours": accelerators * max((finished_at - started_at).total_seconds(), 0.0) / 3600,
                "measurements": _group(values, "measurements."),
            },
            JobCompleted,
        )
        return submitted, allocated, completed

    def _count_status(self, row: Row, taken: str) -> None:
        field = self._mapping.status
        columns = (field,) if isinstance(field, str) else field.columns if isinstance(field, Source) else ()
        word = " ".join(text(row[column]) for column in columns if row.get(column) is not None) or "not stated"
        if len(self.statuses) < MAX_STATUSES or (word, taken) in self.statuses:
            self.statuses[word, taken] += 1

    def _reader(self, name: str, field: Field) -> Reader:
        if isinstance(field, str):
            self._check(name, field)
        elif isinstance(field, Source):
            for column in field.columns:
                self._check(name, column)
        return reader(field, self._missing)

    def _check(self, name: str, column: str) -> None:
        if column not in self._columns:
            raise MappingError(f"{name}: the table has no column {column!r}; it has {', '.join(sorted(self._columns))}")


def _group(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _status(word: str) -> str:
    try:
        return status_of(word)
    except StatusError as error:
        raise Unusable(word, str(error)) from None


def _typed(name: str, value: Any, time_format: str) -> Any:
    """Convert a value to the type of its field; the event validates its range."""
    group, _, field = name.rpartition(".")
    if name in _TIMES:
        return moment(value, time_format)
    if name == "status":
        return _status(text(value))
    if name in _NAMES or (group == "config" and field in _CONFIG_TEXTS):
        return text(value)
    if group == "config" and field in _CONFIG_FLAGS:
        return flag(value)
    if group == "extra":
        try:
            return number(value)
        except Unusable:
            return text(value)
    as_number = number(value)
    return int(as_number) if group == "config" and as_number.is_integer() else as_number
