"""Rules of one line that a recipe has to beat: history by name, achieved FLOP/s, and laws of scaling."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features import architecture
from leap.predictor.features.batch import NAMES, Floats, HardwareTable, Indices
from leap.predictor.models.serving import Prediction
from leap.predictor.models.structured.replicates import group_codes, grouped_median
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.evaluation.median_chain import ChainOfMedians
from leap.schemas.hardware import SPECIFICATIONS

#: Serial shares that Amdahl's law is tried with.
SERIAL_SHARES: Floats = np.concatenate(([0.0], np.logspace(-6, 0, 61)))


class Estimator(Protocol):
    """One way to learn ln throughput from attempts."""

    def fit(self, training: TrainingSet) -> Any:
        """Learn `training.y` from rows in the order of submission."""

    def predict(self, attempts: TrainingSet) -> Prediction:
        """ln throughput of (n,) attempts on the hardware type that each ran on; NaN where it has no answer.

        Of `attempts` it may look at what is known at launch, never at `y`.
        """


class Chain:
    """The chain of medians; it has no answer for a model type that never ran."""

    def fit(self, training: TrainingSet) -> None:
        """See `Estimator`."""
        self._chain = ChainOfMedians().fit(training.rows, training.y)

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        return Prediction(self._chain.answer(attempts.rows))


class _Medians:
    """Medians of a value by some columns, the most specific key that has any first."""

    keys: Sequence[tuple[str, ...]]

    def fit(self, training: TrainingSet) -> None:
        """See `Estimator`."""
        self._columns = _columns(training)
        self._value = training.y - self._known(training)

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        usable, columns = ~np.isnan(self._value), _columns(attempts)
        answer = np.full(len(attempts), np.nan)
        for key in self.keys if usable.any() else ():
            both = [np.concatenate((self._columns[name][usable], columns[name])) for name in key]
            code = group_codes(*both) if key else np.zeros(usable.sum() + len(attempts), dtype=np.intp)
            median = grouped_median(code[: usable.sum()], self._value[usable], int(code.max(initial=-1)) + 1)
            answer = np.where(np.isnan(answer), median[code[usable.sum() :]], answer)
        return Prediction(answer + self._known(attempts))

    def _known(self, attempts: TrainingSet) -> Floats:
        """(n,) what of ln throughput the rule takes for known at launch."""
        return np.log(attempts.rows["accelerators"])


class AchievedRate(_Medians):
    """Median achieved FLOP/s of an accelerator of the same hardware type and precision, over the FLOP of a sample.

    It has no answer where these are not stated.
    """

    keys = (("hardware_type", "precision"), ("hardware_type",), ())

    def _known(self, attempts: TrainingSet) -> Floats:
        flops = _flops(attempts)
        return super()._known(attempts) - np.log(np.where(flops > 0, flops, np.nan))


class PerAccelerator(_Medians):
    """The chain of medians per accelerator."""

    keys = (("model_type", "hardware_type", "batch_of_one"), ("model_type", "hardware_type"), ("model_type",))


class Linear(_Medians):
    """Linear scaling from the nearest number of accelerators of the same model and hardware type.

    Of the same batch on an accelerator where there is one.
    """

    keys = (("model_type", "hardware_type", "batch_of_one"), ("model_type", "hardware_type"))

    def fit(self, training: TrainingSet) -> None:
        """See `Estimator`."""
        super().fit(training)
        self._scale = np.log(training.rows["accelerators"])

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        now, scale = _columns(attempts), np.log(attempts.rows["accelerators"])
        answer = np.full(len(attempts), np.nan)
        for key in self.keys:
            past, asked = _paired(self._columns, now, key)
            asked[~np.isnan(answer)] = -1
            for code in np.intersect1d(past, asked):
                of, here = np.flatnonzero(past == code), np.flatnonzero(asked == code)
                known, number = np.unique(self._scale[of], return_inverse=True)
                median = grouped_median(number, self._value[of], len(known))
                answer[here] = median[np.abs(scale[here, None] - known).argmin(axis=1)]
        return Prediction(answer + scale)


class Amdahl(_Medians):
    """Amdahl's law: n / (1 + s (n - 1)) times one accelerator's rate; s by model type, the rate by pair and batch."""

    keys = PerAccelerator.keys

    def fit(self, training: TrainingSet) -> None:
        """See `Estimator`."""
        self._serial: dict[str, float] = {}
        columns, plain = _columns(training), training.y - np.log(training.rows["accelerators"])
        for name in np.unique(columns["model_type"].astype(str)).tolist():
            of = np.flatnonzero(columns["model_type"] == name)
            pair = group_codes(columns["hardware_type"][of], columns["batch_of_one"][of])
            lost = np.log1p(SERIAL_SHARES[:, None] * (training.rows["accelerators"][of] - 1.0))
            rates = [plain[of] + row for row in lost]
            off = [np.abs(rate - grouped_median(pair, rate, pair.max() + 1)[pair]).sum() for rate in rates]
            self._serial[name] = float(SERIAL_SHARES[int(np.argmin(off))])
        super().fit(training)

    def _known(self, attempts: TrainingSet) -> Floats:
        accelerators = attempts.rows["accelerators"]
        serial = np.array([self._serial.get(name, 0.0) for name in attempts.rows["model_type"].tolist()])
        return super()._known(attempts) - np.log1p(serial * (accelerators - 1.0))


def specification_orders(table: HardwareTable, hardware_type: Sequence[str]) -> dict[str, Floats]:
    """Name to (n,) what hardware types are sorted by, the highest first; NaN where it is not known."""
    position = table.index(hardware_type)
    by = {name: table.specifications[position, column] for column, name in enumerate(SPECIFICATIONS)}
    peak = np.fmax(by["fp16_tflops"], by["bf16_tflops"])
    return {
        "peak": np.where(np.isnan(peak), by["fp32_tflops"], peak),
        "bandwidth": by["memory_bandwidth_gb_s"],
        "price": table.price[position],
    }


def rules_of(attempts: TrainingSet, hold: str = "") -> dict[str, Callable[[], Estimator]]:
    """Name to a rule: those that attempts state enough for, and where scales are held out, laws of scaling."""
    rules: dict[str, Callable[[], Estimator]] = {"chain": Chain}
    if (_flops(attempts) > 0).any():
        rules["achieved_flops"] = AchievedRate
    if hold == "scale":
        rules |= {"chain_per_accelerator": PerAccelerator, "linear": Linear, "amdahl": Amdahl}
    return rules


def _flops(attempts: TrainingSet) -> Floats:
    """(n,) FLOP of a sample; NaN where they are not stated."""
    flops: Floats = attempts.pairs.jobs.architecture[:, architecture.NAMES.index("flops")]
    return flops


def _columns(attempts: TrainingSet) -> dict[str, NDArray[Any]]:
    """Columns that keys are made of."""
    rows, jobs = attempts.rows, attempts.pairs.jobs
    return {
        "model_type": rows["model_type"],
        "hardware_type": rows["hardware_type"],
        "batch_of_one": np.asarray(rows["batch_size"] / rows["accelerators"]),
        "precision": jobs.names[:, NAMES.index("precision")].astype(str),
    }


def _paired(
    past: Mapping[str, NDArray[Any]], now: Mapping[str, NDArray[Any]], key: Sequence[str]
) -> tuple[Indices, Indices]:
    """Codes of past and asked rows, equal where they agree in `key`."""
    code = group_codes(*(np.concatenate((past[name], now[name])) for name in key))
    split = len(past[key[0]])
    return code[:split], code[split:]
