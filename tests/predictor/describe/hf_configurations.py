"""Configurations whose traces are recorded, with figures that the traces did not make.

Parameters are those that the models' cards publish. FLOPs are those of products, convolutions and attention: by
PyTorch's FlopCounterMode (2.15) over the transformers library (5.23) with eager attention, for LLAMA_1B and MIXTRAL
by formulas written out for those families, and for SWITCH by hand.
"""

from typing import Any, NamedTuple


class Configuration(NamedTuple):
    """What a file says, and what is known of its model."""

    fields: dict[str, Any]
    parameters: int
    flops: int
    sizes: dict[str, int] = {}  # noqa: RUF012 - never changed


def _of(architecture: str, model_type: str, **fields: Any) -> dict[str, Any]:
    return {"model_type": model_type, "architectures": [architecture], **fields}


def _switch_flops(tokens: int, width: int, inner: int, layers: int, sparse: int, experts: int, words: int) -> int:
    projections, attention = 4 * 2 * tokens * width**2, 4 * tokens**2 * width
    feed_forward, router = 2 * 2 * tokens * width * inner, 2 * tokens * width * experts
    encoder = layers * (projections + attention + feed_forward) + sparse * router
    decoder = layers * (2 * projections + 2 * attention + feed_forward) + sparse * router
    return encoder + decoder + 2 * tokens * width * words


LLAMA_1B = _of(
    "LlamaForCausalLM", "llama", vocab_size=128_256, hidden_size=2048, intermediate_size=8192, head_dim=64,
    num_hidden_layers=16, num_key_value_heads=8, tie_word_embeddings=True,
)  # fmt: skip
MIXTRAL = _of("MixtralForCausalLM", "mixtral", torch_dtype="bfloat16")
SWITCH = _of(
    "SwitchTransformersForConditionalGeneration", "switch_transformers", d_ff=3072, num_layers=12,
    num_decoder_layers=12, num_sparse_encoder_layers=6, num_sparse_decoder_layers=6,
)  # fmt: skip
RESNET_18 = {"layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "num_labels": 1000}
T5_V1_1 = {"d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu", "n_positions": 512}
IMAGENET = {str(label): "" for label in range(1000)}

CONFIGURATIONS = {
    "bert-base-uncased": Configuration(_of("BertModel", "bert"), 109_482_240, 96_637_943_808),
    "bert, masked": Configuration(_of("BertForMaskedLM", "bert"), 109_514_298, 121_244_221_440),
    "bert, causal": Configuration(_of("BertLMHeadModel", "bert", is_decoder=True), 109_514_298, 121_244_221_440),
    "gpt2": Configuration(_of("GPT2LMHeadModel", "gpt2"), 124_439_808, 291_648_307_200),
    "llama-2-7b": Configuration(
        _of("LlamaForCausalLM", "llama", torch_dtype="float16"), 6_738_415_616, 29_261_612_187_648
    ),
    "llama-3.2-1b": Configuration(LLAMA_1B, 1_235_814_400, 5_611_374_772_224),
    "mistral-7b": Configuration(_of("MistralForCausalLM", "mistral"), 7_241_732_096, 31_323_196_489_728),
    "mixtral-8x7b": Configuration(MIXTRAL, 46_702_792_704, 54_417_235_640_320),
    "opt-125m": Configuration(_of("OPTForCausalLM", "opt"), 125_239_296, 660_653_211_648),
    "resnet-18": Configuration(_of("ResNetForImageClassification", "resnet", **RESNET_18), 11_689_512, 3_628_146_688),
    "resnet-50": Configuration(
        _of("ResNetForImageClassification", "resnet", num_labels=1000), 25_557_032, 8_178_368_512
    ),
    "switch-base-8": Configuration(
        SWITCH, 619_339_008, _switch_flops(512, 768, 3072, 12, 6, 8, 32_128), {"tokens": 512}
    ),
    "t5-small": Configuration(_of("T5ForConditionalGeneration", "t5"), 60_506_624, 71_605_157_888, {"tokens": 512}),
    "t5-v1_1-small": Configuration(
        _of("T5ForConditionalGeneration", "t5", tie_word_embeddings=False, **T5_V1_1), 76_961_152, 71_605_157_888
    ),
    "vit-base-patch16-224": Configuration(
        _of("ViTForImageClassification", "vit", id2label=IMAGENET), 86_567_656, 35_127_656_448
    ),
}
