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
        Name in the catalog.
    throughput
        Predicted samples/s.
    lower, upper
        Bounds of the calibrated interval.
    cost_per_hour
        USD per hour of the whole attempt.
    throughput_per_cost
        throughput / cost_per_hour.
    score
        Sort key of the list: throughput / cost_per_hour unless the objective says otherwise.
    basis
        What the prediction is based on.
    observations
        Number of finished attempts that it is based on.
    outside
        Inputs of this candidate not seen in training.
    """

    hardware_type: Name
    throughput: float
    lower: float | None = None
    upper: float | None = None
    cost_per_hour: float
    throughput_per_cost: float
    score: float
    basis: Basis
    observations: Observations = 0
    outside: tuple[str, ...] = ()


class ExcludedCandidate(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """A hardware type that is not ranked.

    Attributes
    ----------
    hardware_type
        Name in the catalog, or as the launcher wrote it if not in the catalog.
    reason
        Why it is not ranked.
    throughput
        Predicted samples/s, where there is a prediction.
    """

    hardware_type: Name
    reason: Text
    throughput: float | None = None
