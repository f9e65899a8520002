"""Record what PyTorch says of small modules, for `test_torch_trace.py`: the suite has no PyTorch.

``pip install torch msgspec``, in an environment of its own, then
``python -m tests.predictor.describe.record_traces > tests/predictor/describe/traces.jsonl``. To be run again
whenever `predictor/describe/torch_module.py` changes.
"""

import sys
from typing import Any

import msgspec
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from leap.predictor.describe.torch_module import trace

Made = tuple[nn.Module, tuple[Any, ...]]


class Residual(nn.Module):
    """Two convolutions beside a shorter way."""

    def __init__(self, width_in: int, width_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width_in, width_out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(width_out)
        self.second = nn.Conv2d(width_out, width_out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(width_out)
        self.shorter = nn.Conv2d(width_in, width_out, 1, stride)

    def forward(self, x: Any) -> Any:
        y = nn.functional.relu(self.first_norm(self.first(x)))
        return nn.functional.relu(self.second_norm(self.second(y)) + self.shorter(x))


class Recurrent(nn.Module):
    """Tokens through a recurrent layer to words."""

    def __init__(self, layer: Any, width: int) -> None:
        super().__init__()
        self.words, self.layer, self.out = nn.Embedding(100, 16), layer, nn.Linear(width, 100)

    def forward(self, tokens: Any) -> Any:
        return self.out(self.layer(self.words(tokens))[0])


class Recommender(nn.Module):
    """Bags of rows and numbers, their products, and a score."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(1000 * n, 16, mode="sum") for n in (1, 2, 3))
        self.bottom, self.top = nn.Linear(13, 16), nn.Linear(32, 1)

    def forward(self, numbers: Any, ids: Any) -> Any:
        rows = [nn.functional.relu(self.bottom(numbers)), *(bag(ids[:, n]) for n, bag in enumerate(self.bags))]
        stacked = torch.stack(rows, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        return self.top(torch.cat([rows[0], products.flatten(1)], 1))


class Decoder(nn.Module):
    """A tied language model with grouped, causal attention, in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(100, 64), nn.RMSNorm(64)
        self.query, self.key_value, self.after = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)
        self.out = nn.Linear(64, 100, bias=False)
        self.out.weight = self.words.weight

    def forward(self, tokens: Any) -> Any:
        x = self.norm(self.words(tokens))
        query = self.query(x).view(1, -1, 4, 16).transpose(1, 2)
        key, value = self.key_value(x).view(1, -1, 4, 16).transpose(1, 2).split(2, 1)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.out(x + self.after(attended.transpose(1, 2).flatten(2)))


def mlp() -> Made:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), (torch.zeros(1, 64),)


def residual() -> Made:
    stem = (nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return nn.Sequential(*stem, Residual(16, 32, 1), Residual(32, 64, 2), *head), (torch.zeros(1, 3, 64, 64),)


def depthwise() -> Made:
    layers = (nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU6(), nn.Conv2d(8, 16, 1), nn.ConvTranspose2d(16, 4, 2, 2))
    return nn.Sequential(*layers), (torch.zeros(1, 8, 32, 32),)


def encoder() -> Made:
    return nn.TransformerEncoderLayer(64, 4, 256, batch_first=True), (torch.zeros(1, 12, 64),)


def lstm() -> Made:
    return Recurrent(nn.LSTM(16, 32, 2, batch_first=True), 32), (torch.zeros(1, 7, dtype=torch.int64),)


def gru() -> Made:
    return Recurrent(nn.GRU(16, 32, batch_first=True, bidirectional=True), 64), (torch.zeros(1, 7, dtype=torch.int64),)


def recommender() -> Made:
    return Recommender(), (torch.zeros(1, 13), torch.zeros(1, 3, 5, dtype=torch.int64))


def decoder() -> Made:
    return Decoder().to(torch.bfloat16), (torch.zeros(1, 12, dtype=torch.int64),)


def main() -> None:
    """One line a module: its trace, beside the figures of PyTorch itself."""
    torch.backends.mha.set_fastpath_enabled(False)  # a fused layer is not counted
    for make in (mlp, residual, depthwise, encoder, lstm, gru, recommender, decoder):
        recorded = trace(f"{__name__}:{make.__name__}")
        with torch.device("meta"):
            module, inputs = make()
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            module.eval()(*inputs)
        figures = {"parameters": sum(each.numel() for each in module.parameters()), "flops": counter.get_total_flops()}
        line = {"name": make.__name__, "torch": str(torch.__version__), **figures, "trace": recorded}
        sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")


if __name__ == "__main__":
    main()
