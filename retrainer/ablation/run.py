"""One family on one problem, in a process of its own, so that memory and CPU seconds are its own."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leap.predictor.features.batch import Floats
from leap.predictor.models.accuracy import Accuracy
from leap.predictor.models.serving import Prediction
from leap.predictor.routing.provenance import basis
from leap.retrainer.ablation.candidate import Context, Estimator
from leap.retrainer.ablation.candidates import FAMILIES
from leap.retrainer.ablation.held_out import Truth, truth_of
from leap.retrainer.ablation.permutation_importance import importance
from leap.retrainer.ablation.problem import Problem, Source
from leap.retrainer.bench.resource_meter import ResourceMeter, end_with_parent

RESULTS = "results.jsonl"


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be measured; two that are equal are measured once."""

    source: Source
    family: str
    seed: int = 0
    without: str = ""
    options: dict[str, str] = {}
    importance: bool = False


class Cost(msgspec.Struct, frozen=True):
    """What fitting and predicting took.

    Attributes
    ----------
    fit_cpu_s, fit_s
        CPU and wall-clock seconds; of all fits together where there are several.
    predict_cpu_ms
        Milliseconds of CPU per 1000 rows, predicted together.
    peak_mib
        Greatest resident memory of the process while it fitted, rows included.
    size
        Bytes of what serving would load.
    """

    fit_cpu_s: float
    fit_s: float
    predict_cpu_ms: float
    peak_mib: float
    size: int


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the results.

    Attributes
    ----------
    name
        Row: the family, or another reading of the same fit.
    trained_on
        Rows of the last fit.
    splits
        Split (see `Truth.splits`) to its scores.
    importance
        Of the last fit, where it was asked for.
    error
        Why there are none, if there are none.
    """

    run: Run
    name: str
    trained_on: int = 0
    splits: dict[str, Accuracy | None] = {}
    cost: Cost | None = None
    importance: dict[str, float] = {}
    error: str | None = None

    @property
    def file(self) -> str:
        """Name of the file with what it predicted."""
        return f"{self.name}-{sha256(msgspec.json.encode(self.run)).hexdigest()[:12]}.npz"

    def predicted(self, folder: Path) -> dict[str, NDArray[Any]]:
        """(held out,) `mean` of ln throughput, `spread` (NaN where the family has none), and `basis`."""
        with np.load(folder / self.file) as stored:
            return {name: stored[name] for name in stored.files}

    def truth(self, folder: Path) -> Truth:
        """What it is judged on."""
        return truth_of(self.run.source, self.run.seed, folder)


def measure_all(runs: Iterable[Run], folder: Path) -> Iterator[Result]:
    """Measure what `folder` does not have yet, one process after the other; yields what was there first.

    A family that fails, or whose process dies, is a result with its error, and is tried again the next time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = list(runs)
    there = [result for result in read(folder) if result.run in wanted and not result.error]
    yield from there
    done = [result.run for result in there]
    for run in wanted:
        if run in done:
            continue
        with ProcessPoolExecutor(1, get_context("spawn"), initializer=end_with_parent) as process:
            try:
                results = process.submit(measure, run, folder).result()
            except Exception as error:  # whatever it is, the other families go on
                results = [Result(run, run.family, error=f"{type(error).__name__}: {error}"[:500])]
        with (folder / RESULTS).open("ab") as lines:
            lines.writelines(msgspec.json.encode(result) + b"\n" for result in results)
        yield from results


def read(folder: Path) -> list[Result]:
    """Results so far; of one run and name the last."""
    path = folder / RESULTS
    lines = path.read_bytes().splitlines() if path.exists() else []
    results = [msgspec.json.decode(line, type=Result) for line in lines]
    return list({result.file: result for result in results}.values())


def measure(run: Run, folder: Path) -> list[Result]:
    """Fit, predict and score here and now; what was predicted is written to `folder`."""
    problem = run.source.problem(run.seed, run.without)
    family, context = FAMILIES[run.family], Context(run.seed, problem.models, run.options)
    of_fold: list[dict[str, Prediction]] = []
    rests_on = np.full(len(problem.data), "", dtype=object)
    fitting, predicting = ResourceMeter(), ResourceMeter()
    for (training, asked), (_, here) in zip(problem.folds(), problem.spans, strict=True):
        with fitting:
            estimator = family.make(context)
            estimator.fit(training)
        with predicting:
            said = estimator.predict(asked)
        others = {name: read_as(estimator).predict(asked) for name, read_as in family.also.items()}
        of_fold.append({family.name: said, **others})
        rests_on[here] = basis(asked.pairs)
    truth = truth_of(run.source, run.seed, folder)
    cost = Cost(
        fit_cpu_s=round(fitting.cpu_s, 1),
        fit_s=round(fitting.wall_s, 1),
        predict_cpu_ms=round(1e6 * predicting.cpu_s / len(truth.y), 1),
        peak_mib=round(fitting.peak_mib),
        size=size(estimator),
    )
    results = []
    for name in of_fold[0]:
        mean, spread = _in_order(problem, [said[name] for said in of_fold])
        lost = importance(estimator, asked) if run.importance and name == family.name else {}
        results.append(Result(run, name, len(training), truth.scores(mean), cost, lost))
        known = rests_on[problem.judged].astype(str)
        np.savez(folder / results[-1].file, mean=mean, spread=spread, basis=known)
    return results


def _in_order(problem: Problem, said: Sequence[Prediction]) -> tuple[Floats, Floats]:
    """Mean and spread of the held-out attempts in the order of submission; NaN where there is none."""
    whole = np.full((2, len(problem.data)), np.nan)
    for (_, here), prediction in zip(problem.spans, said, strict=True):
        whole[0, here] = prediction.mean
        whole[1, here] = np.nan if prediction.spread is None else prediction.spread
    mean, spread = whole[:, problem.judged]
    return mean, spread


def size(estimator: Estimator) -> int:
    """Bytes of what serving would load."""
    with TemporaryDirectory() as folder:
        estimator.save(Path(folder))
        return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
