"""Frozen encoders of text, from a folder in Hugging Face's layout. Group `ablation`.

BERT's kin runs in JAX from ``config.json``, ``model.safetensors`` and ``tokenizer.json``; any other kind, say
Qwen3-Embedding, through the transformers library and PyTorch where these are installed. Nothing is fetched.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from leap.predictor.features.matrix import Matrix

MAX_TOKENS = 128
BATCH = 32
_PADDED_TO = 16  # lengths are rounded up to it: few shapes to compile


class Encoder(Protocol):
    """Texts to vectors."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """(n, width) vectors of length one."""


class _Config(msgspec.Struct):
    model_type: str
    num_attention_heads: int = 12
    layer_norm_eps: float = 1e-12


class _Pooling(msgspec.Struct):
    pooling_mode_lasttoken: bool = False


def load(folder: Path) -> Encoder:
    """The encoder of a folder.

    Raises
    ------
    ValueError
        If it is not such a folder.
    """
    try:
        config = msgspec.json.decode((folder / "config.json").read_bytes(), type=_Config)
    except (OSError, msgspec.DecodeError) as error:
        raise ValueError(f"{folder}: {error}; a folder with a Hugging Face model is expected") from None
    return Bert(folder, config) if config.model_type == "bert" else Transformer(folder)


class Bert:
    """A BERT encoder whose last hidden values are averaged over the tokens."""

    def __init__(self, folder: Path, config: _Config) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        stored = load_file(folder / "model.safetensors")
        self._weights = {name.removeprefix("bert."): array.astype(np.float32) for name, array in stored.items()}
        layers = {name.split(".")[2] for name in self._weights if name.startswith("encoder.layer.")}
        self._forward = jax.jit(bert(len(layers), config.num_attention_heads, config.layer_norm_eps))

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Encoder`."""
        tokens = [encoded.ids for encoded in self._tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
        embedded: list[Matrix] = []
        for start in range(0, len(order), BATCH):
            rows = [tokens[row] for row in order[start : start + BATCH]]
            length = -(-max(map(len, rows)) // _PADDED_TO) * _PADDED_TO
            ids, mask = np.zeros((BATCH, length), np.int32), np.zeros((BATCH, length), np.float32)
            for position, row in enumerate(rows):
                ids[position, : len(row)], mask[position, : len(row)] = row, 1.0
            mask[len(rows) :, 0] = 1.0
            embedded.append(np.asarray(self._forward(self._weights, ids, mask))[: len(rows)])
        vectors = np.empty((len(order), embedded[0].shape[1]), dtype=np.float32)
        vectors[order] = np.concatenate(embedded)
        return vectors


def bert(layers: int, heads: int, epsilon: float) -> Callable[[dict[str, Any], Any, Any], Any]:
    """The function from weights, (n, length) token ids and their mask to (n, width) vectors of length one."""

    def dense(weights: dict[str, Any], name: str, x: Any) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(weights: dict[str, Any], name: str, x: Any) -> Any:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        scaled = centred / jnp.sqrt(jnp.var(x, axis=-1, keepdims=True) + epsilon)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def forward(weights: dict[str, Any], ids: Any, mask: Any) -> Any:
        length, prefix = ids.shape[1], "embeddings"
        x = weights[f"{prefix}.word_embeddings.weight"][ids] + weights[f"{prefix}.position_embeddings.weight"][:length]
        x = norm(weights, f"{prefix}.LayerNorm", x + weights[f"{prefix}.token_type_embeddings.weight"][0])
        for layer in range(layers):
            prefix = f"encoder.layer.{layer}"
            query, key, value = (
                dense(weights, f"{prefix}.attention.self.{name}", x).reshape(*x.shape[:2], heads, -1)
                for name in ("query", "key", "value")
            )
            score = jnp.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
            share = jax.nn.softmax(score + (mask[:, None, None, :] - 1.0) * 1e9, axis=-1)
            mixed = jnp.einsum("bhqk,bkhd->bqhd", share, value).reshape(x.shape)
            mixed = dense(weights, f"{prefix}.attention.output.dense", mixed)
            x = norm(weights, f"{prefix}.attention.output.LayerNorm", x + mixed)
            mixed = jax.nn.gelu(dense(weights, f"{prefix}.intermediate.dense", x), approximate=False)
            x = norm(weights, f"{prefix}.output.LayerNorm", x + dense(weights, f"{prefix}.output.dense", mixed))
        mean = jnp.einsum("btd,bt->bd", x, mask) / jnp.sum(mask, axis=1)[:, None]
        return mean / jnp.sqrt(jnp.sum(mean * mean, axis=1))[:, None]

    return forward


class Transformer:
    """Any encoder that the transformers library knows; pooled as the folder's ``1_Pooling`` says."""

    def __init__(self, folder: Path) -> None:
        try:
            import torch
            import transformers
        except ModuleNotFoundError as error:
            raise ValueError(f"{folder}: needs {error.name}; run: pip install torch transformers") from None
        self._torch = torch
        self.model = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, padding_side="right")
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        pooling = folder / "1_Pooling" / "config.json"
        self._last = (
            pooling.exists() and msgspec.json.decode(pooling.read_bytes(), type=_Pooling).pooling_mode_lasttoken
        )

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Encoder`."""
        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        with self._torch.no_grad():
            return np.concatenate([self.pooled(batch).float().numpy() for batch in batches])

    def pooled(self, texts: Sequence[str]) -> Any:
        """(n, width) tensor, with gradients where they are on."""
        batch = self.tokenizer(list(texts), padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        x, mask = self.model(**batch).last_hidden_state, batch["attention_mask"]
        if self._last:
            x = x[self._torch.arange(len(x)), mask.sum(dim=1) - 1]
        else:
            x = (x * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return self._torch.nn.functional.normalize(x, dim=1)
