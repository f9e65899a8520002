import csv
import importlib
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leap.predictor.features import job_family as families
from leap.predictor.features.job_family import RULES, family

# Names of things: nothing in them belongs to one run.
THINGS = [
    "resnet-50",
    "k8s-1-36",
    "llama-3-70b",
    "v2",
    "125M-pile.slurm",
    "meg_gpt2_base_n64_dp1_tp4_pp64",
    "periodic-cluster-api-e2e-upgrade-1-29-1-30-release-1-12",
    "windows-2022",
    "gpt-4-0613",
    "mpt-7b-bs256-ctx8k",
    "cloud-tpu-v5p-12288-maxtext",
    "8-nodes-SPR-pytorch",
    "1xBM.GPU.GB200.4",
    "user-embedding-1024",
    "tinybox_8xMI300X",
    "recsys.ranker.train",
    "imagenet-2012/vit_b_16_224",
    "모델-3b",
    "SYS-420GP-TNAR+",
]

NUMBER_AT_AN_END = re.compile(r"^[0-9]+\b|\b[0-9]+$")

# What one run adds, in the spelling of some launcher.
IDENTIFIERS = [
    "20260114",
    "2026-01-14",
    "2026_01_14_10_22_33",
    "2026-01-14T10:22:33.123456+00:00",
    "20260114t102233z",
    "1768386153",
    "1768386153123",
    "0b72aca0-102e-4421-8ff3-2902d8353ff0",
    "e9746973ac574c6b8a9e8857f56a7608",
    "9f3c2ab",
    "3f786850e387550fdab836ed7e6dc881de23001b",
    "7d9f8b6c5-x2x4q",
    "attempt-2",
    "retry1",
    "run_0003",
    "Run3",
    "trial7",
    "seed=42",
    "result_4",
    "user=bob",
    "10.12.0.7",
    "10.12.0.7:29500",
    "ip-10-0-3-17.us-west-2.compute.internal",
    "aa:bb:cc:dd:ee:0f",
    "application_1485248649253_0147",
    "container_e17_1410901177871_0001_01_000005",
    "req-0013db4a-a7f2-4013-a135-314a1fbb97e8",
    "R00-M0-N0-C:J10-U01",
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [pytest.param(*example, id=f"{rule.kind}: {example[0]}") for rule in RULES for example in rule.examples.items()],
)
def test_each_rule_does_what_its_examples_say(name: str, expected: str) -> None:
    assert family(name) == expected


@pytest.mark.parametrize("thing", THINGS)
def test_names_of_things_are_kept(thing: str) -> None:
    assert family(thing) == thing


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_an_identifier_is_taken_out_wherever_it_stands(identifier: str) -> None:
    for separator in "-_/.":
        for thing in THINGS:
            if separator == "." and NUMBER_AT_AN_END.search(thing):
                continue  # windows-2022.10.12.0.7, result_4.8-nodes: nobody can tell
            assert family(thing + separator + identifier) == thing
            assert family(identifier + separator + thing) == thing
            assert family(f"sweep{separator}{identifier}{separator}{thing}") == f"sweep{separator}{thing}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ads_ctr_ranker.alice.run3", "ads_ctr_ranker"),
        ("train_dlrm_v2_20260114.alice.run3_attempt2", "train_dlrm_v2"),
        ("ads_ctr_ranker.eval.run3", "ads_ctr_ranker.eval"),  # a stage of the job, not a person
        ("team.resnet.run3", "team.resnet"),  # a namespace and a job
        ("exp20260114_resnet", "exp_resnet"),
        ("image-v20260114", "image-v20260114"),
        ("train (2026-01-14)", "train"),
        ("2026-run3-01-14_bert", "bert"),  # taking one out completes another
        ("模型20260114_基线", "模型_基线"),
        ("--bert--", "bert"),
    ],
)
def test_combinations(name: str, expected: str) -> None:
    assert family(name) == expected


