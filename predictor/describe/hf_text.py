"""Transformers over text: bert, gpt2, llama and its kin, t5."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from leap.predictor.describe.builder import Graph, Size

Width = Annotated[int, Meta(ge=1, le=2**24)]
Layers = Annotated[int, Meta(ge=1, le=2048)]

#: Tokens of a sample where nothing says how many and the model does not take fewer.
USUAL_TOKENS = 2048


def tokens_up_to(most: int) -> Size:
    """Tokens of a model that takes at most so many."""
    return Size("tokens", min(USUAL_TOKENS, most), most)


class Bert(Struct):
    """BertConfig, with its defaults."""

    HEADS: ClassVar[tuple[str, ...]] = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")

    vocab_size: Width = 30_522
    hidden_size: Width = 768
    num_hidden_layers: Layers = 12
    num_attention_heads: Width = 12
    intermediate_size: Width = 3072
    max_position_embeddings: Width = 512
    type_vocab_size: Width = 2

    @property
    def size(self) -> Size:
        """See :class:`Family`."""
        return tokens_up_to(self.max_position_embeddings)

    def build(self, graph: Graph, head: str, labels: int, tokens: int) -> None:
        """Embeddings, blocks with the norm after each half, and the head."""
        width, shape = self.hidden_size, (tokens, self.hidden_size)
        tables = {"word": self.vocab_size, "position": self.max_position_embeddings, "token_type": self.type_vocab_size}
        read = [graph.embedding(f"embeddings.{name}", tokens, rows, width) for name, rows in tables.items()]
        x = graph.norm("embeddings.norm", graph.elementwise("add", "embeddings.add", read, shape), shape, width)
        for layer in range(self.num_hidden_layers):
            at = f"layer{layer}"
            parts = [graph.linear(f"{at}.{name}", x, tokens, width, width) for name in ("query", "key", "value")]
            heads = self.num_attention_heads
            mixed = graph.attention(f"{at}.attention", parts, tokens, tokens, heads, width // heads)
            mixed = graph.linear(f"{at}.out", mixed, tokens, width, width)
            x = graph.norm(f"{at}.norm1", graph.elementwise("add", f"{at}.add1", (x, mixed), shape), shape, width)
            mixed = feed_forward(graph, at, x, tokens, width, self.intermediate_size)
            x = graph.norm(f"{at}.norm2", graph.elementwise("add", f"{at}.add2", (x, mixed), shape), shape, width)
        if head in ("Model", "ForSequenceClassification"):
            x = graph.linear("pooler", x, 1, width, width)
            x = graph.elementwise("tanh", "pooler.activation", (x,), (1, width))
        if head == "ForMaskedLM":
            x = graph.linear("head.transform", x, tokens, width, width)
            x = graph.elementwise("activation", "head.activation", (x,), shape)
            x = graph.norm("head.norm", x, shape, width)
            graph.linear("head", x, tokens, width, self.vocab_size, tied=True)
        elif head != "Model":
            graph.linear("head", x, tokens if head == "ForTokenClassification" else 1, width, labels)


class GPT2(Struct):
    """GPT2Config, with its defaults."""

    HEADS: ClassVar[tuple[str, ...]] = ("LMHeadModel", "Model")

    vocab_size: Width = 50_257
    n_positions: Width = 1024
    n_embd: Width = 768
    n_layer: Layers = 12
    n_head: Width = 12
    n_inner: Width | None = None

    @property
    def size(self) -> Size:
        """See :class:`Family`."""
        return tokens_up_to(self.n_positions)

    def build(self, graph: Graph, head: str, labels: int, tokens: int) -> None:
        """Embeddings, blocks with the norm before each half, and the head, tied to the embedding."""
        width, shape = self.n_embd, (tokens, self.n_embd)
        tables = {"wte": self.vocab_size, "wpe": self.n_positions}
        read = [graph.embedding(name, tokens, rows, width) for name, rows in tables.items()]
        x = graph.elementwise("add", "embeddings.add", read, shape)
        for layer in range(self.n_layer):
            at = f"h{layer}"
            mixed = graph.norm(f"{at}.ln_1", x, shape, width)
            mixed = graph.linear(f"{at}.c_attn", mixed, tokens, width, 3 * width)
            mixed = graph.attention(f"{at}.attention", (mixed,), tokens, tokens, self.n_head, width // self.n_head)
            mixed = graph.linear(f"{at}.c_proj", mixed, tokens, width, width)
            x = graph.elementwise("add", f"{at}.add1", (x, mixed), shape)
            mixed = graph.norm(f"{at}.ln_2", x, shape, width)
            mixed = feed_forward(graph, at, mixed, tokens, width, self.n_inner or 4 * width)
            x = graph.elementwise("add", f"{at}.add2", (x, mixed), shape)
        x = graph.norm("ln_f", x, shape, width)
        if head == "LMHeadModel":
            graph.linear("lm_head", x, tokens, width, self.vocab_size, bias=False, tied=True)


class Llama(Struct):
    """LlamaConfig, with its defaults."""

    HEADS: ClassVar[tuple[str, ...]] = ("ForCausalLM", "Model")

    vocab_size: Width = 32_000
    hidden_size: Width = 4096
    intermediate_size: Width = 11_008
    num_hidden_layers: Layers = 32
    num_attention_heads: Width = 32
    num_key_value_heads: Width | None = None
    head_dim: Width | None = None
    max_position_embeddings: Width = 2048
    sliding_window: Width | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    num_local_experts: Width = 1
    num_experts_per_tok: Width = 1

    @property
    def size(self) -> Size:
        """See :class:`Family`."""
        return tokens_up_to(self.max_position_embeddings)

    def build(self, graph: Graph, head: str, labels: int, tokens: int) -> None:
        """Blocks with grouped keys and values and a gated layer, or several of which a router picks."""
        width, shape, heads = self.hidden_size, (tokens, self.hidden_size), self.num_attention_heads
        dim, groups = self.head_dim or width // heads, self.num_key_value_heads or heads
        context = min(tokens, self.sliding_window or tokens)
        widths = {"q_proj": heads * dim, "k_proj": groups * dim, "v_proj": groups * dim}
        bias = self.attention_bias
        x = graph.embedding("embed_tokens", tokens, self.vocab_size, width)
        for layer in range(self.num_hidden_layers):
            at = f"layer{layer}"
            mixed = graph.norm(f"{at}.input_norm", x, shape, width, bias=False)
            parts = [graph.linear(f"{at}.{name}", mixed, tokens, width, each, bias) for name, each in widths.items()]
            mixed = graph.attention(f"{at}.attention", parts, tokens, context, heads, dim, groups)
            mixed = graph.linear(f"{at}.o_proj", mixed, tokens, heads * dim, width, bias)
            x = graph.elementwise("add", f"{at}.add1", (x, mixed), shape)
            mixed = graph.norm(f"{at}.post_norm", x, shape, width, bias=False)
            x = graph.elementwise("add", f"{at}.add2", (x, self._feed_forward(graph, at, mixed, tokens)), shape)
        x = graph.norm("norm", x, shape, width, bias=False)
        if head == "ForCausalLM":
            graph.linear("lm_head", x, tokens, width, self.vocab_size, bias=False, tied=self.tie_word_embeddings)

    def _feed_forward(self, graph: Graph, at: str, x: int, tokens: int) -> int:
        experts, chosen = self.num_local_experts, min(self.num_experts_per_tok, self.num_local_experts)
        if experts > 1:
            routed = graph.linear(f"{at}.router", x, tokens, self.hidden_size, experts, bias=False)
            x = graph.elementwise("mul", f"{at}.route", (x, routed), (tokens, self.hidden_size))
        return gated(graph, at, x, tokens, self.hidden_size, self.intermediate_size, self.mlp_bias, experts, chosen)


class Mistral(Llama):
    """MistralConfig, with its defaults."""

    intermediate_size: Width = 14_336
    num_key_value_heads: Width | None = 8
    max_position_embeddings: Width = 131_072
    sliding_window: Width | None = 4096


class Mixtral(Mistral):
    """MixtralConfig, with its defaults."""

    sliding_window: Width | None = None
    num_local_experts: Width = 8
    num_experts_per_tok: Width = 2


def feed_forward(graph: Graph, at: str, x: int, tokens: int, width: int, inner: int, bias: bool = True) -> int:
    """Up, activation, down."""
    x = graph.linear(f"{at}.up", x, tokens, width, inner, bias)
    x = graph.elementwise("activation", f"{at}.activation", (x,), (tokens, inner))
    return graph.linear(f"{at}.down", x, tokens, inner, width, bias)


def gated(
    graph: Graph,
    at: str,
    x: int,
    tokens: int,
    width: int,
    inner: int,
    bias: bool,
    experts: int = 1,
    chosen: int = 1,
) -> int:
    """Up, times the activation of a gate, down."""
    gate = graph.linear(f"{at}.gate", x, tokens, width, inner, bias, experts=experts, chosen=chosen)
    gate = graph.elementwise("activation", f"{at}.activation", (gate,), (chosen * tokens, inner))
    up = graph.linear(f"{at}.up", x, tokens, width, inner, bias, experts=experts, chosen=chosen)
    x = graph.elementwise("mul", f"{at}.mul", (gate, up), (chosen * tokens, inner))
    return graph.linear(f"{at}.down", x, tokens, inner, width, bias, experts=experts, chosen=chosen)
