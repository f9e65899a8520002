"""What is said of a list beside its numbers: ties, and how old the prices are that decide."""

from datetime import UTC, datetime

import pytest

from leap.predictor.cli.ranking import notes, tied
from leap.schemas.events import Objective, PreferenceList
from leap.schemas.hardware import Catalog, Hardware
from leap.schemas.preference_candidates import RankedCandidate

CATALOG = Catalog([
    Hardware(name="A", vendor="V", price_per_hour=2.0, price_source="list", price_date="2025"),
    Hardware(
        name="B", vendor="V", price_per_hour=1.0, price_source="?", price_date="2026", unverified=("price_per_hour",)
    ),
])  # fmt: skip


def candidate(name: str, throughput: float, reach: float, cost: float) -> RankedCandidate:
    """With an interval of so much on both sides."""
    return RankedCandidate(
        hardware_type=name,
        throughput=throughput,
        lower=throughput - reach,
        upper=throughput + reach,
        cost_per_hour=cost,
        score=throughput / cost,
        basis="similar jobs",
    )


def answer(*ranked: RankedCandidate, objective: Objective = "throughput_per_cost") -> PreferenceList:
    return PreferenceList(
        attempt_id="a", model_type="m", ranked=ranked, objective=objective, decided_at=datetime(2026, 1, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("second", "ties"),
    [
        (candidate("B", 80.0, 10.0, 1.0), {"B"}),  # up to 90 where the first may be 90
        (candidate("B", 80.0, 9.0, 1.0), set()),
        (candidate("B", 160.0, 20.0, 2.0), {"B"}),  # the same at twice the cost and speed
        (candidate("B", 300.0, 10.0, 4.0), set()),  # faster, and yet dearer for what it does
    ],
)
def test_a_tie_is_an_interval_that_reaches_into_the_first_by_cost(second: RankedCandidate, ties: set[str]) -> None:
    assert tied(answer(candidate("A", 100.0, 10.0, 1.0), second)) == ties


def test_notes_say_unit_marks_and_prices() -> None:
    both = candidate("A", 100.0, 50.0, 1.0), candidate("B", 80.0, 10.0, 1.0)
    assert notes(answer(*both), CATALOG) == (
        "Score: samples/s per USD/h. ≈: its interval reaches into that of the first choice. "
        "Prices of the artifact's catalog are of 2025 to 2026; general knowledge: B."
    )
    assert notes(answer(both[1], objective="fastest"), CATALOG) == "Score: samples/s."
    assert notes(answer(), CATALOG) == ""
