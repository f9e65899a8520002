"""A first mapping for a table, from the names and contents of its columns; a comment says where it is not sure."""

import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

from leap.predictor.features.job_family import family
from leap.schemas.backfill.mapping import Mapping, MappingError, load_mapping, shipped
from leap.schemas.backfill.source import MISSING
from leap.schemas.hardware import Catalog
from leap.streams.backfill.cell_values import Numbers, text
from leap.streams.backfill.column_roles import NAMES, column_of, plain, time_format, unknown_statuses
from leap.streams.backfill.row_events import Job
from leap.streams.backfill.row_mapper import BadRow, RowMapper
from leap.streams.tables.table import Row
from leap.streams.tables.table_reader import open_table

#: Rows that are looked at.
SAMPLE = 500
#: Share of names that differ from which on they say nothing of what repeats.
MOSTLY_NEW = 0.7
#: Share of rows, of those that are kept, which a mapping that comes with Leap must read to be taken.
ENOUGH = 0.8
_SCALES = {"ms": 0.001, "millis": 0.001, "minutes": 60, "mins": 60, "min": 60, "hours": 3600, "hrs": 3600, "h": 3600}
_COMMA = re.compile(r"-?(\d+|\d{1,3}(\.\d{3})+),\d+", re.ASCII)
_POINT = re.compile(r"-?\d+\.(\d{1,2}|\d{4,})", re.ASCII)
_NUMBER = re.compile(r"[0-9., ]+")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./]*")
_YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def guess(path: Path, catalog: Catalog) -> str:
    """Write a mapping, as YAML: one that comes with Leap if it reads the table, else by columns.

    Raises
    ------
    leap.streams.tables.table.TableError
        If it is not a table.
    """
    for name in shipped():
        if _reads(path, load_mapping(name)):
            return f"# As `leap mapping show {name}` expects it; state below what differs.\nextends: {name}\n"
    opened = open_table(path)
    rows = list(islice(opened.rows(), SAMPLE))
    return _Guess(opened.columns, rows, catalog).written()


def _reads(path: Path, mapping: Mapping) -> bool:
    opened = open_table(path, mapping.table, mapping.columns)
    try:
        mapper = RowMapper(mapping, opened.columns, path.parent)
    except MappingError:
        return False
    made = [mapper.job(number, dict(row)) for number, row in enumerate(islice(opened.rows(), SAMPLE), 1)]
    kept = [one for one in made if one is not None]
    jobs: list[Job] = [one for one in kept if not isinstance(one, BadRow)]
    return bool(jobs) and len(jobs) >= ENOUGH * len(kept)


