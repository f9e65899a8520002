"""What is kept of a replay: one line an attempt and artifact, scored in the shape that the attempt ran in."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from leap.predictor.features.batch import seconds
from leap.predictor.features.configuration import shape_text
from leap.predictor.history.ran_shape import as_asked, reshaped
from leap.predictor.routing.router import Router
from leap.schemas.events import JobSubmitted, PreferenceList
from leap.schemas.hardware import Catalog
from leap.schemas.launch import LaunchConfig
from leap.schemas.resolution import resolved
from leap.streams.kafka.event_range import Ended


class Line(msgspec.Struct, frozen=True):
    """One attempt as one artifact answered it.

    Attributes
    ----------
    submitted_at
        Seconds since 1970.
    outcome
        ``ranked``, or why there is no opinion.
    first
        Hardware type that is ranked first.
    hardware_type, measured, accelerator_hours
        What the attempt ran on, its samples/s where it succeeded, and what it held; None where it has not ended.
    predicted, lower, upper, basis
        Of that hardware type in that shape; one that is not ranked has no interval.
    configuration
        The shape that it ran in, as :func:`shape_text` writes it; of an attempt that has not ended, the one asked for.
    asked
        The shape that was asked for, if it ran in another.
    apart
        Greatest |ln ratio| of this artifact's predictions to those of the first, over the candidates.
    learned
        Whether it had ended when what the artifact has learned from was taken; None where it has not ended.
    """

    attempt_id: str
    family: str
    model_type: str
    submitted_at: float
    artifact: str
    outcome: str
    first: str | None = None
    hardware_type: str | None = None
    measured: float | None = None
    accelerator_hours: float | None = None
    predicted: float | None = None
    lower: float | None = None
    upper: float | None = None
    basis: str | None = None
    apart: float | None = None
    learned: bool | None = None
    configuration: str = ""
    asked: str | None = None


def lines_of(
    submissions: Sequence[JobSubmitted],
    ranked_by: Sequence[Router],
    answers: Sequence[Sequence[PreferenceList]],
    learned: Sequence[datetime],
    endings: Mapping[str, Ended],
    catalog: Catalog,
) -> Iterator[Line]:
    """Lines of a batch: of each submission one by each of the routers, whose `answers` are lists in the same order.

    What ran in another shape than it asked for is ranked again in that one, to compare like with like.

    Parameters
    ----------
    learned
        Of each router, when what it has learned from was taken.
    """
    ends = [endings.get(submission.attempt_id) for submission in submissions]
    ran = [replace(job, config=_ran(job.config, end)) for job, end in zip(submissions, ends, strict=True)]
    others = [place for place, job in enumerate(ran) if not as_asked(submissions[place].config, job.config)]
    again = [router.rank_decoded([ran[place] for place in others]) for router in ranked_by]
    named = [[resolved(answer, catalog) for answer in lists] for lists in answers]
    scored = [list(lists) for lists in named]
    for lists, anew in zip(scored, again, strict=True):
        for place, answer in zip(others, anew, strict=True):
            lists[place] = resolved(answer, catalog)
    for place, (asked, end) in enumerate(zip(submissions, ends, strict=True)):
        configs, reference = (asked.config, ran[place].config), predictions(scored[0][place])
        for router, until, made, known in zip(ranked_by, learned, named, scored, strict=True):
            line = _line(made[place], known[place], configs, end, reference)
            yield replace(
                line,
                submitted_at=seconds(asked.submitted_at),
                artifact=version_of(router),
                learned=end.finished_at < until if end else None,
            )


def version_of(router: Router) -> str:
    """Version of the artifact that a router has loaded."""
    assert router.artifact is not None
    return router.artifact.manifest.version


def _ran(asked: LaunchConfig, end: Ended | None) -> LaunchConfig:
    return reshaped(asked, end.shape) if end else asked


def predictions(answer: PreferenceList) -> dict[str, float]:
    """Hardware type to predicted samples/s, ranked or not."""
    ranked = {candidate.hardware_type: candidate.throughput for candidate in answer.ranked}
    excluded = {candidate.hardware_type: candidate.throughput for candidate in answer.excluded}
    return ranked | {name: throughput for name, throughput in excluded.items() if throughput is not None}


def _line(
    answer: PreferenceList,
    scored: PreferenceList,
    configs: tuple[LaunchConfig, LaunchConfig],
    end: Ended | None,
    reference: dict[str, float],
) -> Line:
    """The line but for time and artifact; `configs` are those asked for and run with, of which `scored` is the list."""
    predicted, same = predictions(scored), as_asked(*configs)
    ran_on = end.hardware_type if end else None
    there = next((candidate for candidate in scored.ranked if candidate.hardware_type == ran_on), None)
    shared = predicted.keys() & reference.keys()
    asked, ran = (shape_text(c.num_trainers, c.accelerators_per_trainer, c.batch_size) for c in configs)
    return Line(
        attempt_id=answer.attempt_id,
        family=answer.family,
        model_type=answer.model_type,
        submitted_at=math.nan,
        artifact="",
        outcome="ranked" if answer.ranked else (answer.no_opinion or "").partition(":")[0],
        first=answer.ranked[0].hardware_type if answer.ranked else None,
        hardware_type=ran_on,
        measured=_known(end.measured) if end and (same or not end.allocated_late) else None,
        accelerator_hours=_known(end.accelerator_hours) if end else None,
        predicted=predicted.get(ran_on or ""),
        lower=there.lower if there else None,
        upper=there.upper if there else None,
        basis=there.basis if there else None,
        apart=max((abs(math.log(predicted[name] / reference[name])) for name in shared), default=None),
        configuration=ran,
        asked=None if same else asked,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
