"""The mapping file of a backfill: maps the columns of a table of past jobs to the fields of events.

A field is a column name, a literal number, or a :class:`~leap.schemas.backfill.source.Source`::

    keep:
      - {column: status, equals: success}
    attempt_id: {template: "{round}/{job_name}"}
    job_name: job_name
    model_type: model_type
    hardware_type: hardware_type
    submitted_at: start_time
    run_seconds: run_seconds
    config:
      num_trainers: {column: num_nodes, default: 1}
      accelerators_per_trainer: {expression: "max(gpus_per_node, 1)"}
      batch_size: {expression: "batch_size / num_nodes"}
    measurements:
      throughput: throughput
"""

from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from leap.schemas.backfill.mapping_files import FOLDER, MAX_BYTES, MappingError, read_mapping, shipped
from leap.schemas.backfill.model_source import ModelSource
from leap.schemas.backfill.source import MISSING, ROW_NUMBER, Condition, Field, Source, TableFormat
from leap.schemas.events import MAX_CANDIDATES, MAX_TARGETS, SUCCEEDED
from leap.schemas.launch import MAX_EXTRA, LaunchConfig, Name
from leap.schemas.names.slips import meant, with_meant
from leap.schemas.safe_yaml import YamlError, read_yaml

__all__ = ["FOLDER", "ROW_NUMBER", "Condition", "Field", "Mapping", "MappingError", "Source", "TableFormat",
           "load_mapping", "shipped"]  # fmt: skip

_CONFIG_FIELDS = frozenset(LaunchConfig.__struct_fields__) - {"extra", "unknown"}

#: Fields that have a source of their own.
SINGLE = ("attempt_id", "job_name", "family", "model_type", "hardware_type", "status", "submitted_at", "started_at",
          "finished_at", "run_seconds")  # fmt: skip


class Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Mapping of a table.

    Attributes
    ----------
    keep
        Conditions that a row must meet; other rows are skipped without an error.
    missing
        Texts that mean "no value".
    derived
        Helper columns, computed in order; each may use the previous ones.
    family
        Family of the job; derived from `job_name` unless given.
    family_patterns
        Regular expressions of what is taken out of `job_name` before that, or the YAML file that lists them, by its
        path from the mapping's folder.
    submitted_at, started_at, finished_at, run_seconds
        Times; `started_at` defaults to `submitted_at`. Exactly one of the last two is given. `run_seconds` is a number,
        or a text such as ``1-02:03:04`` and ``1h 3m``.
    time_format
        ``iso`` (or a number since 1970 whose size tells its unit), ``seconds`` or ``milliseconds`` since 1970, or a
        `strptime` format such as ``%d/%m/%Y %H:%M``.
    time_zone
        Zone of times without an offset, such as ``Europe/Berlin``; UTC unless given. Of a local time that came twice,
        when the clock was set back, the first is taken, or the second where the first is before what it follows.
    config, extra
        Fields of :class:`leap.schemas.launch.LaunchConfig`, and additional ones. `batch_size` is per trainer.
    measurements
        Prediction target to its source; ``throughput`` is in samples/s.
    model
        Where what is known of the model is; of several sources the first that has a row's model.
    candidates
        Hardware types that attempts could have used, besides the one that they ran on; or the source of a list of them,
        separated by ``,``, ``;`` or ``|``.
    table
        How the file is read, where it does not say so itself.
    """

    attempt_id: Field
    job_name: Field
    model_type: Field
    hardware_type: Field
    submitted_at: Field
    config: dict[str, Field]
    measurements: Annotated[dict[Name, Field], Meta(min_length=1, max_length=MAX_TARGETS)]
    started_at: Field | None = None
    finished_at: Field | None = None
    run_seconds: Field | None = None
    status: Field = Source(constant=SUCCEEDED)
    family: Field | None = None
    family_patterns: tuple[str, ...] | str = ()
    extra: Annotated[dict[Name, Field], Meta(max_length=MAX_EXTRA)] = {}
    model: ModelSource | tuple[ModelSource, ...] = ()
    candidates: Annotated[tuple[Name, ...], Meta(max_length=MAX_CANDIDATES - 1)] | Source = ()
    keep: tuple[Condition, ...] = ()
    missing: tuple[str, ...] = MISSING
    derived: dict[str, Field] = {}
    time_format: Literal["iso", "seconds", "milliseconds"] | str = "iso"
    time_zone: str | None = None
    table: TableFormat = TableFormat()
    description: str = ""

    def __post_init__(self) -> None:
        if (self.finished_at is None) == (self.run_seconds is None):
            raise ValueError("give exactly one of finished_at, run_seconds")
        for name in ("num_trainers", "accelerators_per_trainer"):
            if name not in self.config:
                raise ValueError(f"config needs {name}: a column, or a number if all jobs have the same")
        if unknown := self.config.keys() - _CONFIG_FIELDS:
            close = [f"; is `{other}` meant?" for name in sorted(unknown) if (other := meant(name, _CONFIG_FIELDS))]
            raise ValueError(
                f"config has no {', '.join(sorted(unknown))}{''.join(close[:1])}; move it under `extra`, "
                f"or use one of {', '.join(sorted(_CONFIG_FIELDS))}"
            )
        if self.time_zone is not None:
            try:
                ZoneInfo(self.time_zone)
            except (OSError, ValueError, LookupError):
                raise ValueError(
                    f"time_zone: {self.time_zone!r} is unknown; write a name such as Europe/Berlin, or install tzdata"
                ) from None

    @property
    def fields(self) -> dict[str, Field]:
        """All fields that read the table, by their names, helper columns first."""
        groups = {
            "derived": self.derived,
            "config": self.config,
            "extra": self.extra,
            "measurements": self.measurements,
        }
        named = {f"{group}.{name}": field for group, fields in groups.items() for name, field in fields.items()}
        single = {name: getattr(self, name) for name in SINGLE if getattr(self, name) is not None}
        if isinstance(self.candidates, Source):
            single["candidates"] = self.candidates
        return {**named, **single}

    @property
    def columns(self) -> frozenset[str]:
        """Columns without which the table cannot be read."""
        wanted = {test.column for test in self.keep if isinstance(test.column, str)}
        for field in self.fields.values():
            if isinstance(field, str):
                wanted.add(field)
            elif isinstance(field, Source) and not field.optional and not isinstance(field.column, tuple):
                wanted.update(field.columns)
        return frozenset(wanted - self.derived.keys() - {ROW_NUMBER})


def load_mapping(name: str | Path) -> Mapping:
    """Read a mapping file, or a built-in one by name (``slurm``, ``mlperf``).

    Raises
    ------
    MappingError
        If it cannot be read or is not valid.

    Examples
    --------
    >>> load_mapping("mlperf").measurements
    {'throughput': 'throughput'}
    """
    path, content = read_mapping(name)
    try:
        mapping = msgspec.convert(content, Mapping, strict=False)  # YAML reads 1e6 as a text
        if isinstance(mapping.family_patterns, str):
            listed = read_yaml(path.parent / mapping.family_patterns, MAX_BYTES)
            mapping = msgspec.structs.replace(mapping, family_patterns=msgspec.convert(listed, tuple[str, ...]))
        sources = mapping.model if isinstance(mapping.model, tuple) else (mapping.model,)
        return msgspec.structs.replace(mapping, model=tuple(source.found_in(path.parent) for source in sources))
    except OSError as error:
        raise MappingError(f"{error.filename or path}: {error.strerror}") from error
    except YamlError as error:
        raise MappingError(f"{path}: {error}; is it a mapping?") from error
    except msgspec.ValidationError as error:
        raise MappingError(f"{path}: {with_meant(error, Mapping, Source, Condition)}") from error
