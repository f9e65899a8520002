"""Ranking: submissions and an artifact to preference lists. Pure: the router, the worker and replay call it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import numpy as np

from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.features import history
from leap.predictor.features.batch import Floats, JobBatch, columns, seconds
from leap.predictor.features.matrix import Matrix
from leap.predictor.routing.placement import RANKED, REASONS, Goal, Placement, order, place
from leap.predictor.routing.provenance import Provenance, provenance
from leap.predictor.routing.rollout import Switches
from leap.schemas.events import ExcludedCandidate, JobSubmitted, PreferenceList, RankedCandidate

NO_CANDIDATES = "no candidates"
NO_ARTIFACT = "no artifact"
SWITCHED_OFF = "switched off"
ALL_EXCLUDED = "all candidates excluded"
TOO_LARGE = "list too large"
DEADLINE_EXCEEDED = "deadline exceeded"
FAILED = "internal error"
INVALID = "invalid submission"
#: Why a list may be empty.
NO_OPINIONS = (
    NO_CANDIDATES, NO_ARTIFACT, SWITCHED_OFF, ALL_EXCLUDED, TOO_LARGE, DEADLINE_EXCEEDED, FAILED, INVALID,
)  # fmt: skip
#: Below what a topic takes (1 MiB) by more than key, headers and the record's own fields.
MAX_LIST_BYTES = 1_000_000
#: So many candidates fit, whatever their names: a list has each name twice, in 3 kB at most, and 1 kB beside.
FEW = 64
#: Bytes that JSON needs for a character at most.
_ESCAPED = 6
NOT_ELIGIBLE = "pinned, but not among the candidates"


@dataclass(frozen=True)
class Policy:
    """What an operator decides about ranking, beside the artifact."""

    switches: Switches = field(default_factory=Switches)
    premium_efficiency: float = 1.0


@dataclass(frozen=True)
class _Scored:
    """What was computed for the (rows,) pairs of a batch, jobs in order and each with its candidates."""

    throughput: Floats
    lower: Floats
    upper: Floats
    placement: Placement
    provenance: Provenance
    served: Matrix


def no_opinion(submission: JobSubmitted, reason: str, now: datetime) -> PreferenceList:
    """The empty list, with its reason; without the candidates where their names alone might not fit."""
    names = submission.candidates
    fits = len(names) <= FEW or _ESCAPED * sum(map(len, names)) <= MAX_LIST_BYTES - 100_000
    return PreferenceList(
        attempt_id=submission.attempt_id,
        model_type=submission.model_type,
        no_opinion=reason,
        pinned=submission.pinned,
        candidates=names if fits else (),
        decided_at=now,
    )


def rank(
    artifact: Artifact, submissions: Sequence[JobSubmitted], policy: Policy, now: datetime
) -> list[PreferenceList]:
    """Preference lists of a batch, in its order: one matrix and one model call for all jobs and candidates.

    Parameters
    ----------
    now
        What `decided_at` says; nothing else depends on it.
    """
    reasons = [_refusal(submission, policy) for submission in submissions]
    asked = [submission for submission, reason in zip(submissions, reasons, strict=True) if reason is None]
    lists = iter(_rank_asked(artifact, asked, policy, now) if asked else ())
    return [
        _bounded(next(lists), submission, now) if reason is None else no_opinion(submission, reason, now)
        for submission, reason in zip(submissions, reasons, strict=True)
    ]


def _bounded(answer: PreferenceList, submission: JobSubmitted, now: datetime) -> PreferenceList:
    """A list that no topic takes would stop the worker."""
    if len(submission.candidates) <= FEW or len(msgspec.json.encode(answer)) <= MAX_LIST_BYTES:
        return answer
    return no_opinion(submission, TOO_LARGE, now)


def _refusal(submission: JobSubmitted, policy: Policy) -> str | None:
    if not submission.candidates:
        return NO_CANDIDATES
    return SWITCHED_OFF if policy.switches.of(submission.model_type).mode == "off" else None


def _rank_asked(
    artifact: Artifact, submissions: list[JobSubmitted], policy: Policy, now: datetime
) -> list[PreferenceList]:
    jobs = columns(submissions)
    goals = [_goal(submission, policy.switches) for submission in submissions]
    scored = _score(artifact, jobs, submissions, goals, policy)
    answers, start = [], 0
    for position, submission in enumerate(submissions):
        rows = range(start, start + len(submission.candidates))
        start = rows.stop
        ranked, excluded = _candidates(submission.candidates, rows, scored)
        if submission.pinned and submission.pinned not in submission.candidates:
            excluded += (ExcludedCandidate(hardware_type=submission.pinned, reason=NOT_ELIGIBLE),)
        family = str(jobs.family[position])
        answers.append(
            PreferenceList(
                attempt_id=submission.attempt_id,
                family=family,
                model_type=submission.model_type,
                ranked=ranked,
                excluded=excluded,
                no_opinion=None if ranked else ALL_EXCLUDED,
                objective=goals[position].objective,
                pinned=submission.pinned,
                artifact=artifact.manifest.version,
                candidates=submission.candidates,
                served_history=dict(
                    zip(history.FEATURES, map(tuple, scored.served[rows.start : rows.stop].T.tolist()), strict=True)
                ),
                shadow=policy.switches.mode(submission.model_type, family) == "shadow",
                decided_at=now,
            )
        )
    return answers


def _goal(submission: JobSubmitted, switches: Switches) -> Goal:
    """The job's own objective, else its model type's; without samples or deadline there is none to meet."""
    objective = submission.objective or switches.of(submission.model_type).objective or Goal.objective
    if objective != "cheapest_by_deadline":
        return Goal(objective, pinned=submission.pinned)
    if submission.samples is None or submission.deadline is None:
        return Goal(pinned=submission.pinned)
    left = seconds(submission.deadline) - seconds(submission.submitted_at)
    return Goal(objective, submission.samples, left, submission.pinned)


def _score(
    artifact: Artifact, jobs: JobBatch, submissions: list[JobSubmitted], goals: list[Goal], policy: Policy
) -> _Scored:
    job = np.repeat(np.arange(len(jobs)), [len(submission.candidates) for submission in submissions])
    pairs = artifact.pairs(jobs, job, [name for submission in submissions for name in submission.candidates])
    matrix = artifact.matrix(pairs)
    predicted = artifact.model.predict(pairs, matrix)
    found = provenance(pairs, matrix, artifact.manifest)
    lower, upper = artifact.manifest.interval.bounds(predicted.mean, predicted.spread, np.array(found.basis))
    throughput = np.exp(predicted.mean)
    first = artifact.manifest.features.index(history.FEATURES[0])
    return _Scored(
        throughput=throughput,
        lower=np.exp(lower),
        upper=np.exp(upper),
        placement=place(jobs, artifact.table, job, pairs.hardware, throughput, goals, policy.premium_efficiency),
        provenance=found,
        served=matrix[:, first : first + len(history.FEATURES)],
    )


def _candidates(
    names: tuple[str, ...], rows: range, scored: _Scored
) -> tuple[tuple[RankedCandidate, ...], tuple[ExcludedCandidate, ...]]:
    """Ranked, best first, and excluded, in the order asked."""
    placement = scored.placement
    kept = [position for position, row in enumerate(rows) if placement.reason[row] == RANKED]
    best_first = order([names[position] for position in kept], placement.score[[rows[p] for p in kept]])
    ranked = tuple(_ranked(names[kept[place]], rows[kept[place]], scored) for place in best_first)
    excluded = tuple(
        ExcludedCandidate(
            hardware_type=names[position],
            reason=REASONS[placement.reason[row]] or "",
            throughput=float(scored.throughput[row]) if np.isfinite(scored.throughput[row]) else None,
        )
        for position, row in enumerate(rows)
        if placement.reason[row] != RANKED
    )
    return ranked, excluded


def _ranked(name: str, row: int, scored: _Scored) -> RankedCandidate:
    return RankedCandidate(
        hardware_type=name,
        throughput=float(scored.throughput[row]),
        lower=float(scored.lower[row]),
        upper=float(scored.upper[row]),
        cost_per_hour=float(scored.placement.cost_per_hour[row]),
        throughput_per_cost=float(scored.placement.per_cost[row]),
        score=float(scored.placement.score[row]),
        basis=scored.provenance.basis[row],
        observations=scored.provenance.observations[row],
        outside=scored.provenance.outside[row],
    )
