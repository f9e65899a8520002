"""What schedulers and trackers export, through the mappings that come with Leap; and mappings that are guessed."""

import re
from itertools import islice
from pathlib import Path

import pytest

from leap.schemas.backfill.mapping import load_mapping
from leap.schemas.hardware import load_catalog
from leap.streams.backfill import guess as guessing
from leap.streams.backfill.sender import Table, read_table
from tests.commands import invoke
from tests.docs_pages import ROOT

EXPORTS = ROOT / "examples/exports"


def attempts(table: Table) -> list[tuple[object, ...]]:
    """Model, hardware type, shape, status, minutes and throughput of each attempt."""
    return [
        (
            submitted.model_type.removesuffix("-train"),
            allocated.hardware_type[:4],
            (submitted.config.num_trainers, submitted.config.accelerators_per_trainer),
            completed.status,
            round((completed.finished_at - completed.started_at).total_seconds() / 60, 2),
            completed.measurements.get("throughput"),
        )
        for submitted, allocated, completed in table.jobs
    ]


@pytest.mark.parametrize(
    ("file", "mapping", "left_out", "unsuccessful"),
    [
        ("slurm.txt", "slurm", 50, "cancelled"),  # 48 steps, one that runs and one that never started
        ("wandb.csv", "wandb", 0, "failed"),
        ("wandb_api.csv", "wandb", 0, ""),
        ("mlflow.csv", "mlflow", 0, "cancelled"),
        ("mlflow.json", "mlflow", 0, ""),
        ("ray.json", "ray", 1, "cancelled"),
        ("skypilot.jsonl", "skypilot", 2, "failed"),  # one that runs, one without accelerators
        ("kubernetes.json", "kubernetes", 1, "timeout"),
    ],
)
def test_an_export_is_read_by_its_mapping(file: str, mapping: str, left_out: int, unsuccessful: str) -> None:
    table = read_table(EXPORTS / file, load_mapping(mapping), load_catalog())
    found = attempts(table)
    expected = attempts(read_table(EXPORTS / "slurm.txt", load_mapping("slurm"), load_catalog()))
    for attempt, (model, hardware, shape, status, minutes, throughput) in zip(found, expected, strict=False):
        ended = status if status == "succeeded" else unsuccessful
        assert attempt == (model, hardware, shape, ended, minutes, throughput)
    assert (len(found), table.tally.left_out, table.bad) == (24 if unsuccessful else 6, left_out, [])
    families = {submitted.family or submitted.job_name for submitted, _, _ in table.jobs}
    assert len(families) == 3 or mapping == "kubernetes"  # whose names are generated; their families are by rule
    guessed = invoke("mapping", "guess", str(EXPORTS / file))
    assert guessed.stdout.endswith(f"extends: {mapping}\n"), guessed.stderr


def test_a_mapping_that_extends_states_what_differs(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "extends: slurm\ntime_zone: Europe/Berlin\nfinished_at: End\nextra: {state: State}\n"
    )
    mapping, base = load_mapping(tmp_path / "mine.yaml"), load_mapping("slurm")
    assert (mapping.run_seconds, mapping.finished_at, mapping.keep) == (None, "End", base.keep)
    assert (mapping.measurements, mapping.extra) == (base.measurements, {"state": "State"})
    (tmp_path / "again.yaml").write_text("extends: again.yaml")
    for wrong, problem in (("extends: [slurm]", "name one mapping"), ("extends: again.yaml", "extends")):
        (tmp_path / "mine.yaml").write_text(wrong)
        with pytest.raises(ValueError, match=problem):
            load_mapping(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("file", "usable"),
    [
        ("examples/jobs.csv", 1.0),
        ("mlperf-training/runs.csv", 0.95),
        ("megatron-bridge/runs.csv", 1.0),
        ("timm/runs.csv", 1.0),
        ("sia-pollux/profiles.csv", 1.0),
    ],
)
def test_a_guessed_mapping_reads_the_table(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, usable: float
) -> None:
    monkeypatch.setattr(guessing, "shipped", lambda: ())  # by columns alone
    path = tmp_path / "jobs.csv"
    with (ROOT / file if file.startswith("examples") else shared_data / file).open() as whole:
        path.write_text("".join(islice(whole, 2000)))
    (tmp_path / "map.yaml").write_text(guessing.guess(path, load_catalog()))
    table = read_table(path, load_mapping(tmp_path / "map.yaml"), load_catalog())
    assert len(table.jobs) >= usable * table.tally.rows
    assert any(completed.measurements for _, _, completed in table.jobs)
    catalog = load_catalog()
    known = [allocated.hardware_type in catalog for _, allocated, _ in table.jobs]
    assert sum(known) >= 0.95 * len(known)


GERMAN = """Auswertung;;;;
;;;;
Auftrag;Model;Grafikkarte;Beginn;Duration (min);samples/s;Anzahl GPUs;Status
1;bert;NVIDIA A100-SXM4-80GB;20.10.2026 08:00;61,5;4.000,5;8;COMPLETED
2;bert;NVIDIA A100-SXM4-80GB;21.10.2026 08:00;60,0;4.010,25;8;weird
3;resnet;NVIDIA H100 80GB HBM3;22.10.2026 08:00;60,0;11.000,0;12;FAILED
"""


def test_a_guess_says_where_it_is_not_sure(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(GERMAN, encoding="cp1252")
    text = guessing.guess(tmp_path / "jobs.csv", load_catalog())
    comments = dict(re.findall(r"^ *#? ?(\w+):.*?  # (.*)$", text, re.MULTILINE))
    assert comments["table"] == "numbers such as 1.234,5"
    assert comments["attempt_id"].startswith("no column of ids")
    assert comments["status"] == "unknown or not ended: weird; see `keep` and `values`"
    assert comments["time_zone"].startswith("times have no offset")
    assert comments["num_trainers"].startswith("no column of hosts")
    assert "hardware_type: Grafikkarte\n" in text and 'time_format: "%d.%m.%Y %H:%M"' in text
    (tmp_path / "map.yaml").write_text(text)
    table = read_table(tmp_path / "jobs.csv", load_mapping(tmp_path / "map.yaml"), load_catalog())
    assert [bad.row for bad in table.bad] == [2]
    assert [attempt[:4] for attempt in attempts(table)] == [
        ("bert", "A100", (1, 8), "succeeded"),
        ("resnet", "H100", (2, 6), "failed"),
    ]
    assert table.jobs[0][2].measurements == {"throughput": 4000.5}


def test_the_commands_name_what_there_is() -> None:
    assert "gres/gpu" in invoke("mapping", "show", "slurm").stdout
    assert "kubernetes\nmegatron-bridge\n" in invoke("mapping", "show").stdout
    assert "no mapping 'sacct'; there are kubernetes" in invoke("mapping", "show", "sacct").stderr
