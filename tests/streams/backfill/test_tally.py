"""What is told of a table before anything is learned from it, and when a command refuses to go on."""

from pathlib import Path

import pytest
import yaml

from leap.schemas.backfill.mapping import load_mapping
from leap.schemas.hardware import load_catalog
from leap.streams.backfill import tally
from leap.streams.backfill.sender import read_table
from tests.commands import invoke

MAPPING = {
    "attempt_id": "id",
    "job_name": "name",
    "model_type": "model",
    "hardware_type": "gpu",
    "submitted_at": "day",
    "run_seconds": 60,
    "status": "state",
    "config": {"num_trainers": 1, "accelerators_per_trainer": "gpus"},
    "measurements": {"throughput": "rate"},
}
HEAD = "id,name,model,gpu,gpus,day,state,rate\n"
GOOD = [
    f"{n},team/{chr(97 + n)},{('vit', 'bert')[n % 2]},V100-SXM-16GB,4,2026-03-{n + 1:02},OK,{400 + n}"
    for n in range(24)
]  # fmt: skip


def told(folder: Path, *rows: str, command: str = "backfill", options: tuple[str, ...] = ("--dry-run",)) -> str:
    """What a command says of a table; with `refused` where it ends with status 1."""
    (folder / "jobs.csv").write_text(HEAD + "\n".join(rows) + "\n")
    (folder / "map.yaml").write_text(yaml.safe_dump(MAPPING))
    done = invoke(command, str(folder / "jobs.csv"), "--mapping", str(folder / "map.yaml"), *options)
    return done.stderr + "refused" * (done.exit_code == 1)


def test_everything_that_shows_a_wrong_mapping_is_told(tmp_path: Path) -> None:
    rows = [row.replace(",423", ",423000") for row in GOOD]
    rows += [f"x{n},n,bert,V100-SXM-16GB,none,2026-03-01,OK,1" for n in range(5)]
    rows += ["23,again,bert,V100-SXM-16GB,4,2026-03-02,OOMKilled,7", "24,new,bert,Q100,4,2026-04-01,OK,"]
    text = told(tmp_path, *rows)
    for line in (
        "31 rows: 25 attempts, 23 to learn from; 5 bad, 0 left out by `keep`",
        "bad, 5: config.accelerators_per_trainer: not a number; correct it, or map its text under `values`: "
        "row 25 ('none'), 26 ('none'), 27 ('none'), …",
        "finished from 2026-03-01 to 2026-04-01",
        "OK 25 (succeeded), OOMKilled 1 (out_of_memory)",
        "  bert: 100.2, 103.2, 1.058e+05 (12)\n    vit: 100, 103, 105.5 (12)",
        "26 job names in 26 families: nothing repeats",
        "1 rows repeat the id of an attempt",
        "never ranked: hardware type Q100 (1 rows): no specification in the catalog; the nearest names are",
    ):
        assert line in text
    assert "refused" not in text


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([row.replace(",4,", ",,") for row in GOOD[:13]] + GOOD[13:], "13 of 24 rows are bad"),
        ([row.replace("OK", "FAILED") for row in GOOD[:13]] + GOOD[13:], "only 11 of 24 attempts can be learned from"),
        ([row.rpartition(",")[0] + "," for row in GOOD], "only 0 of 24 attempts can be learned from"),
        ([row.replace("V100-SXM", "P101") for row in GOOD], "24 of 24 attempts ran on hardware types that the catalog"),
        ([GOOD[0].replace("OK", "RUNNING")], "1 of 1 rows are bad; none of its 1 rows is an attempt"),
    ],
)
def test_a_table_of_which_most_is_of_no_use_is_refused(tmp_path: Path, rows: list[str], reason: str) -> None:
    for command, options in (("backfill", ("--dry-run",)), ("learn", ()), ("backtest", ()), ("holdout", ())):
        text = told(tmp_path, *rows, command=command, options=options)
        assert reason in text and "--accept" in text and text.endswith("refused")
    assert "refused" not in told(tmp_path, *rows, options=("--dry-run", "--accept"))


def test_names_beyond_the_limit_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MAX_NAMES", 3)
    text = told(tmp_path, *(row.replace("bert", f"bert-{n}").replace("V100", f"P{n}") for n, row in enumerate(GOOD)))
    assert "of 4 model types" in text and f"hardware type {tally.REST} (21 rows)" in text


def test_a_table_that_is_only_counted_is_not_kept(tmp_path: Path) -> None:
    told(tmp_path, *GOOD)
    table = read_table(tmp_path / "jobs.csv", load_mapping(tmp_path / "map.yaml"), load_catalog(), keep=False)
    assert (table.jobs, table.bad, table.tally.attempts) == ([], [], 24)
