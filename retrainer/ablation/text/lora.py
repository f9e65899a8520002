"""The encoder of text itself learns, through low-rank adapters: LoRA. PyTorch, transformers and peft.

After Hu et al., 2021. The adapters of all dense layers and a linear layer on the vector learn ln throughput from the
texts; then the adapted encoder stands where the frozen one would.
"""

from pathlib import Path
from typing import Any

import numpy as np

from leap.predictor.features.batch import Floats
from leap.predictor.models.serving import Prediction
from leap.retrainer.ablation.text.encoder_models import TextNetwork
from leap.retrainer.ablation.text.frozen_encoder import Transformer
from leap.retrainer.ablation.text.serialization import texts
from leap.retrainer.dataset.training_set import TrainingSet

BATCH, LEARNING_RATE = 32, 2e-4


class TunedTextNetwork:
    """`TextNetwork` over an encoder that was tuned on the same rows.

    Parameters
    ----------
    folder
        Encoder in Hugging Face's layout.
    rank
        Of the adapters.
    epochs
        Passes over the rows.
    """

    def __init__(self, folder: Path, rank: int = 8, epochs: int = 1, seed: int = 0) -> None:
        self._folder, self._rank, self._epochs, self._seed = folder, rank, epochs, seed

    def fit(self, training: TrainingSet) -> "TunedTextNetwork":
        """See `Estimator`."""
        self._encoder = Transformer(self._folder)
        y = (training.y - training.y.mean()) / (float(training.y.std()) or 1.0)
        self._tune(self._encoder, texts(training), y)
        self._network = TextNetwork(self._encoder, self._seed).fit(training)
        return self

    def predict(self, attempts: TrainingSet) -> Prediction:
        """See `Estimator`."""
        return self._network.predict(attempts)

    def save(self, folder: Path) -> None:
        """See `Estimator`: the network and the adapters; the encoder is not counted."""
        self._network.save(folder)
        self._adapted.save_pretrained(folder / "adapters")

    def _tune(self, encoder: Transformer, rows: list[str], y: Floats) -> None:
        """Put adapters into the encoder, learn them, and leave it ready to embed."""
        try:
            import peft
        except ModuleNotFoundError as error:
            raise ValueError(f"LoRA needs {error.name}; run: pip install peft") from None
        import torch

        torch.manual_seed(self._seed)
        adapters = peft.LoraConfig(r=self._rank, lora_alpha=2 * self._rank, target_modules="all-linear")
        self._adapted: Any = peft.get_peft_model(encoder.model, adapters)
        encoder.model = self._adapted.train()
        head = torch.nn.LazyLinear(1)
        head(encoder.pooled(rows[:1]))  # the first vector tells its width
        learned = [parameter for parameter in self._adapted.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW([*learned, *head.parameters()], lr=LEARNING_RATE)
        rng, target = np.random.default_rng(self._seed), torch.tensor(y, dtype=torch.float32)
        for _ in range(self._epochs):
            order = rng.permutation(len(rows))
            for start in range(0, len(order), BATCH):
                chosen = order[start : start + BATCH]
                predicted = head(encoder.pooled([rows[row] for row in chosen]))[:, 0]
                loss = torch.nn.functional.huber_loss(predicted, target[chosen], delta=0.5)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        encoder.model = self._adapted.eval()
