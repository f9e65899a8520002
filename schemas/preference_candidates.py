"""Entries of a preference list."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from leap.schemas.launch import Name, Text

Basis = Literal["family history", "similar jobs", "specification only"]
Observations = Annotated[int, Meta(ge=0, le=2**53)]


class RankedCandidate(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """One hardware type with its prediction, best first in a preference list.

    Attributes
    ----------
    hardware_type
        As the launcher wrote it.
    throughput
        Predicted samples/s.
    lower, upper
        Bounds of the calibrated interval.
    cost_per_hour
        USD per hour of the whole attempt; 0 on hardware that costs nothing, none without a price.
    throughput_per_cost
        throughput / cost_per_hour; none without a cost.
    score
        Sort key of the list: throughput / cost_per_hour unless the objective says otherwise.
    basis
        What the prediction is based on.
    observations
        Number of finished attempts that it is based on, on whatever hardware: its family's, else its model type's.
    here
        How many finished attempts of its family ran on this hardware type.
    outside
        Inputs of this candidate not seen in training; ``hardware type (as NAME)`` is predicted as another form or
        memory size of its chip.
    """

    hardware_type: Name
    throughput: float
    lower: float | None = None
    upper: float | None = None
    cost_per_hour: float | None = None
    throughput_per_cost: float | None = None
    score: float
    basis: Basis
    observations: Observations = 0
    here: Observations = 0
    outside: tuple[str, ...] = ()


class ExcludedCandidate(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """A hardware type that is not ranked.

    Attributes
    ----------
    hardware_type
        As the launcher wrote it.
    reason
        Why it is not ranked.
    throughput
        Predicted samples/s, where there is a prediction.
    """

    hardware_type: Name
    reason: Text
    throughput: float | None = None
