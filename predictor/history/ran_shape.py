"""The shape that an attempt ran in, beside the one that it asked for: what ran is what is learned."""

from datetime import timedelta

from msgspec.structs import replace

from leap.schemas.events import JobAllocated, JobCompleted, Shape
from leap.schemas.launch import LaunchConfig

#: Clock skew tolerated between an allocation and the start of training; a later one is another shape.
GRACE = timedelta(seconds=60)


def shape_of(allocated: JobAllocated | None, completed: JobCompleted) -> Shape | None:
    """The last shape that the completion states, else the allocation's; None if it ran as asked, as far as is known.

    An allocation of another hardware type is not of this run.
    """
    if completed.shapes or allocated is None or allocated.hardware_type != completed.hardware_type:
        return completed.shape
    return Shape(hosts=allocated.hosts, accelerators=allocated.accelerators)


def allocated_late(allocated: JobAllocated | None, completed: JobCompleted) -> bool:
    """Whether the shape is that of an allocation made after the start, so not that of all that was measured."""
    by_allocation = not completed.shapes and shape_of(allocated, completed) is not None
    return by_allocation and allocated is not None and allocated.allocated_at > completed.started_at + GRACE


def reshaped(asked: LaunchConfig, shape: Shape | None) -> LaunchConfig:
    """The configuration in another shape.

    Accelerators that the hosts do not divide give a fraction of one per trainer; data parallelism grows with them.
    """
    if shape is None:
        return asked
    per_trainer, rest = divmod(shape.accelerators, shape.hosts)
    return replace(
        asked,
        num_trainers=shape.hosts,
        accelerators_per_trainer=shape.accelerators / shape.hosts if rest else per_trainer,
        batch_size=shape.batch_size or asked.batch_size,
        data_parallel=asked.data_parallel and asked.data_parallel * shape.accelerators / asked.accelerators,
    )


def as_asked(asked: LaunchConfig, ran: LaunchConfig) -> bool:
    """Whether an attempt ran in the shape that it asked for; a batch that was not asked for is no other one."""
    same = (asked.num_trainers, asked.accelerators_per_trainer) == (ran.num_trainers, ran.accelerators_per_trainer)
    return same and asked.batch_size in (None, ran.batch_size)
