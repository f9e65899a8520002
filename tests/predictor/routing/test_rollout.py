"""Switches decide by model type and by a stable share of families."""

from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.routing.rollout import Switch, Switches


def test_a_model_type_has_its_own_switch_or_the_default() -> None:
    switches = Switches(default=Switch(mode="shadow"), by_model_type={"dlrm": Switch(mode="on")})
    assert switches.mode("dlrm", "ads") == "on"
    assert switches.mode("bert", "ads") == "shadow"


@given(st.text(), st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_a_family_that_is_on_stays_on_as_the_percentage_grows(family: str, a: float, b: float) -> None:
    low, high = sorted((a, b))
    narrow, wide = (Switches(default=Switch(percentage=share)) for share in (low, high))
    if narrow.mode("m", family) == "on":
        assert wide.mode("m", family) == "on"


def test_the_percentage_is_a_share_of_families() -> None:
    switches = Switches(default=Switch(percentage=30.0))
    on = sum(switches.mode("m", f"family-{number}") == "on" for number in range(10_000))
    assert 2_800 < on < 3_200
    assert Switches(default=Switch(percentage=0.0)).mode("m", "f") == "shadow"
