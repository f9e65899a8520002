"""Candidates are ranked as what they mean, and answered as the launcher wrote them."""

from pathlib import Path

import msgspec
import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing.explain import explain
from leap.predictor.routing.router import Router
from leap.predictor.routing.schedulers import hardware_types
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.night.pipeline import Night
from leap.retrainer.night.plan import Plan
from leap.schemas.codec import decode, encode
from leap.schemas.events import JobAttempt, JobSubmitted, PreferenceList, RankedCandidate
from leap.schemas.hardware import Catalog, load_catalog
from tests.artifacts import NIGHT, past
from tests.builders import MODEL, submission

#: What the builders' types are called here, as launchers wrote them on the first and on later days.
SPELLED = {
    "basic": ("Tesla T4", "nvidia-tesla-t4"),
    "fast": ("A100-80GB", "NVIDIA A100-SXM4-80GB"),
    "newest": ("NVIDIA GH200 480GB", "gh200_480gb"),
}


def spelled(attempt: JobAttempt, number: int) -> JobAttempt:
    name = SPELLED[attempt.completed.hardware_type][number % 2]
    return msgspec.structs.replace(attempt, completed=msgspec.structs.replace(attempt.completed, hardware_type=name))


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Router:
    """A night over attempts whose hardware types are spelled in several ways."""
    root, catalog = tmp_path_factory.mktemp("spelled"), load_catalog()
    partitions, store = Partitions(root / "partitions", catalog), LocalStore(root / "artifacts")
    partitions.ingest(spelled(attempt, number) for number, attempt in enumerate(past()))
    Night(partitions, store, catalog).run(Plan(night=NIGHT, recipes=("boosted",)))
    made = Router(store, deadline=60.0)
    assert made.refresh()
    return made


def job(*candidates: str, pinned: str | None = None) -> JobSubmitted:
    return submission(
        "new", job_name="team/job-3x", model_type="model-3", model=MODEL, candidates=candidates, pinned=pinned
    )


def hardware_outside(candidate: RankedCandidate) -> list[str]:
    """What of its hardware is outside training; attempts of the builders have no architecture."""
    return [name for name in candidate.outside if name.startswith("hardware")]


def ranked(answer: PreferenceList) -> dict[str, float]:
    return {one.hardware_type: one.throughput for one in answer.ranked}


def test_every_spelling_has_the_history_of_its_type(router: Router) -> None:
    names = ("T4", "nvidia-tesla-t4", "A100-SXM-80GB", "a100_80gb")
    answer = router.rank(job(*names))
    found = ranked(answer)
    assert found.keys() == set(names)
    assert found["T4"] == found["nvidia-tesla-t4"] < found["A100-SXM-80GB"] == found["a100_80gb"]
    assert answer.candidates == names
    assert all(one.basis == "family history" and not hardware_outside(one) for one in answer.ranked)
    assert set(hardware_types(answer)) == set(names)


def test_pinned_is_a_candidate_in_any_spelling(router: Router) -> None:
    answer = router.rank(job("a100_80gb", "T4", pinned="NVIDIA A100-SXM4-80GB"))
    assert answer.pinned == "NVIDIA A100-SXM4-80GB"
    assert not answer.excluded


def test_slice_and_ambiguous_name_are_excluded_with_the_reason(router: Router) -> None:
    answer = router.rank(job("T4", "A100-SXM4-80GB-MIG-3g.40gb", "A100 PCIe", "L400"))
    assert [one.reason for one in answer.excluded] == [
        "a slice or share of an accelerator, which the catalog does not list",
        "may be any of A100-PCIe-40GB, A100-PCIe-80GB of the catalog; say which",
        "no specification in the catalog; the nearest names are L40, L40S, L4",
    ]


def test_sibling_is_ranked_as_what_is_listed_and_says_so(router: Router) -> None:
    answer = router.rank(job("GH200-96GB", "GH200-480GB"))
    as_written = {one.hardware_type: one for one in answer.ranked}
    assert hardware_outside(as_written["GH200-96GB"]) == ["hardware type (as GH200-480GB)"]
    assert hardware_outside(as_written["GH200-480GB"]) == []
    assert as_written["GH200-96GB"].throughput == as_written["GH200-480GB"].throughput
    assert "hardware type (as GH200-480GB)" in explain(answer, job(), load_catalog())


def test_sibling_holds_what_its_own_memory_holds(router: Router) -> None:
    # fp32: 8 bytes for each of 120e9 parameters over 16 accelerators need 60 GB of each.
    model = msgspec.structs.replace(
        MODEL, operators=(msgspec.structs.replace(MODEL.operators[1], parameters=120_000_000_000),), edges=()
    )
    large = msgspec.structs.replace(job("A100-SXM-48GB", "A100-SXM-80GB"), model=model)
    large = msgspec.structs.replace(large, config=msgspec.structs.replace(large.config, precision="fp32"))
    answer = router.rank(large)
    assert [(one.hardware_type, one.reason) for one in answer.excluded] == [
        ("A100-SXM-48GB", "memory cannot hold the job")
    ]


def test_type_that_ran_is_learned_with_its_siblings_figures(tmp_path: Path) -> None:
    def renamed(attempt: JobAttempt) -> JobAttempt:
        name = {"basic": "T4", "fast": "A100-SXM-80GB", "newest": "NVIDIA A100-SXM-64GB"}[
            attempt.completed.hardware_type
        ]
        completed = msgspec.structs.replace(attempt.completed, hardware_type=name)
        return msgspec.structs.replace(attempt, completed=completed)

    catalog = load_catalog()
    partitions, store = Partitions(tmp_path / "partitions", catalog), LocalStore(tmp_path / "artifacts")
    partitions.ingest(map(renamed, past()))
    Night(partitions, store, catalog).run(Plan(night=NIGHT, recipes=("boosted",)))
    made = Router(store, deadline=60.0)
    assert made.refresh()
    [custom, listed] = made.rank(job("A100-SXM4-64GB", "A100-SXM-80GB")).ranked
    assert (custom.hardware_type, listed.hardware_type) == ("A100-SXM4-64GB", "A100-SXM-80GB")
    assert custom.throughput > 1.3 * listed.throughput, "its own history, not its sibling's"
    assert hardware_outside(custom) == ["hardware type (as A100-SXM-80GB)"]


def test_without_a_price_the_fastest_are_ranked_without_a_cost(tmp_path: Path) -> None:
    entries = [msgspec.structs.replace(entry, price_per_hour=None) for entry in load_catalog().values()]
    catalog = Catalog(entries)
    partitions, store = Partitions(tmp_path / "partitions", catalog), LocalStore(tmp_path / "artifacts")
    partitions.ingest(spelled(attempt, number) for number, attempt in enumerate(past()))
    Night(partitions, store, catalog).run(Plan(night=NIGHT, recipes=("boosted",)))
    made = Router(store, deadline=60.0)
    assert made.refresh()
    asked = job("T4", "A100-80GB")
    by_cost = made.rank(asked)
    assert {one.reason for one in by_cost.excluded} == {"no price in the catalog"}
    fastest = made.rank(msgspec.structs.replace(asked, objective="fastest"))
    assert [one.hardware_type for one in fastest.ranked] == ["A100-80GB", "T4"]
    assert [(one.cost_per_hour, one.throughput_per_cost) for one in fastest.ranked] == [(None, None)] * 2
    assert decode(encode(fastest), PreferenceList) == fastest
    assert "cost unknown: it has no price" in explain(fastest, asked, catalog)
