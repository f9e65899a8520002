"""``leap catalog``."""

import json
from pathlib import Path

import pytest

from leap.schemas.hardware import load_catalog
from tests.commands import invoke


def test_list_has_every_type(tmp_path: Path) -> None:
    lines = invoke("catalog", "list").stdout.splitlines()
    assert len(lines) == len(load_catalog())
    assert next(line for line in lines if line.startswith("A100-SXM-40GB ")).split() == [
        *("A100-SXM-40GB", "NVIDIA", "40", "GB", "1.29", "USD/h", "A100,", "A100-40GB"),
    ]
    own = tmp_path / "own.yaml"
    own.write_text("- {name: T4, price_per_hour: 0}")
    entries = json.loads(invoke("catalog", "list", "--json", env={"LEAP_CATALOG": str(own)}).stdout)
    assert {entry["name"]: entry.get("price_per_hour") for entry in entries}["T4"] == 0


def test_show_takes_any_spelling() -> None:
    entry = json.loads(invoke("catalog", "show", "Tesla T4", "--json").stdout)
    assert (entry["name"], entry["memory_gb"]) == ("T4", 16)
    assert "like: GH200-480GB" in invoke("catalog", "show", "GH200-96GB").stdout


@pytest.mark.parametrize(
    ("name", "status", "stdout", "stderr"),
    [
        ("NVIDIA A100-SXM4-80GB", 0, "A100-SXM-80GB\n", ""),
        ("GH200-96GB", 0, "GH200-96GB\n", "not listed; predicted as GH200-480GB, at its price\n"),
        (
            "L400",
            1,
            "",
            "L400: no specification in the catalog; the nearest names are L40, L40S, L4; see `leap catalog list`\n",
        ),
        (
            "mig-1g.5gb",
            1,
            "",
            "mig-1g.5gb: a slice or share of an accelerator, which the catalog does not list; "
            "see `leap catalog list`\n",
        ),
    ],
)
def test_resolve(name: str, status: int, stdout: str, stderr: str) -> None:
    done = invoke("catalog", "resolve", name)
    assert (done.exit_code, done.stdout, done.stderr) == (status, stdout, stderr)


def test_check_says_what_changes(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("- {name: T4, price_per_hour: 0.2}\n- {name: X1, vendor: V}")
    assert invoke("catalog", "check", str(own)).stdout.splitlines() == [
        "added: X1",
        "changed: T4",
        "without a price, so ranked only for jobs that ask for the fastest: X1",
        f"{len(load_catalog()) + 1} hardware types, 1 added, 1 changed, 0 removed",
    ]
    own.write_text("- {name: T4, tdp_w: fast}")
    wrong = invoke("catalog", "check", str(own))
    assert wrong.exit_code == 1
    assert "own.yaml: entry 1 (T4)" in wrong.stderr
