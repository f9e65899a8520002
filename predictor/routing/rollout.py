"""Runtime switches per model type: off, on, shadow, and a share of families."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from leap.schemas.errors import SettingsError
from leap.schemas.events import Objective

Mode = Literal["off", "on", "shadow"]
MAX_MODEL_TYPES = 10_000
PREMIUM_EFFICIENCY = "LEAP_PREMIUM_EFFICIENCY"


class Switch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one model type is treated.

    Attributes
    ----------
    mode
        ``on``: ranked; ``shadow``: ranked and recorded, not to be acted on; ``off``: no opinion.
    percentage
        Share of families that `mode` ``on`` reaches; the others stay in shadow.
    objective
        How to rank where the job does not say.
    """

    mode: Mode = "on"
    percentage: Annotated[float, Meta(ge=0.0, le=100.0)] = 100.0
    objective: Objective | None = None


class Switches(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The switch of each model type, and of all others."""

    default: Switch = Switch()
    by_model_type: Annotated[dict[str, Switch], Meta(max_length=MAX_MODEL_TYPES)] = {}

    def of(self, model_type: str) -> Switch:
        """The switch of one model type."""
        return self.by_model_type.get(model_type, self.default)

    def mode(self, model_type: str, family: str) -> Mode:
        """Mode of one job. A family keeps its side as the percentage grows.

        >>> half = Switches(default=Switch(percentage=50.0))
        >>> [half.mode("dlrm", name) for name in ("ads", "feed", "search")]
        ['shadow', 'on', 'on']
        """
        switch = self.of(model_type)
        if switch.mode != "on" or switch.percentage >= 100.0:
            return switch.mode
        return "on" if _place(family) < switch.percentage else "shadow"


def premium_efficiency(environ: Mapping[str, str]) -> float:
    """Share of the best standard type's score that keeps a premium type, as an environment has it.

    Raises
    ------
    SettingsError
        If it is not a number from 0 to 100.
    """
    text = environ.get(PREMIUM_EFFICIENCY, "1.0")
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 100.0:
        raise SettingsError(f"{PREMIUM_EFFICIENCY}: {text!r} is not a number from 0 to 100")
    return share


def _place(family: str) -> float:
    """Where a family stands between 0 and 100, the same in every process."""
    digest = hashlib.blake2b(family.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64 * 100.0
