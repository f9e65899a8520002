"""A job as text, for models of language: what is known at launch, most telling first."""

import math

from leap.predictor.features import architecture
from leap.predictor.features.batch import NAMES, NUMBERS
from leap.retrainer.dataset.training_set import TrainingSet

#: Values of the summary that a model's text tells.
_TOLD = ("parameters", "flops", "depth", "embedding_rows", "heads", "layer_width")
#: A number may be left out where it is 1.
_USUALLY_ONE = frozenset({"gradient_accumulation", "tensor_parallel", "pipeline_parallel", "expert_parallel"})


def texts(attempts: TrainingSet) -> list[str]:
    """One line a row: the hardware type, the model, the job, its configuration, its size."""
    jobs, hardware = attempts.pairs.jobs, attempts.pairs.hardware_type
    column = [architecture.NAMES.index(name) for name in _TOLD]
    serialized = []
    for row, job in enumerate(attempts.pairs.job):
        parts = [f"hardware {hardware[row]}", f"model {jobs.model_type[job]}", f"job {jobs.family[job]}"]
        numbers = zip(NUMBERS, jobs.numbers[job], strict=True)
        parts += [
            f"{name} {number(value)}"
            for name, value in numbers
            if not math.isnan(value) and not (value == 1 and name in _USUALLY_ONE)
        ]
        parts += [f"{name} {value}" for name, value in zip(NAMES, jobs.names[job], strict=True) if value is not None]
        summary = zip(_TOLD, jobs.architecture[job, column], strict=True)
        parts += [f"{name} {number(value)}" for name, value in summary if not math.isnan(value)]
        parts += [f"{name} {value}" for name, value in sorted(jobs.extra[job].items())]
        serialized.append("; ".join(parts).replace("_", " "))
    return serialized


def number(value: float) -> str:
    """As people write it: from a million on three digits and a word for the size.

    >>> [number(value) for value in (0.25, 4096.0, 25_557_032.0, 3.1e15)]
    ['0.25', '4096', '25.6 million', '3100 trillion']
    """
    for size, word in ((1e12, " trillion"), (1e9, " billion"), (1e6, " million")):
        if abs(value) >= size:
            return f"{float(f'{value / size:.3g}'):g}{word}"
    return f"{value:g}"
