"""Maps rows of a table of past jobs to the events that a launcher would have sent; no I/O."""

import difflib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from leap.predictor.features.family_patterns import FamilyPatterns, PatternError
from leap.schemas.backfill.mapping import ROW_NUMBER, Field, Mapping, MappingError, Source
from leap.schemas.backfill.status import StatusError, status_of
from leap.streams.backfill.cell_times import Times
from leap.streams.backfill.cell_values import Numbers, Unusable, flag, text
from leap.streams.backfill.field_readers import Reader, condition, reader
from leap.streams.backfill.model_reader import model_reader
from leap.streams.backfill.row_events import Job, events_of
from leap.streams.tables.json_table import flattened, nested
from leap.streams.tables.table import PROBLEM, Row, parents

#: Distinct words that are counted.
MAX_STATUSES = 1_000
#: With the number of the row.
ONE_COLUMN = 2
_NAMES = ("attempt_id", "job_name", "model_type", "hardware_type", "status", "family")
_TIMES = ("submitted_at", "started_at", "finished_at")
_REQUIRED = frozenset({*_NAMES[:-1], *_TIMES, "run_seconds", "config.num_trainers", "config.accelerators_per_trainer"})
_CONFIG_TEXTS = frozenset({"precision", "optimizer", "sharding"})
_CONFIG_FLAGS = frozenset({"activation_checkpointing"})
_COUNTS = frozenset({"config.num_trainers", "config.accelerators_per_trainer"})
_BETWEEN_CANDIDATES = re.compile(r"\s*[,;|]\s*")


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
        If the mapping uses a column that the table does not have, a pattern is refused, or definitions of models cannot
        be read.

    Attributes
    ----------
    statuses
        Word of the table and status that it was taken for to the number of rows.
    """

    def __init__(self, mapping: Mapping, columns: Iterable[str], folder: Path = Path()) -> None:
        self.statuses: Counter[tuple[str, str]] = Counter()
        self._mapping = mapping
        self._missing = frozenset(mapping.missing)
        self._numbers = Numbers(mapping.table.decimal)
        self._times = Times(
            mapping.time_format, ZoneInfo(mapping.time_zone) if mapping.time_zone else None, self._numbers
        )
        self._columns = {*columns, ROW_NUMBER}
        self._nested: set[str] = set()
        self._candidates = () if isinstance(mapping.candidates, Source) else mapping.candidates
        name = "family_patterns"
        try:
            self._patterns = FamilyPatterns(mapping.family_patterns) if mapping.family_patterns else None
            name = "keep"
            for test in mapping.keep:
                self._check_source(name, Source(column=test.column))
            self._keep = [condition(test, self._missing, self._numbers) for test in mapping.keep]
            self._derived: dict[str, Reader] = {}
            self._readers: dict[str, Reader] = {}
            for name, field in mapping.fields.items():
                if name.startswith("derived."):
                    self._derived[name.removeprefix("derived.")] = self._reader(name, field)
                    self._columns.add(name.removeprefix("derived."))
                else:
                    self._readers[name] = self._reader(name, field)
            name = "model"
            sources = mapping.model if isinstance(mapping.model, tuple) else (mapping.model,)
            self._model = model_reader(sources, self._reader, folder, self._numbers)
        except PatternError as error:
            raise MappingError(f"{name}: {error}") from error

    def job(self, row_number: int, row: Row) -> Job | BadRow | None:
        """The three events of a row; a `BadRow` if it is invalid; None if the conditions exclude it."""
        if PROBLEM in row:
            return BadRow(row_number, "row", "", row[PROBLEM])
        row[ROW_NUMBER] = row_number
        name = ""
        values: dict[str, Any] = {}
        try:
            for name in self._nested:
                self._unfold(row, name)
            if not all(passes(row) for passes in self._keep):
                return None
            for name, read in self._derived.items():
                row[name] = read(row)
            for name, read in self._readers.items():
                if (value := read(row)) is not None:
                    values[name] = self._typed(name, value, values)
                elif name in _REQUIRED:
                    raise Unusable(None, "missing; add a default, or exclude such rows under `keep`")
            self._count_status(row, values["status"])
            name = "model"
            model = self._model(row) if self._model else None
            return events_of(values, self._candidates, self._patterns, model)
        except Unusable as error:
            return BadRow(row_number, name, error.value, error.problem)
        except OverflowError as error:
            return BadRow(row_number, "run_seconds", str(values["run_seconds"]), str(error))
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at `$.")
            return BadRow(row_number, path.rstrip("`") or "event", "", problem)

    def _count_status(self, row: Row, taken: str) -> None:
        field = self._mapping.status
        columns = (field,) if isinstance(field, str) else field.columns if isinstance(field, Source) else ()
        word = next((text(row[column]) for column in columns if row.get(column) is not None), "not stated")
        if len(self.statuses) < MAX_STATUSES or (word, taken) in self.statuses:
            self.statuses[word, taken] += 1

    def _reader(self, name: str, field: Field) -> Reader:
        if isinstance(field, str):
            field = Source(column=field)
        if isinstance(field, Source):
            self._check_source(name, field)
        if name == "candidates" and isinstance(field, Source):  # its `values` are of each, not of the whole list
            field = msgspec.structs.replace(field, values={})
        return reader(field, self._missing, self._numbers)

    def _has(self, column: str) -> bool:
        if column in self._columns:
            return True
        holders = [holder for holder in parents(column) if holder in self._columns]
        self._nested.update(holders)
        return bool(holders)

    def _check_source(self, name: str, source: Source) -> None:
        lacking = [column for column in source.columns if not self._has(column)]
        several = isinstance(source.column, tuple)
        if source.optional or not lacking or (several and len(lacking) < len(source.columns)):
            return
        near = difflib.get_close_matches(lacking[0], self._columns, 1)
        meant = f" (do you mean {near[0]!r}?)" if near else ""
        none = f"none of the columns {', '.join(lacking)}" if several else f"no column {lacking[0]!r}"
        one = "; are its columns separated otherwise? state `table: {delimiter: ...}`; sacct needs -P"
        raise MappingError(
            f"{name}: the table has {none}{meant}; it has {', '.join(sorted(self._columns))}"
            + (one if len(self._columns) == ONE_COLUMN else "")
        )

    def _unfold(self, row: Row, name: str) -> None:
        """Add what a cell holds as JSON, under names with dots."""
        cell = row.get(name)
        if not isinstance(cell, str | dict | list) or (isinstance(cell, str) and cell.strip()[:1] not in ("{", "[")):
            return
        try:
            row.update(flattened(nested(cell), name))
        except ValueError as error:
            raise Unusable(cell, f"{error}, into which the mapping leads; correct it") from None

    def _typed(self, name: str, value: Any, before: dict[str, Any]) -> Any:
        """Convert a value to the type of its field; the event validates its range."""
        group, _, field = name.rpartition(".")
        if name in _TIMES:
            earlier: list[datetime] = [before[time] for time in _TIMES if time in before]
            return self._times.moment(value, max(earlier, default=None))
        if name == "run_seconds":
            return self._numbers.duration(value)
        if name == "status":
            return _status(text(value))
        if name == "candidates":
            return self._listed(value)
        if name in _NAMES or (group == "config" and field in _CONFIG_TEXTS):
            return text(value)
        if group == "config" and field in _CONFIG_FLAGS:
            return flag(value)
        if group == "extra":
            try:
                return self._numbers.number(value)
            except Unusable:
                return text(value)
        number = self._numbers.number(value)
        if name in _COUNTS and not number.is_integer() and (number > 1 or name == "config.num_trainers"):
            raise Unusable(value, 'no whole number; round it up, as in `{expression: "ceil(gpus / 8)"}`')
        return int(number) if group == "config" and number.is_integer() else number

    def _listed(self, value: Any) -> list[str]:
        source = self._mapping.candidates
        assert isinstance(source, Source)
        names = value if isinstance(value, list) else _BETWEEN_CANDIDATES.split(text(value).strip("[]"))
        plain = [text(name).strip("'\" ") for name in names]
        return [text(source.values.get(name, name)) for name in plain if name]


def _status(word: str) -> str:
    try:
        return status_of(word)
    except StatusError as error:
        raise Unusable(word, str(error)) from None
