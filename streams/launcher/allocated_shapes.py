"""The shapes that a launcher was told of in allocations, for the completions that it sends."""

from collections.abc import Sequence
from itertools import groupby

from msgspec.structs import replace

from leap.predictor.history.ran_shape import GRACE
from leap.schemas.events import JobAllocated, JobCompleted, Shape

#: Attempts that are remembered; the oldest gives way.
MAX_ATTEMPTS = 10_000


class AllocatedShapes:
    """Allocations by attempt. Not safe to use from several threads."""

    def __init__(self) -> None:
        self._allocations: dict[str, Sequence[JobAllocated]] = {}

    def add(self, event: JobAllocated) -> None:
        """Remember an allocation, unless its attempt has ended."""
        told = self._allocations.get(event.attempt_id, [])
        if isinstance(told, list):
            self._keep(event.attempt_id, [*told, event])

    def stated(self, completed: JobCompleted) -> JobCompleted:
        """The completion, with the shapes of its allocations where it states none; the same when it is sent again.

        Before the start the last allocation counts, and after it each that changed the shape. Nothing is added unless
        all of these are of the hardware type that it ran on, written alike.
        """
        told = tuple(self._allocations.get(completed.attempt_id, ()))
        self._keep(completed.attempt_id, told)
        told = tuple(sorted(told, key=lambda event: event.allocated_at))
        late = sum(event.allocated_at > completed.started_at + GRACE for event in told)
        told = told[max(len(told) - late - 1, 0) :]
        if completed.shapes or {event.hardware_type for event in told} != {completed.hardware_type}:
            return completed
        shapes = [Shape(hosts=event.hosts, accelerators=event.accelerators) for event in told]
        return replace(completed, shapes=tuple(shape for shape, _ in groupby(shapes)))

    def _keep(self, attempt_id: str, told: Sequence[JobAllocated]) -> None:
        self._allocations[attempt_id] = told
        if len(self._allocations) > MAX_ATTEMPTS:
            del self._allocations[next(iter(self._allocations))]
