"""The comparison: one line a family, means over the seeds, with intervals; as text and as a figure."""

from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from leap.predictor.features.batch import Floats
from leap.predictor.models.accuracy import Accuracy
from leap.retrainer.ablation.held_out import Truth
from leap.retrainer.ablation.run import Cost, Result
from leap.retrainer.report import svg_charts as svg

#: Splits shown, with their headings.
SPLITS = {"known": "known", "first_seen": "new", "seen": "seen", "unseen": "unseen"}

Numbers = TypeVar("Numbers", Accuracy, Cost)


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One family, mean over seeds.

    Attributes
    ----------
    low, high
        95% bootstrap interval of w20 over all attempts that it answers, families of jobs drawn with replacement.
    """

    name: str
    without: str
    seeds: int
    trained_on: int
    splits: dict[str, Accuracy]
    low: float
    high: float
    cost: Cost | None = None


class Judged(NamedTuple):
    """One prediction of one seed: scores by split, and its w20 in every resample."""

    splits: dict[str, Accuracy | None]
    draws: Floats


def lines(results: Sequence[Result], folder: Path) -> list[Line]:
    """Ceilings first, then one line a family and category taken away, in the order of the results."""
    done = [result for result in results if not result.error and "=" not in result.run.without]
    truths = {result.run.seed: result.truth(folder) for result in done}
    table = []
    for name in next(iter(truths.values())).ceilings if truths else ():
        judgements = [_judge(result, result.ceilings[name]) for result in truths.values()]
        table.append(_line(f"({name})", "", 0, judgements, []))
    for name, without in dict.fromkeys((result.name, result.run.without) for result in done):
        of = [result for result in done if (result.name, result.run.without) == (name, without)]
        judgements = [_judge(truths[result.run.seed], result.predicted(folder)["mean"]) for result in of]
        table.append(_line(name, without, of[-1].trained_on, judgements, [result.cost for result in of if result.cost]))
    return table


def as_text(rows: Sequence[Line]) -> str:
    """A table for the terminal; of the splits, w20."""
    head = f"{'':28}{'w20':>6}{'95%':>13}{'w10':>6}{'w5':>6}{'MdAPE':>7}{'ratio':>7}{'cover':>7}"
    head += "".join(f"{heading:>7}" for heading in SPLITS.values())
    table = [f"{head}{'fit CPU s':>11}{'fit s':>9}{'ms/1000':>9}{'MiB':>7}{'size MB':>9}"]
    for line in rows:
        score = line.splits["all"]
        of_splits = (f"{line.splits[name].w20:.1f}" if name in line.splits else "" for name in SPLITS)
        text = f"{label(line):28}{score.w20:6.1f}{line.low:7.1f}-{line.high:5.1f}{score.w10:6.1f}{score.w5:6.1f}"
        text += f"{score.mdape:7.1f}{score.ratio:7.3f}{score.coverage:7.1f}"
        text += "".join(f"{w20:>7}" for w20 in of_splits)
        if line.cost:
            cost = line.cost
            text += f"{cost.fit_cpu_s:11.1f}{cost.fit_s:9.1f}{cost.predict_cpu_ms:9.1f}{cost.peak_mib:7.0f}"
            text += f"{cost.size / 1e6:9.2f}"
        table.append(text)
    return "\n".join(table)


def as_figure(table: Sequence[Line], title: str = "w20 on the attempts held out") -> str:
    """w20 as bars in a picture (SVG) of its own, with the reachable ceiling as a mark where there is one."""
    rows = [
        (label(line), line.splits["all"].w20, f"{line.splits['all'].w20:.1f} ({line.low:.1f} to {line.high:.1f})")
        for line in table
    ]
    mark = next((line.splits["all"].w20 for line in table if line.name == "(reachable)"), None)
    style = resources.files("leap.retrainer.report").joinpath("report.css").read_text(encoding="utf-8")
    picture = svg.svg(svg.bars(rows, mark), "title")
    start = picture.index(">") + 1
    opening = picture[: start - 1] + ' xmlns="http://www.w3.org/2000/svg">'
    return f'{opening}<title id="title">{escape(title)}</title><style>{style}</style>{picture[start:]}\n'


def label(line: Line) -> str:
    """Name of a line."""
    return f"{line.name} - {line.without}" if line.without else line.name


def _judge(truth: Truth, mean: Floats) -> Judged:
    return Judged(truth.scores(mean), truth.resampled(mean, truth.splits["all"]))


def _line(name: str, without: str, trained_on: int, judgements: Sequence[Judged], costs: Sequence[Cost]) -> Line:
    means = {}
    for split in judgements[0].splits:
        there = [scores for judged in judgements if (scores := judged.splits[split]) is not None]
        if there:
            means[split] = _mean(there)
    low, high = np.quantile(np.mean([judged.draws for judged in judgements], axis=0), (0.025, 0.975)).round(1).tolist()
    return Line(name, without, len(judgements), trained_on, means, low, high, _mean(costs) if costs else None)


def _mean(several: Sequence[Numbers]) -> Numbers:
    kind, means = type(several[0]), {}
    for name in kind.__struct_fields__:
        values = [getattr(scores, name) for scores in several]
        means[name] = round(sum(values) / len(values), None if isinstance(values[0], int) else 3)
    return kind(**means)