class _Guess:
    """The columns of a table, each taken once."""

    def __init__(self, columns: tuple[str, ...], rows: list[Row], catalog: Catalog) -> None:
        self._values = {name: [cell for row in rows if not _absent(cell := row.get(name))] for name in columns}
        self._sample, self._rows, self._free, self._catalog = rows, len(rows), dict(self._values), catalog
        texts = [cell.strip() for values in self._values.values() for cell in values if isinstance(cell, str)]
        comma = any(map(_COMMA.fullmatch, texts)) and not any(map(_POINT.fullmatch, texts))
        self._numbers = Numbers("," if comma else None)
        self._took = {role: self._take(role) for role in NAMES if role != "started_at"}
        started = column_of("started_at", self._free, self._numbers, catalog)
        self._took["started_at"] = started if started != self._took["submitted_at"] else None

    def written(self) -> str:
        """The mapping as YAML."""
        lines = ["# Guessed from names and contents of columns: check each line, above all those with a comment."]
        if self._numbers.decimal:
            lines.append('table: {decimal: ","}  # numbers such as 1.234,5')
        return "\n".join([*lines, *self._identity(), *self._times(), *self._config(), *self._measured(), ""])

    def _take(self, role: str) -> str | None:
        name = column_of(role, self._free, self._numbers, self._catalog)
        if name is not None:
            self._free.pop(name)
        return name

    def _identity(self) -> list[str]:
        took, lines = self._took, []
        attempt = took["attempt_id"]
        names = None if attempt is None else [text(value) for value in self._values[attempt]]
        if attempt is None or names is None or len(set(names)) < self._rows:
            why = "no column of ids" if attempt is None else f"{attempt} occurs again"
            lines.append(f'attempt_id: {{template: "{{row_number}}"}}  # {why}: rows are numbered')
        else:
            lines.append(f"attempt_id: {_quoted(attempt)}")
        model = took["model_type"] or took["job_name"]
        job = took["job_name"] or model
        lines.append(_field("job_name", job, "no column of names"))
        lines += self._family(job, took["model_type"])
        lines.append(_field("model_type", model, "no column of models", "" if took["model_type"] else "its job's name"))
        lines.append(
            _field("hardware_type", took["hardware_type"], "no column of hardware types: name it, or what all ran on")
        )
        if (hardware := took["hardware_type"]) is not None:
            strange = dict.fromkeys(
                text(cell) for cell in self._values[hardware] if self._catalog.resolve(text(cell)) is None
            )
            if strange:
                lines[-1] += f"  # not in the catalog: {', '.join(list(strange)[:5])}; say under `values` what they are"
        if took["status"] is not None:
            unknown = unknown_statuses(self._values[took["status"]])
            why = f"  # unknown or not ended: {', '.join(unknown[:5])}; see `keep` and `values`" if unknown else ""
            lines.append(f"status: {_quoted(took['status'])}{why}")
        else:
            lines.append("# status: all rows are taken for succeeded, for no column says how an attempt ended")
        return lines

    def _family(self, job: str | None, model: str | None) -> list[str]:
        names = [text(value) for value in self._values[job]] if job else []
        if job == model or model is None or len({family(name) for name in names}) < MOSTLY_NEW * len(names):
            return []
        return [f"family: {_quoted(model)}  # nearly every {job} is another: say what repeats"]

    def _times(self) -> list[str]:
        took = self._took
        submitted = took["submitted_at"]
        if submitted is None:
            placed = 'derived: {placed: {expression: "1672531200 + 60 * row_number"}}'
            lines = [
                f"{placed}  # no times: rows are placed a minute apart",
                "submitted_at: placed",
                "time_format: seconds",
            ]
            return [*lines, self._duration()]
        form = time_format(self._values[submitted]) or "iso"
        lines = [f"submitted_at: {_quoted(submitted)}"]
        if took["started_at"]:
            lines.append(f"started_at: {_quoted(took['started_at'])}")
        if form != "iso":
            lines.append(f"time_format: {json.dumps(form)}" + ("  # or the month first?" if "%d/%m" in form else ""))
        shown = next(iter(self._values[submitted]), "")
        if not re.search(r"(Z|UTC|GMT|[+-]\d\d:?\d\d)$", text(shown)) and re.search("[:.]", text(shown)):
            lines.append("# time_zone: Europe/Berlin  # times have no offset and are taken for UTC; state yours")
        return [*lines, self._duration()]

    def _duration(self) -> str:
        took, name = self._took, self._took["run_seconds"]
        if name is None:
            finished = took["finished_at"] if took["submitted_at"] else None
            return _field("finished_at", finished, "") if finished else "run_seconds: 60  # no column of durations"
        unit = plain(name).rsplit("_", 1)[-1]
        if any(isinstance(cell, str) and not _NUMBER.fullmatch(cell.strip()) for cell in self._values[name]):
            return f"run_seconds: {_quoted(name)}"
        if unit in _SCALES:
            return f"run_seconds: {{column: {_quoted(name)}, scale: {_SCALES[unit]}}}"
        sure = unit in ("seconds", "s", "sec")
        return f"run_seconds: {_quoted(name)}" + ("" if sure else "  # taken for seconds; minutes need `scale: 60`")

    def _config(self) -> list[str]:
        took = self._took
        nodes, per_node, gpus = took["nodes"], took["per_node"], took["gpus"]
        hosts = _in_expression(nodes) if nodes else "1"
        lines = ["config:"]
        if gpus and nodes and not per_node and not self._divides(gpus, nodes):
            why = "uneven over hosts: each accelerator counts as a trainer"
            lines += [f"  num_trainers: {_quoted(gpus)}  # {why}", "  accelerators_per_trainer: 1"]
            hosts = _in_expression(gpus)
        elif per_node:
            lines.append(_field("  num_trainers", nodes, "", literal=1))
            if nodes and len(self._values[nodes]) < self._rows:
                lines[-1] = f"  num_trainers: {{column: {_quoted(nodes)}, default: 1}}  # missing in some rows"
            if nodes is None and gpus:
                lines[-1] = f'  num_trainers: {{expression: "{_in_expression(gpus)} / {_in_expression(per_node)}"}}'
                hosts = f"({_in_expression(gpus)} / {_in_expression(per_node)})"
            lines.append(f'  accelerators_per_trainer: {{expression: "max({_in_expression(per_node)}, 1)"}}')
        elif gpus and nodes:
            lines += [f"  num_trainers: {_quoted(nodes)}"]
            lines += [f'  accelerators_per_trainer: {{expression: "{_in_expression(gpus)} / {hosts}"}}']
        elif gpus:
            hosts = f"ceil({_in_expression(gpus)} / 8)"
            lines += [f'  num_trainers: {{expression: "{hosts}"}}  # no column of hosts: taken for hosts of 8']
            lines += [f'  accelerators_per_trainer: {{expression: "{_in_expression(gpus)} / {hosts}"}}']
        else:
            lines.append(_field("  num_trainers", nodes, "no column of hosts", literal=1))
            lines.append("  accelerators_per_trainer: 1  # no column of accelerators")
        return [*lines, *self._batch(hosts), *self._others()]

    def _divides(self, gpus: str, nodes: str) -> bool:
        cells = [(row.get(gpus), row.get(nodes)) for row in self._sample]
        pairs = [tuple(map(self._numbers.number, pair)) for pair in cells if not any(map(_absent, pair))]
        return all(count % hosts == 0 or 0 < count < 1 for count, hosts in pairs if hosts)

    def _batch(self, hosts: str) -> list[str]:
        batch, per_device = self._took["batch"], self._took["per_device_batch"]
        gpus = self._took["gpus"] or self._took["per_node"]
        if per_device and gpus:
            each = "" if gpus == self._took["per_node"] else f" / {hosts}"
            whole = _in_expression(per_device)
            if _in_expression(gpus) != hosts:
                whole += f" * {_in_expression(gpus)}{each}"
            return [f'  batch_size: {{expression: "{whole}"}}']
        if batch is None:
            return []
        if hosts == "1":
            return [f"  batch_size: {_quoted(batch)}"]
        return [
            f'  batch_size: {{expression: "{_in_expression(batch)} / {hosts}"}}  # taken for the batch over all hosts'
        ]

    def _others(self) -> list[str]:
        roles = list(NAMES)
        optional = roles[roles.index("precision") :]
        return [f"  {role}: {_quoted(name)}" for role in optional if (name := self._took[role]) is not None]

    def _measured(self) -> list[str]:
        throughput, step, batch = self._took["throughput"], self._took["step_time"], self._took["batch"]
        if throughput is not None:
            return ["measurements:", f"  throughput: {_quoted(throughput)}  # samples/s of the whole job"]
        if step is not None and batch is not None:
            factor = "1000 * " if plain(step).endswith("ms") else ""
            what = f'{{expression: "{factor}{_in_expression(batch)} / {_in_expression(step)}"}}'
            return ["measurements:", f"  throughput: {what}  # samples/s, from the time of a step"]
        missing = "no column of samples/s: without it nothing is learned"
        return ["measurements:", f"  throughput: {{column: throughput, optional: true}}  # {missing}; name it"]


def _absent(cell: Any) -> bool:
    return cell is None or cell != cell or (isinstance(cell, str) and cell.strip() in MISSING)


def _field(role: str, name: str | None, missing: str, taken_for: str = "", literal: object = None) -> str:
    if name is None:
        value = literal if literal is not None else "{constant: unknown}"
        return f"{role}: {value}" + (f"  # {missing}" if missing else "")
    return f"{role}: {_quoted(name)}" + (f"  # taken for {taken_for}" if taken_for else "")


def _quoted(name: str) -> str:
    plain_name = _PLAIN_NAME.fullmatch(name) and name.lower() not in _YAML_WORDS
    return name if plain_name else json.dumps(name, ensure_ascii=False)


def _in_expression(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else f"`{name}`"
