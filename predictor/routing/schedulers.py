"""Preference lists in the words of other schedulers.

What is to be acted on is the user's own choice alone where there is one, else the ranked types, best first; and
nothing of a list in shadow, or without an opinion, which changes nothing of what the launcher asks for itself, its
pinned type included. Hardware types are named as the launcher wrote them, unless
`names` says what a consumer calls them.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from leap.schemas.events import PreferenceList

#: The label of nodes that holds their hardware type, where a fleet has no other.
LABEL = "leap/hardware-type"
MAX_WEIGHT = 100
#: What Kubernetes and Ray allow as the value of a label.
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")

Names = Mapping[str, str]
SAME: Names = MappingProxyType({})


def hardware_types(answer: PreferenceList, names: Names = SAME) -> list[str]:
    """The ordered list: hardware types to act on, best first.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from leap.schemas.events import RankedCandidate
    >>> def candidate(name, score):
    ...     return RankedCandidate(
    ...         hardware_type=name,
    ...         throughput=100 * score,
    ...         cost_per_hour=100.0,
    ...         throughput_per_cost=score,
    ...         score=score,
    ...         basis="family history",
    ...     )
    >>> answer = PreferenceList(
    ...     attempt_id="a-1",
    ...     ranked=(candidate("H100-SXM-80GB", 8.0), candidate("A100-SXM-80GB", 6.0)),
    ...     decided_at=datetime(2026, 1, 1, tzinfo=UTC),
    ... )
    >>> hardware_types(answer, names={"A100-SXM-80GB": "A100-80GB"})
    ['H100-SXM-80GB', 'A100-80GB']
    >>> [(term["weight"], term["preference"]["matchExpressions"][0]["values"]) for term in
    ...  kubernetes(answer)["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]]
    [(100, ['H100-SXM-80GB']), (75, ['A100-SXM-80GB'])]
    >>> ray(answer)["fallback_strategy"]
    [{'label_selector': {'leap/hardware-type': 'A100-SXM-80GB'}}]
    """
    return [names.get(name, name) for name in _scores(answer)]


def kubernetes(answer: PreferenceList, names: Names = SAME, label: str = LABEL) -> dict[str, Any]:
    """A pod's ``affinity``: preferred nodes, never required ones.

    A weight is the score as a share of the best one's, 1 to 100, so that the scheduler weighs a small
    difference little beside its other reasons. Nothing preferred is an empty mapping.

    Raises
    ------
    ValueError
        If a name cannot be the value of a label.
    """
    scores = _scores(answer)
    terms = [
        {
            "weight": max(1, round(MAX_WEIGHT * score / max(scores.values()))),
            "preference": {
                "matchExpressions": [{"key": label, "operator": "In", "values": [_label(names.get(name, name))]}]
            },
        }
        for name, score in scores.items()
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}} if terms else {}


def skypilot(answer: PreferenceList, accelerators_per_trainer: int, names: Names = SAME) -> dict[str, Any]:
    """``resources`` of a SkyPilot task, tried in order; SkyPilot counts accelerators per node."""
    ordered = [{"accelerators": f"{name}:{accelerators_per_trainer}"} for name in hardware_types(answer, names)]
    return {"resources": {"ordered": ordered}} if ordered else {}


def ray(answer: PreferenceList, names: Names = SAME, label: str = LABEL) -> dict[str, Any]:
    """Options of a Ray task or actor: the best type's label, and the others to fall back on, in order.

    ``task.options(**ray(answer))``; Ray 2.51 or later. The best type stands in `label_selector`, because Ray
    takes the fallbacks only when that cannot be met.

    Raises
    ------
    ValueError
        If a name cannot be the value of a label.
    """
    selectors = [{label: _label(name)} for name in hardware_types(answer, names)]
    if not selectors:
        return {}
    fallbacks = [{"label_selector": selector} for selector in selectors[1:]]
    return {"label_selector": selectors[0], "fallback_strategy": fallbacks}


def _scores(answer: PreferenceList) -> dict[str, float]:
    """Hardware type to score, best first."""
    if answer.shadow or not answer.ranked:
        return {}
    if answer.pinned:
        return {answer.pinned: 1.0}
    return {candidate.hardware_type: candidate.score for candidate in answer.ranked}


def _label(name: str) -> str:
    if not _LABEL_VALUE.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the value of a label; say what the nodes call it in `names`")
    return name
