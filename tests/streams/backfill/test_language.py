"""What a mapping can say of a row: patterns, conditions, candidates, shares, JSON in cells, repeated ids."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from leap.schemas.backfill.mapping import MappingError, load_mapping
from leap.schemas.hardware import load_catalog
from leap.streams.backfill.row_mapper import BadRow, RowMapper
from leap.streams.backfill.sender import Table, read_table

ROW = {
    "id": "1", "tres": "cpu=64,gres/gpu:a100=16,gres/gpu=16", "state": "CANCELLED by 123", "GPU Count": "12",
    "could": "a100; H100", "summary": '{"train/rate": 96.4, "sys": {"gpu.0": 7}}',
    "config": "{'model': {'name': 'bert'}}",
    "share": "0.46", "empty": "",
}  # fmt: skip
MAPPING: dict[str, Any] = {
    "attempt_id": "id",
    "job_name": "id",
    "model_type": "id",
    "hardware_type": {"constant": "A100-SXM-80GB"},
    "submitted_at": {"constant": "2026-03-01"},
    "run_seconds": 3600,
    "config": {"num_trainers": 1, "accelerators_per_trainer": 1},
    "measurements": {"throughput": 100},
}


def read(folder: Path, mapping: dict[str, Any], *rows: dict[str, Any]) -> Table:
    (folder / "map.yaml").write_text(yaml.safe_dump({**MAPPING, **mapping}))
    (folder / "jobs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return read_table(folder / "jobs.jsonl", load_mapping(folder / "map.yaml"), load_catalog())


def mapped(folder: Path, mapping: dict[str, Any], row: dict[str, Any]) -> Any:
    (folder / "map.yaml").write_text(yaml.safe_dump({**MAPPING, **mapping}))
    return RowMapper(load_mapping(folder / "map.yaml"), row).job(1, dict(row))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"column": "tres", "pattern": "gres/gpu:([a-z0-9]+)="}, "a100"),
        ({"column": "tres", "pattern": "gres/gpu(?::[a-z0-9]+)?=([0-9]+)"}, 16.0),
        ({"column": "state", "pattern": "^[A-Z]+"}, "CANCELLED"),
        ({"column": "state", "pattern": "by (x)?[0-9]+", "default": "nobody"}, "nobody"),
        ({"column": "tres", "pattern": "h100", "default": 0}, 0.0),
        ({"column": ["absent", "empty", "id"]}, 1.0),
        ({"column": "absent", "optional": True, "default": "none"}, "none"),
        ({"column": "summary.train/rate"}, 96.4),
        ({"column": "summary.sys.gpu.0"}, 7.0),
        ({"column": "config.model.name"}, "bert"),
        ({"column": "id", "values": {"1": "one"}}, "one"),
        ({"expression": "floor(`GPU Count` / 8) + ceil(`summary.train/rate`)"}, 98.0),
    ],
)
def test_sources(tmp_path: Path, source: dict[str, Any], expected: object) -> None:
    submitted, _, _ = mapped(tmp_path, {"extra": {"x": source}}, ROW)
    assert submitted.config.extra == {"x": expected}


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ({"matches": "^CANCELLED"}, True),
        ({"matches": "^CANCELLED", "not": True}, False),
        ({"equals": ["a", "b"], "not": True}, True),
        ({"column": ["absent", "id"], "equals": 1.0}, True),
        ({"column": "empty", "matches": ".", "not": True}, True),
        ({"column": "empty", "missing": True, "not": True}, False),
    ],
)
def test_conditions(tmp_path: Path, condition: dict[str, Any], kept: bool) -> None:
    assert (mapped(tmp_path, {"keep": [{"column": "state", **condition}]}, ROW) is not None) == kept


def test_candidates_from_a_column(tmp_path: Path) -> None:
    source = {"column": "could", "values": {"a100": "A100-SXM-40GB"}}
    for cell, expected in (
        ("a100; H100", ("A100-SXM-40GB", "A100-SXM-80GB", "H100")),
        (["a100", "B200"], ("A100-SXM-40GB", "A100-SXM-80GB", "B200")),
        ("", ("A100-SXM-80GB",)),
    ):
        submitted, _, _ = mapped(tmp_path, {"candidates": source}, {**ROW, "could": cell})
        assert submitted.candidates == expected


def test_a_part_of_an_accelerator(tmp_path: Path) -> None:
    config = {"num_trainers": 1, "accelerators_per_trainer": "share"}
    submitted, allocated, completed = mapped(tmp_path, {"config": config}, ROW)
    assert (submitted.config.accelerators, allocated.accelerators) == (1, 1)
    assert submitted.config.extra == {"accelerator_share": 0.46}
    assert completed.accelerator_hours == pytest.approx(0.46)
    bad = mapped(tmp_path, {"config": config}, {**ROW, "share": "1.5"})
    assert isinstance(bad, BadRow) and "no whole number; round it up" in str(bad)


def test_an_id_that_occurs_again_counts_once(tmp_path: Path) -> None:
    rows = [{"id": 1, "rate": 1}, {"id": 2, "rate": 2}, {"id": 1, "rate": 3}]
    table = read(tmp_path, {"measurements": {"throughput": "rate"}}, *rows)
    assert [(job.attempt_id, done.measurements["throughput"]) for job, _, done in table.jobs] == [
        ("1", 3.0),
        ("2", 2.0),
    ]
    assert "1 rows repeat the id of an attempt: the last row of each counts" in "\n".join(
        table.tally.lines(load_catalog())
    )


def test_local_times_follow_each_other(tmp_path: Path) -> None:
    """The clocks of Los Angeles are set back in the autumn and forward in the spring."""
    mapping = {"submitted_at": "at", "started_at": "start", "finished_at": "end", "time_zone": "America/Los_Angeles"}
    rows = [
        {"id": 1, "at": "2026-11-01T00:40:00", "start": "2026-11-01T01:45:00", "end": "2026-11-01T01:10:00"},
        {"id": 2, "at": "2026-11-01T00:40:00", "start": "2026-11-01T01:05:00", "end": "2026-11-01T01:50:00"},
        {"id": 3, "at": "2026-03-08T01:30:00", "start": "2026-03-08T01:45:00", "end": "2026-03-08T03:15:00"},
        {"id": 4, "at": "2026-03-08T01:30:00", "start": "2026-03-08T02:15:00", "end": "2026-03-08T03:15:00"},
    ]
    (tmp_path / "map.yaml").write_text(yaml.safe_dump({**MAPPING, **mapping, "run_seconds": None}))
    table = RowMapper(load_mapping(tmp_path / "map.yaml"), rows[0])
    *jobs, never = (table.job(row["id"], dict(row)) for row in rows)  # type: ignore[arg-type]
    minutes = [(done.finished_at - done.started_at).total_seconds() / 60 for _, _, done in jobs]  # type: ignore[misc]
    assert minutes == [25, 45, 30]
    assert "row 4: started_at: no clock in America/Los_Angeles showed it" in str(never)


@pytest.mark.parametrize(
    ("mapping", "row", "problem"),
    [
        ({"job_name": "staet"}, ROW, "no column 'staet' (do you mean 'state'?); it has"),
        ({"job_name": {"column": ["a", "b"]}}, ROW, "job_name: the table has none of the columns a, b"),
        ({"job_name": {"column": "id", "pattern": "(a+)+"}}, ROW, "job_name: pattern '(a+)+' repeats a group"),
        ({"keep": [{"column": "id", "matches": "("}]}, ROW, "keep: pattern '('"),
        ({"run_seconds": {"expression": "GPU Count / 2"}}, ROW, "between backticks"),
        ({}, {"id  state": 1}, "are its columns separated otherwise? state `table: {delimiter: ...}`; sacct needs -P"),
        ({"time_zone": "Mars/Base"}, ROW, "time_zone: 'Mars/Base' is unknown; write a name such as Europe/Berlin"),
        ({"table": {"encoding": "ebcdic-x"}}, ROW, "encoding 'ebcdic-x' is unknown"),
        ({"job_name": "summary.a"}, {**ROW, "summary": "{'a': open}"}, "neither JSON nor a Python dictionary"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, mapping: dict[str, Any], row: dict[str, Any], problem: str) -> None:
    try:
        said = str(mapped(tmp_path, mapping, row))
    except MappingError as error:
        said = str(error)
    assert problem in said