@pytest.mark.parametrize(
    "name", ["", "-", "20260114", "run-3", "/0b72aca0-102e-4421-8ff3-2902d8353ff0/", "()", "\ud800"]
)
def test_a_name_without_anything_else_is_its_own_family(name: str) -> None:
    assert family(name) == name


pieces = st.sampled_from(
    [*IDENTIFIERS, *THINGS, *"-_/. :#=()T", "2026", "01", "14", "10", "run", ".bob", "a1", "é", "٣"]
)


@settings(deadline=None)
@given(st.one_of(st.text(), st.text("0123456789abcdefrunT-_.:/=# "), st.lists(pieces).map("".join)))
@example("2026-" * 9 + "01-14" + "-01-14" * 9)
def test_idempotent_and_never_empty(name: str) -> None:
    once = family(name)
    assert family(once) == once
    assert bool(once) == bool(name)


def test_too_deeply_nested_to_be_a_name() -> None:
    nested = "v2" + "(" * 99 + ")" * 99
    assert family("v2" + "(" * 5 + ")" * 5) == "v2"
    assert family(nested) == nested


def test_every_unbounded_repeat_reads_one_kind_of_character_and_never_gives_back() -> None:
    """What makes a pass linear: nothing to backtrack into, and only within a word or a row of separators."""
    parser: Any = importlib.import_module("re._parser")
    repeats = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
    unbounded = []

    def walk(node: Any) -> None:
        if isinstance(node, tuple) and str(node[0]) in repeats and node[1][1] is parser.MAXREPEAT:
            unbounded.append((str(node[0]), [str(part[0]) for part in node[1][2]]))
        if isinstance(node, (list, tuple, parser.SubPattern)):
            for part in node:
                walk(part)

    walk(parser.parse(families._RUN_SPECIFIC.pattern))
    assert unbounded
    assert {tuple(kinds) for _, kinds in unbounded} == {("IN",)}
    assert {kind for kind, _ in unbounded} == {"POSSESSIVE_REPEAT"}


@pytest.mark.parametrize("unit", ["-", "1", "a1", "run1-", "1.", "-1", "2026-01-", "12345678-1234-", "_a.b"])
def test_hostile_names_far_beyond_the_limit(unit: str) -> None:
    """At 200,000 characters anything quadratic would run into the suite's time limit."""
    name = (unit * 200_000)[:200_000]
    once = family(name)
    assert family(once) == once


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_mlperf_names_are_grouped_exactly_as_their_families(shared_data: Path) -> None:
    ours, theirs = defaultdict(set), defaultdict(set)
    names = rows(shared_data / "job-names" / "mlperf_run_names.csv")
    for row in names:
        ours[family(row["name"])].add(row["family"])
        theirs[row["family"]].add(family(row["name"]))
    assert len(names) == 19_647
    assert {key: found for key, found in ours.items() if len(found) > 1} == {}
    assert {key: found for key, found in theirs.items() if len(found) > 1} == {}


def test_recurring_names_are_not_altered(shared_data: Path) -> None:
    names = [row["name"] for row in rows(shared_data / "job-names" / "ci_and_slurm_job_names.csv")]
    assert len(names) == 3_624
    assert [name for name in names if family(name) != name] == []


@pytest.mark.parametrize("separator", "-_/.")
def test_logged_identifiers_are_stripped(shared_data: Path, separator: str) -> None:
    identifiers = {row["identifier"] for row in rows(shared_data / "job-names" / "loghub_identifiers.csv")}
    assert len(identifiers) == 5_060
    for thing in ("train-ranker", "resnet-50", "llama_3_70b", "8-nodes-SPR"):
        for identifier in identifiers:
            assert family(f"{thing}{separator}{identifier}") == thing
            assert family(f"{identifier}{separator}{thing}") == thing
            assert family(f"a{separator}{identifier}{separator}{thing}") == f"a{separator}{thing}"
