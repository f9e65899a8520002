"""Why a preference list says what it says, in words: the terms of every score, and what became of the attempt."""

from collections.abc import Iterator

from leap.predictor.models.conformal import NOMINAL
from leap.predictor.routing.physics import rate_in_words, rate_of, work_in_words
from leap.predictor.routing.provenance import FAMILY_HISTORY
from leap.schemas.events import (
    THROUGHPUT,
    ExcludedCandidate,
    JobCompleted,
    JobSubmitted,
    PreferenceList,
    RankedCandidate,
)
from leap.schemas.hardware import Catalog
from leap.schemas.resolution import resolved

_OBJECTIVES = {
    "throughput_per_cost": "predicted throughput per USD",
    "fastest": "predicted throughput",
    "cheapest_by_deadline": "predicted throughput per USD, of the types that finish by the deadline",
}
_BASES = {
    "family history": "finished attempts of its family: {}",
    "similar jobs": "finished attempts of its model type: {}; none of its family",
    "specification only": "the specification alone: nothing of its family or model type has finished",
}


def explain(
    answer: PreferenceList,
    submission: JobSubmitted,
    catalog: Catalog,
    completed: JobCompleted | None = None,
    premium_efficiency: float = 1.0,
) -> str:
    """One paragraph a candidate, best first, under what holds for all.

    Parameters
    ----------
    catalog
        Says which types are premium, and the price of those excluded.
    completed
        What became of the attempt, where it has ended.
    """
    lines = [*_header(answer, submission)]
    best_standard = max(
        (candidate.score for candidate in answer.ranked if not _premium(candidate, catalog)), default=None
    )
    for rank, candidate in enumerate(answer.ranked, 1):
        lines += [f"{rank}. {candidate.hardware_type}", *_ranked(candidate, answer, submission)]
        if rate := rate_of(candidate, answer, submission, catalog):
            lines += [f"   {line}" for line in rate_in_words(rate)]
        if _premium(candidate, catalog):
            lines.append(_premium_rule(candidate, answer, best_standard, premium_efficiency))
    for excluded in answer.excluded:
        lines += [f"–  {excluded.hardware_type}: {excluded.reason}", *_excluded(excluded, submission, catalog)]
    if completed:
        lines.append(_outcome(resolved(answer, catalog), resolved(completed, catalog)))
    return "\n".join(lines)


def _header(answer: PreferenceList, submission: JobSubmitted) -> Iterator[str]:
    yield f"{answer.attempt_id}: family {answer.family or '?'}, model type {submission.model_type}"
    yield f"Decided {answer.decided_at:%Y-%m-%d %H:%M:%S} UTC with {answer.artifact or 'no artifact'}."
    if answer.no_opinion:
        yield f"No opinion: {answer.no_opinion}."
    yield f"Sorted by {_OBJECTIVES[answer.objective]}; equal ones by name."
    if answer.ranked:
        yield work_in_words(answer, submission)
    if answer.pinned:
        yield f"The user pinned {answer.pinned}, and that holds whatever is ranked here."
    if answer.shadow:
        yield "In shadow: recorded, not to be acted on."


def _ranked(candidate: RankedCandidate, answer: PreferenceList, submission: JobSubmitted) -> Iterator[str]:
    config = submission.config
    throughput = _number(candidate.throughput)
    interval = ""
    if candidate.lower is not None and candidate.upper is not None:
        interval = f", {NOMINAL:.0%} between {_number(candidate.lower)} and {_number(candidate.upper)}"
    yield f"   {throughput} samples/s{interval}"
    here = f", of which {candidate.here} on this hardware type" if candidate.basis == FAMILY_HISTORY else ""
    yield f"   from {_BASES[candidate.basis].format(candidate.observations)}{here}"
    cost, per_cost = candidate.cost_per_hour, candidate.throughput_per_cost
    if cost is None:
        yield "   cost unknown: it has no price"
    else:
        price = cost / config.accelerators
        yield (
            f"   cost {cost:,.2f} USD/h = {config.num_trainers} trainers x "
            f"{config.accelerators_per_trainer} accelerators x {price:,.2f} USD/h"
        )
    if answer.objective == "fastest":
        yield f"   score {throughput}"
    elif per_cost is None:
        yield f"   score {_number(candidate.score)}: it costs nothing, so it goes before what does, by throughput"
    else:
        yield f"   score {throughput} / {cost:,.2f} = {_number(per_cost)}"
    if candidate.outside:
        yield f"   outside what was trained on: {', '.join(candidate.outside)}"


def _premium_rule(
    candidate: RankedCandidate, answer: PreferenceList, best_standard: float | None, efficiency: float
) -> str:
    if best_standard is None:
        return "   premium: stays, as no standard type is eligible"
    bar = efficiency * best_standard
    needed = f"{efficiency:g} x {_number(best_standard)}, the best standard score"
    if candidate.score < bar and candidate.hardware_type == answer.pinned:
        return f"   premium: below {needed}, and stays because it is pinned"
    return f"   premium: stays, as its score reaches {needed}"


def _excluded(excluded: ExcludedCandidate, submission: JobSubmitted, catalog: Catalog) -> Iterator[str]:
    if excluded.throughput is None:
        return
    yield f"   {_number(excluded.throughput)} samples/s predicted"
    entry = catalog.specification(excluded.hardware_type)
    if entry is not None and entry.price_per_hour:
        cost = submission.config.accelerators * entry.price_per_hour
        yield f"   {_number(excluded.throughput)} / {cost:,.2f} USD/h = {_number(excluded.throughput / cost)}"


def _outcome(answer: PreferenceList, completed: JobCompleted) -> str:
    measured = completed.of_shape.get(THROUGHPUT)
    text = f"It ran on {completed.hardware_type} and {completed.status}"
    if not measured:
        return f"{text}."
    predicted: dict[str, float | None] = {candidate.hardware_type: candidate.throughput for candidate in answer.ranked}
    predicted |= {candidate.hardware_type: candidate.throughput for candidate in answer.excluded}
    ran = completed.shape
    if ran and answer.accelerators not in (None, ran.accelerators):
        return (
            f"{text} at {_number(measured)} samples/s, with {ran.accelerators} accelerators: another shape than asked."
        )
    expected = predicted.get(completed.hardware_type)
    if expected is None:
        return f"{text} at {_number(measured)} samples/s; nothing was predicted for that type."
    return f"{text} at {_number(measured)} samples/s: predicted {_number(expected)}, {expected / measured - 1:+.1%}."


def _premium(candidate: RankedCandidate, catalog: Catalog) -> bool:
    entry = catalog.specification(candidate.hardware_type)
    return entry is not None and entry.premium


def _number(value: float) -> str:
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
