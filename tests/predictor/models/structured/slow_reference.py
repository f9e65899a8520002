"""The structured recipe's serving form straight from its equations (docs/model.md), one row after the other."""

from collections.abc import Sequence

import numpy as np

from leap.predictor.features.batch import Floats, Rows, take
from leap.predictor.history.hash_index import Keys
from leap.predictor.history.key_table import KeyTable
from leap.predictor.models.physics.calibration import CLASS, HARDWARE, MODEL, PAIR, SCALE
from leap.predictor.models.structured.exact_history import LEVELS
from leap.predictor.models.structured.family_effects import FADING_DAYS, KEYS, FamilyEffects
from leap.predictor.models.structured.gating import FLOOR, Gate
from leap.predictor.models.structured.gp_prior import Prior
from leap.predictor.models.structured.inputs import BATCH, UNSEEN, Inputs, with_batch
from leap.predictor.models.structured.kernel import Kernel
from leap.predictor.models.structured.model import Structured


def estimate(model: Structured, rows: Rows) -> tuple[Floats, Floats]:
    """(n,) mean and deviation of ln throughput."""
    answers = [_estimate_one(model, take(rows, np.array([row]))) for row in range(len(rows["day"]))]
    mean, deviation = np.array(answers).T
    return mean, deviation


def covariance(kernel: Kernel, hardware: int, x: Floats, other_hardware: int, other_x: Floats) -> float:
    """k of two configurations of one model type."""
    total = 0.0
    for mixing, member in zip(kernel.mixing, kernel.member, strict=True):
        product = float(mixing @ kernel.tables[:, hardware, other_hardware])
        for factor in np.flatnonzero(member):
            column, length = kernel.column[factor], kernel.length[factor]
            if length == 0:
                product *= (x[column] - kernel.centre[column]) * (other_x[column] - kernel.centre[column])
            else:
                distance = np.sqrt(3) * abs(x[column] - other_x[column]) / length
                product *= (1 + distance) * np.exp(-distance)
        total += product
    return total


def _estimate_one(model: Structured, row: Rows) -> tuple[float, float]:
    prior_mean, prior_deviation = _prior(model.prior, row)
    keys, day = Keys.from_rows(row), float(row["day"][0])
    effect, variance, known = _family(model.process, keys, day)
    prior_mean += effect
    alone = prior_deviation
    if known:
        prior_deviation = np.sqrt(variance + model.process.variances.noise)
    experts: list[tuple[float, float, float, float]] = []
    for kind, columns in enumerate(LEVELS):
        statistics = _look_up(model.history.table, len(LEVELS), kind, keys, columns)
        for part in (0, 3):
            if statistics is None:
                experts.append((np.nan,) * 4)
            else:
                experts.append((*statistics[part : part + 3], max(day - statistics[6], 0.0)))
    if all(np.isnan(expected) for expected, *_ in experts):
        return prior_mean, max(alone, prior_deviation) if known else alone
    return _gate(model.gate, prior_mean, prior_deviation, experts)


def _prior(prior: Prior, row: Rows) -> tuple[float, float]:
    points = prior.encoding.points(row)
    model, hardware, x = int(points.model[0]), int(points.hardware[0]), points.x[0]
    mean, variance = _posterior(prior, model, hardware, x)
    low, high = prior.batch_range[model]
    if not row["batch_size"][0] > 0 and low < high:
        ends = []
        for batch in (low, high):
            moved = x.copy()
            moved[BATCH] = batch
            ends.append(
                _posterior(prior, model, hardware, moved)[0] + _shared(prior, with_batch(row, moved[None]), hardware)
            )
        variance += (ends[1] - ends[0]) ** 2 / 12
    return _with_utilisation(prior, row, model, hardware, mean + x[0], variance + prior.noise)


def _with_utilisation(
    prior: Prior, row: Rows, model: int, hardware: int, mean: float, variance: float
) -> tuple[float, float]:
    process, ran = prior.utilisation, prior.ran
    assert process is not None and ran is not None
    row = with_batch(row, prior.encoding.points(row).x)
    mean += _shared(prior, row, hardware)
    work, cells = process.encoding(row), process.cells
    group = SCALE if ran[model, hardware] else PAIR
    group = HARDWARE if not ran[:, hardware].any() else group
    group = MODEL if not ran[model].any() else group
    group = CLASS if group == MODEL and work.model[0, 0] not in cells.model[:, 0] else group
    if group >= MODEL:
        variance = prior.noise + process.level.sum()
    if group != SCALE:
        variance += float(process.estimate(row, np.array([0]), np.array([hardware]), np.array([True]))[1][0])
    return mean, np.sqrt(variance) * prior.calibration[group]


