"""Ranking: submissions and an artifact to preference lists. Pure: the router, the worker and replay call it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import numpy as np

from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.features import architecture, history
from leap.predictor.features.batch import JobBatch, seconds
from leap.predictor.features.matrix import RowFeatures
from leap.predictor.routing.placement import NO_SPECIFICATION, RANKED, REASONS, Goal, order, place
from leap.predictor.routing.provenance import provenance
from leap.predictor.routing.rollout import Switches
from leap.schemas.events import Basis, ExcludedCandidate, JobSubmitted, PreferenceList, RankedCandidate
from leap.schemas.hardware import Catalog

_FLOPS = architecture.NAMES.index("flops")

NO_CANDIDATES = "no candidates"
NO_ARTIFACT = "no artifact"
SWITCHED_OFF = "switched off"
ALL_EXCLUDED = "all candidates excluded"
TOO_LARGE = "list too large"
DEADLINE_EXCEEDED = "deadline exceeded"
HANGING = "earlier rankings hang"
FAILED = "internal error"
INVALID = "invalid submission"
#: Why a list may be empty.
NO_OPINIONS = (
    NO_CANDIDATES, NO_ARTIFACT, SWITCHED_OFF, ALL_EXCLUDED, TOO_LARGE, DEADLINE_EXCEEDED, HANGING, FAILED, INVALID,
)  # fmt: skip
#: Leaves headroom under the 1 MiB topic limit for key, headers and record overhead.
MAX_LIST_BYTES = 1_000_000
#: Lists up to this length cannot exceed MAX_LIST_BYTES, so they are not measured.
FEW = 64
#: Bytes that JSON needs for a character at most.
_ESCAPED = 6
NOT_ELIGIBLE = "pinned, but not among the candidates"


@dataclass(frozen=True)
class Policy:
    """What an operator decides about ranking, beside the artifact."""

    switches: Switches = field(default_factory=Switches)
    premium_efficiency: float = 1.0


#: What was computed for one candidate of a job: hardware type, reason, throughput with its bounds, cost per hour,
#: throughput per cost, score, basis, observations, here, outside, and the listed form of its chip.
_Row = tuple[str, int, float, float, float, float, float, float, Basis, int, int, tuple[str, ...], str | None]


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
    jobs = artifact.job_batch(submissions)
    catalog = artifact.catalog
    goals = [_goal(submission, policy.switches, catalog) for submission in submissions]
    scored, features = _score(artifact, jobs, submissions, goals, policy)
    served = features.history.T.tolist()
    answers, end = [], 0
    flops = jobs.architecture[:, _FLOPS].tolist()
    for submission, goal, family, work in zip(submissions, goals, jobs.family.tolist(), flops, strict=True):
        start, end = end, end + len(submission.candidates)
        ranked, excluded = _candidates(scored[start:end], catalog)
        if submission.pinned and goal.pinned not in set(map(catalog.canonical, submission.candidates)):
            excluded += (ExcludedCandidate(hardware_type=submission.pinned, reason=NOT_ELIGIBLE),)
        answers.append(
            PreferenceList(
                attempt_id=submission.attempt_id,
                family=family,
                model_type=submission.model_type,
                ranked=ranked,
                excluded=excluded,
                no_opinion=None if ranked else ALL_EXCLUDED,
                objective=goal.objective,
                pinned=submission.pinned,
                artifact=artifact.manifest.version,
                accelerators=submission.config.accelerators,
                candidates=submission.candidates,
                served_history={
                    name: tuple(column[start:end]) for name, column in zip(history.FEATURES, served, strict=True)
                },
                flops=_finite(work),
                shadow=policy.switches.mode(submission.model_type, family) == "shadow",
                decided_at=now,
            )
        )
    return answers


def _goal(submission: JobSubmitted, switches: Switches, catalog: Catalog) -> Goal:
    """The job's own objective, else its model type's; without samples or deadline there is none to meet."""
    objective = submission.objective or switches.of(submission.model_type).objective or Goal.objective
    pinned = catalog.canonical(submission.pinned) if submission.pinned else None
    if objective != "cheapest_by_deadline":
        return Goal(objective, pinned=pinned)
    if submission.samples is None or submission.deadline is None:
        return Goal(pinned=pinned)
    left = seconds(submission.deadline) - seconds(submission.submitted_at)
    return Goal(objective, submission.samples, left, pinned)


def _score(
    artifact: Artifact, jobs: JobBatch, submissions: list[JobSubmitted], goals: list[Goal], policy: Policy
) -> tuple[list[_Row], RowFeatures]:
    """All (rows,) candidates of a batch, jobs in order and each with its own, and their features."""
    job = np.arange(len(jobs)).repeat([len(submission.candidates) for submission in submissions])
    names = [name for submission in submissions for name in submission.candidates]
    features = artifact.features(artifact.candidate_rows(jobs, job, names))
    predicted = artifact.predict(features)
    rests_on = provenance(features, artifact.manifest)
    lower, upper = artifact.manifest.interval.bounds(predicted.mean, predicted.spread, rests_on.basis)
    throughput, hardware = np.exp(predicted.mean), features.rows.hardware
    listed = [artifact.catalog.specification(name) for name in names]
    memory_gb = np.array([entry.memory_gb if entry else None for entry in listed], dtype=float)
    placement = place(jobs, artifact.table, job, hardware, throughput, goals, policy.premium_efficiency, memory_gb)
    columns = (
        names,
        placement.reason.tolist(),
        throughput.tolist(),
        np.exp(lower).tolist(),
        np.exp(upper).tolist(),
        placement.cost_per_hour.tolist(),
        placement.per_cost.tolist(),
        placement.score.tolist(),
        rests_on.basis.tolist(),
        rests_on.observations.tolist(),
        rests_on.here.tolist(),
        rests_on.outside,
        [entry.like if entry else None for entry in listed],
    )
    return list(zip(*columns, strict=True)), features


def _candidates(
    rows: list[_Row], catalog: Catalog
) -> tuple[tuple[RankedCandidate, ...], tuple[ExcludedCandidate, ...]]:
    """Ranked, best first, and excluded, in the order asked."""
    kept = [row for row in rows if row[1] == RANKED]
    best_first = order([row[0] for row in kept], [row[7] for row in kept])
    excluded = [_excluded(row, catalog) for row in rows if row[1] != RANKED]
    return tuple([_ranked(kept[position]) for position in best_first]), tuple(excluded)


def _ranked(row: _Row) -> RankedCandidate:
    name, _, throughput, lower, upper, cost_per_hour, per_cost, score, basis, observations, here, outside, like = row
    return RankedCandidate(
        hardware_type=name,
        throughput=throughput,
        lower=lower,
        upper=upper,
        cost_per_hour=_finite(cost_per_hour),
        throughput_per_cost=_finite(per_cost),
        score=score,
        basis=basis,
        observations=observations,
        here=here,
        outside=outside if like is None else _outside_as(outside, like),
    )


def _outside_as(outside: tuple[str, ...], like: str) -> tuple[str, ...]:
    return (*(name for name in outside if name != "hardware type"), f"hardware type (as {like})")


def _excluded(row: _Row, catalog: Catalog) -> ExcludedCandidate:
    name, reason, throughput, *_ = row
    return ExcludedCandidate(
        hardware_type=name,
        reason=catalog.why_unlisted(name) if reason == NO_SPECIFICATION else REASONS[reason] or "",
        throughput=_finite(throughput),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
