"""The chain of medians: the baseline that a recipe has to beat where it answers."""

import numpy as np

from leap.predictor.features.batch import Floats, Rows
from leap.predictor.history.hash_index import Keys
from leap.predictor.history.sorted_hashes import Hashes
from leap.predictor.models.structured.replicates import group_codes, grouped_median

#: What makes an attempt seen: an earlier day ran the model on the hardware type with as many accelerators.
SEEN_KEY: tuple[str, ...] = ("model_type", "hardware_type", "accelerators")


class ChainOfMedians:
    """The baseline: the median of the most specific key that has history, then of throughput per accelerator."""

    KEYS = (
        (("model_type", "hardware_type", "accelerators", "batch_size"), False),
        (SEEN_KEY, False),
        (("model_type", "hardware_type"), True),
        (("model_type",), True),
    )

    def fit(self, rows: Rows, y: Floats) -> "ChainOfMedians":
        """Learn from (n,) ln throughput."""
        self._past, self._y, self._accelerators = self._keys(rows), y, rows["accelerators"]
        return self

    def predict(self, rows: Rows) -> Floats:
        """(n,) ln throughput; a model type that never ran is taken to reach one sample/s."""
        return np.nan_to_num(self.answer(rows))

    def answer(self, rows: Rows) -> Floats:
        """(n,) ln throughput; NaN for a model type that never ran."""
        split = len(self._y)
        answer: Floats = np.full(len(rows["day"]), np.nan)
        for past, now, (_, per_accelerator) in zip(self._past, self._keys(rows), self.KEYS, strict=True):
            key = group_codes(np.concatenate((past, now)))
            scale = np.log(self._accelerators) if per_accelerator else np.zeros(split)
            median = grouped_median(key[:split], self._y - scale, int(key.max(initial=-1)) + 1)[key[split:]]
            median = median + (np.log(rows["accelerators"]) if per_accelerator else 0.0)
            answer = np.where(np.isnan(answer), median, answer)
        return answer

    def _keys(self, rows: Rows) -> list[Hashes]:
        keys = Keys.from_rows({name: rows[name] for name in self.KEYS[0][0]})
        return [keys.of(names) for names, _ in self.KEYS]
