"""t5: an encoder and a decoder that share one embedding."""

from typing import ClassVar

from msgspec import Struct

from leap.predictor.describe.builder import Graph, Size
from leap.predictor.describe.hf_text import Layers, Width, feed_forward, gated


class T5(Struct):
    """T5Config, with its defaults."""

    HEADS: ClassVar[tuple[str, ...]] = ("ForConditionalGeneration", "Model", "EncoderModel")

    vocab_size: Width = 32_128
    d_model: Width = 512
    d_kv: Width = 64
    d_ff: Width = 2048
    num_layers: Layers = 6
    num_decoder_layers: Layers | None = None
    num_heads: Width = 8
    relative_attention_num_buckets: Width = 32
    n_positions: Width = 512
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True

    @property
    def size(self) -> Size:
        """As many tokens as it was trained with; the model itself has no limit."""
        return Size("tokens", self.n_positions, 2**20)

    def build(self, graph: Graph, head: str, labels: int, tokens: int) -> None:
        """The encoder over `tokens` tokens, the decoder over as many."""
        encoded = self._stack(graph, "encoder", self.num_layers, tokens, None)
        if head == "EncoderModel":
            return
        decoded = self._stack(graph, "decoder", self.num_decoder_layers or self.num_layers, tokens, encoded)
        if head == "ForConditionalGeneration":
            tied = self.tie_word_embeddings
            graph.linear("lm_head", decoded, tokens, self.d_model, self.vocab_size, bias=False, tied=tied)

    def _stack(self, graph: Graph, stack: str, layers: int, tokens: int, encoded: int | None) -> int:
        width, shape = self.d_model, (tokens, self.d_model)
        tied = encoded is not None
        x = graph.embedding(f"{stack}.embed_tokens", tokens, self.vocab_size, width, tied=tied)
        # The first layer's table of biases by distance serves all layers of its stack.
        buckets, heads = self.relative_attention_num_buckets, self.num_heads
        bias = graph.elementwise("position_bias", f"{stack}.bias", (), (heads, tokens, tokens), buckets * heads)
        for layer in range(layers):
            at = f"{stack}{layer}"
            x = self._attend(graph, f"{at}.self", x, None, tokens, (bias,))
            if encoded is not None:
                x = self._attend(graph, f"{at}.cross", x, encoded, tokens, ())
            mixed = graph.norm(f"{at}.norm", x, shape, width, bias=False)
            if self.feed_forward_proj.startswith("gated"):
                mixed = gated(graph, at, mixed, tokens, width, self.d_ff, bias=False)
            else:
                mixed = feed_forward(graph, at, mixed, tokens, width, self.d_ff, bias=False)
            x = graph.elementwise("add", f"{at}.add", (x, mixed), shape)
        return graph.norm(f"{stack}.norm", x, shape, width, bias=False)

    def _attend(self, graph: Graph, at: str, x: int, encoded: int | None, tokens: int, biases: tuple[int, ...]) -> int:
        width, inner, shape = self.d_model, self.num_heads * self.d_kv, (tokens, self.d_model)
        normed = graph.norm(f"{at}.norm", x, shape, width, bias=False)
        read = normed if encoded is None else encoded
        parts = [
            graph.linear(f"{at}.{name}", source, tokens, width, inner, bias=False)
            for name, source in (("q", normed), ("k", read), ("v", read))
        ]
        mixed = graph.attention(f"{at}.attention", (*parts, *biases), tokens, tokens, self.num_heads, self.d_kv)
        mixed = graph.linear(f"{at}.o", mixed, tokens, inner, width, bias=False)
        return graph.elementwise("add", f"{at}.add", (x, mixed), shape)
