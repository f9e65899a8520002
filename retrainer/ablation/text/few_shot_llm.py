"""A generative model that answers the throughput as text, shown the most similar past attempts. Group `ablation`.

The model is a folder in Hugging Face's layout (Gemma, Llama, ...), run through the transformers library and PyTorch
where these are installed; or a file of its recorded answers, so that a run made elsewhere is scored here.
"""

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from leap.predictor.models.serving import Prediction
from leap.retrainer.ablation.text.nearest_neighbours import Neighbours
from leap.retrainer.ablation.text.serialization import texts
from leap.retrainer.dataset.training_set import TrainingSet

TASK = "Training jobs and their throughput in samples per second.\n\n"
EXAMPLES, BUDGET, ANSWER_TOKENS = 16, 2048, 12
_NUMBER = re.compile(
    r"(\d[\d,_ ]*(?:\.\d+)?|\.\d+)(?:[eE]([+-]?\d{1,2}))?\s*(k|m|thousand|million|billion)?\b", re.IGNORECASE
)
_SIZES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "billion": 1e9}

#: Number of tokens of a text.
Counter = Callable[[str], int]


class Generator(Protocol):
    """Prompts to what the model goes on with."""

    def count(self, text: str) -> int:
        """Tokens of a text."""

    def answer(self, prompts: Sequence[str]) -> list[str]:
        """One text a prompt."""


def prompt(question: str, examples: Sequence[tuple[str, float]], budget: int, count: Counter) -> str:
    """The task, examples, and the question last.

    Parameters
    ----------
    examples
        Text and samples/s, the most similar first: so many of them as fit, the most similar nearest to the question.
    budget
        Tokens. A question that alone is longer loses its end, which tells least.

    Examples
    --------
    >>> words = lambda text: len(text.split())
    >>> shown = [("hardware A; batch 8", 1234.5), ("hardware B; batch 8", 980.0)]
    >>> print(prompt("hardware A; batch 9", shown, 25, words))
    Training jobs and their throughput in samples per second.
    <BLANKLINE>
    Job: hardware A; batch 8
    Throughput: 1230
    <BLANKLINE>
    Job: hardware A; batch 9
    Throughput:
    """
    parts = question.split("; ")
    while len(parts) > 1 and count(TASK + _asked("; ".join(parts))) > budget:
        parts.pop()
    asked = _asked("; ".join(parts))
    left, shown = budget - count(TASK + asked), []
    for text, throughput in examples:
        example = f"{_asked(text)} {written(throughput)}\n\n"
        left -= count(example)
        if left < 0:
            break
        shown.append(example)
    return TASK + "".join(reversed(shown)) + asked


def _asked(text: str) -> str:
    return f"Job: {text}\nThroughput:"


def written(throughput: float) -> str:
    """Three digits, without an exponent.

    >>> written(0.012345), written(98_765.4)
    ('0.0123', '98800')
    """
    return np.format_float_positional(float(f"{throughput:.3g}"), trim="-")


def parsed(answer: str) -> float:
    """Samples/s of the first number in an answer; NaN where there is none, or none above zero.

    >>> [parsed(text) for text in (" 1,234.5 samples/s", "about 12.5k", "1.2e4.", "3.4 million", "-", "0")]
    [1234.5, 12500.0, 12000.0, 3400000.0, nan, nan]
    """
    match = _NUMBER.search(answer[:200])
    if not match:
        return float("nan")
    digits, exponent, word = match.groups()
    value = float(re.sub(r"[,_ ]", "", digits)) * 10.0 ** int(exponent or 0) * _SIZES.get((word or "").lower(), 1.0)
    return value if 0 < value < 1e30 else float("nan")


class Generative:
    """Asks about every row; one that is not answered with a number has no prediction."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def fit(self, training: TrainingSet) -> "Generative":
        """See `Estimator`; what is learned is what will be shown."""
        self._neighbours = Neighbours(training)
        self._shown = list(zip(texts(training), np.exp(training.y).tolist(), strict=True))
        return self

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        answers = self._generator.answer(self.prompts(attempts))
        return Prediction(np.log([parsed(answer) for answer in answers]))

    def prompts(self, attempts: TrainingSet) -> list[str]:
        """What is asked, row by row."""
        nearest = self._neighbours.nearest(attempts, EXAMPLES)
        return [
            prompt(question, [self._shown[row] for row in rows], BUDGET, self._generator.count)
            for question, rows in zip(texts(attempts), nearest.tolist(), strict=True)
        ]

    def save(self, folder: Path) -> None:
        """See `Estimator`; the model is not counted."""
        (folder / "shown.json").write_bytes(msgspec.json.encode(self._shown))


def load(model: Path, record: Path | None = None) -> Generator:
    """The generator of a folder, or of a file of recorded answers."""
    return Recorded(model) if model.is_file() else Causal(model, record)


class Answered(msgspec.Struct):
    """One line of a record."""

    question: str
    answer: str


class Recorded:
    """Answers of an earlier run on the same rows; a question that is not there, or no more, has an empty answer."""

    def __init__(self, file: Path) -> None:
        self._answers: dict[str, list[str]] = {}
        for line in file.read_bytes().splitlines():
            known = msgspec.json.decode(line, type=Answered)
            self._answers.setdefault(known.question, []).append(known.answer)

    def count(self, text: str) -> int:
        """Nothing is cut: nobody reads it."""
        return 0

    def answer(self, prompts: Sequence[str]) -> list[str]:
        """See `Generator`; a question that was asked several times has its answers in that order."""
        left = {question: iter(answers) for question, answers in self._answers.items()}
        return [next(left.get(key(text), iter(())), "") for text in prompts]


def key(text: str) -> str:
    """What a prompt is recorded under: its question, whatever was shown before."""
    return sha256(text.rpartition("Job: ")[2].encode()).hexdigest()


class Causal:
    """A causal language model, asked greedily; answers are written to `record` if it is given."""

    def __init__(self, folder: Path, record: Path | None = None) -> None:
        try:
            import torch
            import transformers
        except ModuleNotFoundError as error:
            raise ValueError(f"{folder}: needs {error.name}; run: pip install torch transformers") from None
        self._torch, self._record = torch, record
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
        self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)

    def count(self, text: str) -> int:
        """See `Generator`."""
        return len(self._tokenizer(text).input_ids)

    def answer(self, prompts: Sequence[str]) -> list[str]:
        """See `Generator`."""
        answers = []
        for text in prompts:
            ids = self._tokenizer(text, return_tensors="pt").input_ids
            with self._torch.no_grad():
                whole = self._model.generate(ids, max_new_tokens=ANSWER_TOKENS, do_sample=False)
            answers.append(self._tokenizer.decode(whole[0, ids.shape[1] :], skip_special_tokens=True))
        if self._record:
            lines = [
                msgspec.json.encode(Answered(key(text), said)) for text, said in zip(prompts, answers, strict=True)
            ]
            self._record.write_bytes(b"\n".join(lines) + b"\n")
        return answers