def _shared(prior: Prior, row: Rows, hardware: int) -> float:
    process = prior.utilisation
    assert process is not None
    work, cells = process.encoding(row), process.cells
    x, alike = work.x[0] * process.inverse, np.full(len(cells.dual), process.variances[0])
    apart = np.square(cells.x - x).sum(axis=1) + process.hardware[hardware, cells.hardware]
    for column, distance in enumerate(process.apart):
        apart += distance * (cells.names[:, column] != work.names[0, column])
    for part, more in enumerate(process.variances[1:]):
        alike += more * (cells.model[:, part] == work.model[0, part])
    smooth = alike / (1 + apart / 2) @ cells.dual
    return float(process.mean[hardware] + work.x[0] @ process.slope - work.flops[0] + smooth)


def _posterior(prior: Prior, model: int, hardware: int, x: Floats) -> tuple[float, float]:
    shared = prior.shared(Inputs(np.array([model]), np.array([hardware]), x[None]))[0]
    mean = prior.mean + shared @ prior.weights
    variance = covariance(prior.kernel, hardware, x, hardware, x)
    if model != UNSEEN:
        block = prior.blocks[model]
        landmarks = zip(block.landmarks.hardware, block.landmarks.x, strict=True)
        phi = np.array([covariance(prior.kernel, hardware, x, h, other) for h, other in landmarks]) @ block.whiten
        mean += phi @ block.weights
        variance = max(variance - phi @ phi, 0.0) + np.square(phi @ block.root).sum()
        shared = shared - phi @ block.coupling
    return float(mean), float(variance + np.square(shared @ prior.root).sum())


def _look_up(table: KeyTable, kinds: int, kind: int, keys: Keys, columns: tuple[str, ...]) -> Floats | None:
    wanted = [keys.of(columns) if other == kind else np.zeros(1, np.uint64) for other in range(kinds)]
    values: Floats = table.find(wanted, np.nan)[kind, 0]
    return None if np.isnan(values).all() else values


def _family(process: FamilyEffects, keys: Keys, day: float) -> tuple[float, float, bool]:
    variances, mean, variance, known = process.variances, 0.0, 0.0, False
    rest = variances.total + variances.noise
    fading = variances.fading
    for term, (columns, own) in enumerate(zip(KEYS, variances.terms, strict=True)):
        values = _look_up(process.table, len(KEYS), term, keys, columns)
        weight, days, decayed, latest = (0.0,) * 4 if values is None else values
        rest -= own
        mean += own * weight
        variance += own * rest / (rest + days * own)
        if term == 0:
            known = days > 0
            kept = np.exp(-max(day - latest, 0.0) / FADING_DAYS)
            mean += fading * kept * decayed
            variance += fading * (1 - kept**2 * fading / (fading + variances.noise)) if known else fading
    return mean, variance, known


def _gate(gate: Gate, mean: float, deviation: float, experts: Sequence[tuple[float, ...]]) -> tuple[float, float]:
    scores, means = [gate.intercept[0] + gate.slope[-1] * np.log(deviation / 0.1)], [mean]
    for intercept, (expected, count, spread, age) in zip(gate.intercept[1:], experts, strict=True):
        number, width, distance = np.log(max(count, 1.0)), np.log(spread / 0.05 + 0.1), abs(expected - mean)
        near = np.log(distance / 0.05 + 0.2), np.log(distance / deviation + 0.2)
        seen = (number, width, number * width, np.log1p(age / 30) - 1, *near)
        scores.append(-np.inf if np.isnan(expected) else intercept + float(np.dot(gate.slope[:-1], seen)))
        means.append(0.0 if np.isnan(expected) else expected)
    weight = np.exp(np.array(scores) - max(scores))
    weight /= weight.sum()
    combined = float(weight @ means)
    spreads = [0.0 if np.isnan(spread) else np.log(spread + FLOOR) for _, _, spread, _ in experts]
    apart = np.sqrt(weight @ np.square(np.array(means) - combined))
    size, own = np.log(deviation), weight[0]
    error = (1.0, own, size, own * size, float(weight[1:] @ spreads), np.log(apart + FLOOR))
    return combined, float(np.exp(np.dot(gate.error, error)))
