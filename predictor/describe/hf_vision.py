"""Models of images: vit, resnet."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from leap.predictor.describe.builder import Graph, Size
from leap.predictor.describe.hf_text import Layers, Width, feed_forward

MAX_SIDE = 2**16
Side = Annotated[int, Meta(ge=1, le=MAX_SIDE)]


class ViT(Struct):
    """ViTConfig, with its defaults."""

    HEADS: ClassVar[tuple[str, ...]] = ("ForImageClassification", "Model")

    hidden_size: Width = 768
    num_hidden_layers: Layers = 12
    num_attention_heads: Width = 12
    intermediate_size: Width = 3072
    image_size: Side = 224
    patch_size: Side = 16
    num_channels: Width = 3
    qkv_bias: bool = True

    @property
    def size(self) -> Size:
        """See :class:`Family`."""
        return Size("image_size", self.image_size, MAX_SIDE, least=self.patch_size)

    def build(self, graph: Graph, head: str, labels: int, image_size: int) -> None:
        """Patches and one more token for the class, blocks with the norm before each half, and the head."""
        side, width = image_size // self.patch_size, self.hidden_size
        tokens, shape = side * side + 1, (side * side + 1, width)
        pixels = side * self.patch_size
        x = graph.conv("patches", graph.input, pixels, self.patch_size, self.num_channels, width, self.patch_size, True)
        x = graph.elementwise("add", "position", (x,), shape, parameters=width * (tokens + 1))
        for layer in range(self.num_hidden_layers):
            at, heads = f"layer{layer}", self.num_attention_heads
            mixed = graph.norm(f"{at}.norm1", x, shape, width)
            parts = [
                graph.linear(f"{at}.{name}", mixed, tokens, width, width, self.qkv_bias)
                for name in ("query", "key", "value")
            ]
            mixed = graph.attention(f"{at}.attention", parts, tokens, tokens, heads, width // heads)
            mixed = graph.linear(f"{at}.out", mixed, tokens, width, width)
            x = graph.elementwise("add", f"{at}.add1", (x, mixed), shape)
            mixed = graph.norm(f"{at}.norm2", x, shape, width)
            mixed = feed_forward(graph, at, mixed, tokens, width, self.intermediate_size)
            x = graph.elementwise("add", f"{at}.add2", (x, mixed), shape)
        x = graph.norm("norm", x, shape, width)
        if head == "Model":
            x = graph.linear("pooler", x, 1, width, width)
            graph.elementwise("tanh", "pooler.activation", (x,), (1, width))
        else:
            graph.linear("head", x, 1, width, labels)


class ResNet(Struct):
    """ResNetConfig, with its defaults; it does not say how large an image is."""

    HEADS: ClassVar[tuple[str, ...]] = ("ForImageClassification", "Model")

    num_channels: Width = 3
    embedding_size: Width = 64
    hidden_sizes: Annotated[tuple[Width, ...], Meta(min_length=1, max_length=32)] = (256, 512, 1024, 2048)
    depths: Annotated[tuple[Layers, ...], Meta(min_length=1, max_length=32)] = (3, 4, 6, 3)
    layer_type: Literal["basic", "bottleneck"] = "bottleneck"
    downsample_in_first_stage: bool = False
    downsample_in_bottleneck: bool = False

    @property
    def size(self) -> Size:
        """See :class:`Family`."""
        return Size("image_size", 224, MAX_SIDE)

    def build(self, graph: Graph, head: str, labels: int, image_size: int) -> None:
        """A stem, stages of residual blocks of which the first halves the image, and the head."""
        width = self.embedding_size
        x = self._conv(graph, "stem", graph.input, image_size, 2, self.num_channels, width, 7)
        side = -(-image_size // 2)
        x = graph.elementwise("relu", "stem.relu", (x,), (width, side, side))
        side = -(-side // 2)
        x = graph.elementwise("maxpool", "pool", (x,), (width, side, side))
        for stage, (after, depth) in enumerate(zip(self.hidden_sizes, self.depths, strict=False)):
            for block in range(depth):
                stride = 2 if block == 0 and (stage > 0 or self.downsample_in_first_stage) else 1
                x = self._block(graph, f"stage{stage}.{block}", x, side, stride, width, after)
                side, width = -(-side // stride), after
        x = graph.elementwise("globalaveragepool", "pool", (x,), (width,))
        if head == "ForImageClassification":
            graph.linear("head", x, 1, width, labels)

    def _block(self, graph: Graph, at: str, x: int, side: int, stride: int, width: int, after: int) -> int:
        halved = -(-side // stride)
        if self.layer_type == "basic":
            convolutions = [(3, stride, width, after), (3, 1, after, after)]
        else:
            inner = after // 4
            first, second = (stride, 1) if self.downsample_in_bottleneck else (1, stride)
            convolutions = [(1, first, width, inner), (3, second, inner, inner), (1, 1, inner, after)]
        mixed, pixels = x, side
        for number, (kernel, step, width_in, width_out) in enumerate(convolutions):
            mixed = self._conv(graph, f"{at}.conv{number}", mixed, pixels, step, width_in, width_out, kernel)
            pixels = -(-pixels // step)
            if number < len(convolutions) - 1:
                mixed = graph.elementwise("relu", f"{at}.relu{number}", (mixed,), (width_out, pixels, pixels))
        if width != after or stride > 1:
            x = self._conv(graph, f"{at}.shortcut", x, side, stride, width, after, 1)
        x = graph.elementwise("add", f"{at}.add", (x, mixed), (after, halved, halved))
        return graph.elementwise("relu", f"{at}.relu", (x,), (after, halved, halved))

    @staticmethod
    def _conv(
        graph: Graph, name: str, x: int, side: int, stride: int, width_in: int, width_out: int, kernel: int
    ) -> int:
        x = graph.conv(name, x, side, stride, width_in, width_out, kernel, bias=False)
        after = -(-side // stride)
        return graph.norm(f"{name}.norm", x, (width_out, after, after), width_out)
