"""Definitions of past jobs: from columns, from a second table, from a folder, and what is wrong with them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from leap.predictor.features.architecture import summary
from leap.schemas.backfill.mapping import MappingError, load_mapping
from leap.schemas.hardware import load_catalog
from leap.schemas.launch import ModelDefinition
from leap.streams.backfill.sender import Table, read_table
from tests.builders import MODEL

JOBS = """id,net,gmacs,bits
1,resnet50,4,bf16
2,org/vit,,
3,unknown,-1,
"""
NETS = """net,flops,parameters,fan_in,note
resnet50,8e9,25557032,2,
org/vit,3.5e10,,,an empty cell is unknown
"""
COLUMNS = {"totals": {"flops": {"expression": "gmacs * 2e9"}}, "precision": "bits"}
TABLE = {"table": "nets.csv", "name": "net"}


def read(folder: Path, model: object, *, beside_mapping: bool = True) -> Table:
    (folder / "maps").mkdir()
    (folder / "jobs.csv").write_text(JOBS)
    ((folder / "maps" if beside_mapping else folder) / "nets.csv").write_text(NETS)
    described = (folder / "maps" if beside_mapping else folder) / "described"
    (described / "org").mkdir(parents=True)
    (described / "org" / "vit.json").write_bytes(msgspec.json.encode(MODEL))
    mapping: dict[str, Any] = {
        "attempt_id": "id",
        "job_name": "net",
        "model_type": "net",
        "hardware_type": {"constant": "V100-SXM-16GB"},
        "submitted_at": {"constant": "2026-03-01"},
        "run_seconds": 60,
        "config": {"num_trainers": 1, "accelerators_per_trainer": 1},
        "measurements": {"throughput": 100},
        "model": model,
    }
    (folder / "maps" / "jobs.yaml").write_text(yaml.safe_dump(mapping))
    return read_table(folder / "jobs.csv", load_mapping(folder / "maps" / "jobs.yaml"), load_catalog())


def flops(table: Table) -> dict[str, float | None]:
    """Attempt to the FLOP of its model."""
    return {job.attempt_id: summary(job.model).get("flops") if job.model else None for job, _, _ in table.jobs}


def test_totals_from_columns(tmp_path: Path) -> None:
    table = read(tmp_path, COLUMNS)
    assert flops(table) == {"1": 8e9, "2": None}
    assert table.jobs[0][0].model == msgspec.convert({"totals": {"flops": 8e9}, "precision": "bf16"}, ModelDefinition)
    assert "row 3: model: model: Expected `float` >= 0.0 - at `$.totals.flops`" in str(table.bad[0])


@pytest.mark.parametrize("beside_mapping", [True, False])
def test_a_second_table_and_a_folder(tmp_path: Path, beside_mapping: bool) -> None:
    table = read(tmp_path, [{"folder": "described", "name": "net"}, TABLE], beside_mapping=beside_mapping)
    assert flops(table) == {"1": 8e9, "2": summary(MODEL)["flops"], "3": None}
    joined, described, _ = (job.model for job, _, _ in table.jobs)
    assert joined
    assert summary(joined).keys() == {"flops", "parameters", "fan_in", "flops_per_parameter"}
    assert described
    assert summary(described) == summary(MODEL)
    assert not described.operators, "a definition is sent as its totals"


def test_totals_where_a_second_table_is_not_there(tmp_path: Path) -> None:
    assert flops(read(tmp_path, [{"table": "absent.csv", "name": "net"}, COLUMNS])) == {"1": 8e9, "2": None}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({}, "give totals, or a table, or a folder"),
        ({"totals": {"flop": 1}}, "model: no totals flop; use operators, edges"),
        ({"table": "nets.csv"}, "`name` says what of a job names its model"),
        ({"table": "nets.csv", "name": {"template": "{net}x"}}, "`key` says which column"),
        ({"table": "absent.csv", "name": "net"}, "absent.csv"),
        ({"folder": "nets.csv", "name": "net"}, "nets.csv is not a folder"),
        ({"table": "nets.csv", "name": "nets"}, "model.name: the table has no column 'nets'"),
        ({**TABLE, "key": "name"}, "nets.csv has no column 'name'"),
        ({**TABLE, "totals": {"flops": "note"}}, "nets.csv, row 2: not a number"),
        ({**TABLE, "totals": {"flops": {"column": "flops", "scale": -1}}}, "row 1: model: Expected `float` >= 0.0"),
    ],
)
def test_what_is_wrong_is_said_before_a_row_is_read(tmp_path: Path, model: object, said: str) -> None:
    with pytest.raises(MappingError) as raised:
        read(tmp_path, model)
    assert said in str(raised.value)
