"""Which model types are without a definition, and how those with one are predicted beside them."""

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np

from leap.predictor.features.batch import Floats
from leap.predictor.history.definitions import described
from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.retrainer.dataset.training_set import TrainingSet

#: Model types that are named.
NAMED = 10


class Definedness(msgspec.Struct, frozen=True, kw_only=True):
    """Definitions among the attempts of a window, and scores of the held-out ones.

    Attributes
    ----------
    share
        Attempts whose model type has a definition, in percent.
    missing
        Model types without one, the most frequent: name to the percentage of all attempts.
    more
        Number of model types without one beyond those.
    stated, unstated
        Scores of the champion on held-out attempts with and without a definition.
    new_stated, new_unstated
        Those of the model types of which none had finished before.
    """

    share: float
    missing: dict[str, float]
    more: int
    stated: Accuracy | None
    unstated: Accuracy | None
    new_stated: Accuracy | None
    new_unstated: Accuracy | None


def definedness(training: TrainingSet, held_out: TrainingSet, predicted: Floats) -> Definedness:
    """Of the attempts of a run.

    Parameters
    ----------
    predicted
        (n,) samples/s of the held-out attempts, by the champion.
    """
    counts: Counter[str] = Counter()
    for part in (training, held_out):
        jobs = part.pairs.jobs
        counts.update(jobs.model_type[~described(jobs)].tolist())
    total = len(training) + len(held_out)
    stated, measured = described(held_out.pairs.jobs), np.exp(held_out.y)
    new = np.isnan(held_out.pairs.history["model_type"][:, 0])
    return Definedness(
        share=round(100 * (1 - counts.total() / total), 1),
        missing={name: round(100 * count / total, 1) for name, count in counts.most_common(NAMED)},
        more=max(0, len(counts) - NAMED),
        stated=accuracy(predicted[stated], measured[stated]),
        unstated=accuracy(predicted[~stated], measured[~stated]),
        new_stated=accuracy(predicted[new & stated], measured[new & stated]),
        new_unstated=accuracy(predicted[new & ~stated], measured[new & ~stated]),
    )


def by_definition(found: Definedness) -> tuple[tuple[str, Accuracy | None], ...]:
    """What each score is of, and the score."""
    return (
        ("with a definition", found.stated),
        ("without", found.unstated),
        ("new model types with one", found.new_stated),
        ("new without", found.new_unstated),
    )


def in_words(found: Definedness) -> Iterator[str]:
    """A line on what is missing, and one on what was measured; nothing where no attempt has a definition to miss."""
    if found.missing:
        names = ", ".join(f"{name} ({share:g}%)" for name, share in found.missing.items())
        more = f" and {found.more:,} more" if found.more else ""
        yield (
            f"definitions: of {found.share:g}% of the attempts; of none of {names}{more}; "
            "`leap describe` writes them, for `model` of a submission or a mapping"
        )
    scores = [
        f"{name} w20 {each.w20:g}, MdAPE {each.mdape:g} (n {each.n:,})" for name, each in by_definition(found) if each
    ]
    if found.stated and found.unstated:
        yield f"held out: {'; '.join(scores)}"
