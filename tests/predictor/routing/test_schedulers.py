"""What other schedulers are given. The shapes were read by kubernetes 37.0.2 (V1Affinity), validated by Ray
2.60.0 (options of tasks and actors) and by the JSON Schema of SkyPilot 0.14.1 (resources, task).
"""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.routing import schedulers as outputs
from leap.schemas.events import PreferenceList, RankedCandidate


def answer(scores: dict[str, float], pinned: str | None = None, shadow: bool = False) -> PreferenceList:
    ranked = tuple(
        RankedCandidate(
            hardware_type=name,
            throughput=score,
            cost_per_hour=1.0,
            throughput_per_cost=score,
            score=score,
            basis="similar jobs",
        )
        for name, score in sorted(scores.items(), key=lambda item: -item[1])
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return PreferenceList(attempt_id="a", ranked=ranked, pinned=pinned, shadow=shadow, decided_at=now)


THREE = answer({"A100-SXM-80GB": 8.0, "H100-SXM-80GB": 10.0, "T4": 0.01})
NAMES = {"A100-SXM-80GB": "A100-80GB", "H100-SXM-80GB": "H100"}


def test_an_ordered_list() -> None:
    assert outputs.hardware_types(THREE) == ["H100-SXM-80GB", "A100-SXM-80GB", "T4"]
    assert outputs.hardware_types(THREE, NAMES) == ["H100", "A100-80GB", "T4"]


def test_node_affinity_of_kubernetes() -> None:
    def term(weight: int, value: str) -> dict[str, object]:
        expression = {"key": "fleet/gpu", "operator": "In", "values": [value]}
        return {"weight": weight, "preference": {"matchExpressions": [expression]}}

    assert outputs.kubernetes(THREE, NAMES, label="fleet/gpu") == {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                term(100, "H100"), term(80, "A100-80GB"), term(1, "T4"),
            ]
        }
    }  # fmt: skip


@given(st.dictionaries(st.from_regex(r"[A-Za-z0-9]{1,20}", fullmatch=True), st.floats(1e-6, 1e9), min_size=1))
def test_weights_are_what_kubernetes_takes_and_never_contradict_the_order(scores: dict[str, float]) -> None:
    affinity = outputs.kubernetes(answer(scores))["nodeAffinity"]
    weights = [term["weight"] for term in affinity["preferredDuringSchedulingIgnoredDuringExecution"]]
    assert all(isinstance(weight, int) and 1 <= weight <= 100 for weight in weights)
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == 100


def test_ordered_resources_of_skypilot() -> None:
    assert outputs.skypilot(THREE, 8, NAMES) == {
        "resources": {
            "ordered": [{"accelerators": "H100:8"}, {"accelerators": "A100-80GB:8"}, {"accelerators": "T4:8"}]
        }
    }


def test_fallbacks_of_ray() -> None:
    assert outputs.ray(THREE, NAMES, label="ray.io/accelerator-type") == {
        "label_selector": {"ray.io/accelerator-type": "H100"},
        "fallback_strategy": [
            {"label_selector": {"ray.io/accelerator-type": "A100-80GB"}},
            {"label_selector": {"ray.io/accelerator-type": "T4"}},
        ],
    }


def test_the_users_own_choice_stands_alone() -> None:
    pinned = answer({"H100": 10.0, "A100": 8.0}, pinned="A100")
    assert outputs.hardware_types(pinned) == ["A100"]
    assert outputs.ray(pinned) == {"label_selector": {"leap/hardware-type": "A100"}, "fallback_strategy": []}


@pytest.mark.parametrize("pinned", [None, "A100"])
@pytest.mark.parametrize("scores", [{}, {"H100": 1.0}], ids=["no opinion", "shadow"])
def test_nothing_to_act_on_is_an_empty_output(scores: dict[str, float], pinned: str | None) -> None:
    silent = answer(scores, pinned, shadow=bool(scores))
    assert outputs.hardware_types(silent) == []
    assert (outputs.kubernetes(silent), outputs.skypilot(silent, 8), outputs.ray(silent)) == ({}, {}, {})


@pytest.mark.parametrize("name", ["my gpu", "-H100", "H100 ", "x" * 64, "in(a)", "!T4"])
def test_a_name_that_is_no_label_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(ValueError, match=re.escape("say what the nodes call it")):
        outputs.kubernetes(answer({name: 1.0}))
    with pytest.raises(ValueError, match=re.escape("say what the nodes call it")):
        outputs.ray(answer({name: 1.0}))
    assert outputs.ray(answer({name: 1.0}), {name: "gpu"})["label_selector"] == {"leap/hardware-type": "gpu"}
