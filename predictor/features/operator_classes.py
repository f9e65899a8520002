"""Classes of operators, by which their parameters and FLOP are summed up."""

#: Class of operator to the kinds that belong to it, as exporters and launchers write them but for case and underscores.
CLASSES: dict[str, frozenset[str]] = {
    "matmul": frozenset({
        "matmul", "gemm", "linear", "dense", "fc", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot",
        "scaledmm", "einsum", "mlp", "matmulinteger", "qlinearmatmul",
    }),
    "conv": frozenset({
        "conv", "conv1d", "conv2d", "conv3d", "convolution", "convtranspose", "depthwiseconv", "separableconv",
        "convinteger", "qlinearconv", "deformconv", "causalconvwithstate",
    }),
    "embedding": frozenset({"embedding", "embeddingbag", "embeddingbagforwardonly", "gather", "embeddinglookup"}),
    "attention": frozenset({
        "attention", "multiheadattention", "selfattention", "linearattention", "flashattention", "sdpa",
        "scaleddotproductattention", "scaleddotproductflashattention", "scaleddotproductefficientattention",
    }),
    "norm": frozenset({
        "norm", "layernorm", "batchnorm", "groupnorm", "rmsnorm", "instancenorm", "nativelayernorm", "nativegroupnorm",
        "nativebatchnorm", "fusedrmsnorm", "layernormalization", "batchnormalization", "groupnormalization",
        "instancenormalization", "rmsnormalization", "simplifiedlayernormalization", "lpnormalization",
        "meanvariancenormalization", "lrn",
    }),
    "recurrent": frozenset({"recurrent", "rnn", "lstm", "gru", "scan", "rnntanh", "rnnrelu", "mkldnnrnnlayer"}),
    "elementwise": frozenset({
        "elementwise", "activation", "relu", "relu6", "leakyrelu", "prelu", "thresholdedrelu", "elu", "selu", "celu",
        "gelu", "silu", "swish", "swiglu", "mish", "softplus", "softsign", "sigmoid", "logsigmoid", "hardsigmoid",
        "hardswish", "hardtanh", "tanh", "softmax", "logsoftmax", "hardmax", "shrink", "dropout", "nativedropout",
        "interaction", "positionbias", "rotaryembedding",
        "add", "sub", "rsub", "mul", "div", "mod", "fmod", "remainder", "addcmul", "addcdiv", "neg", "abs", "sign",
        "reciprocal", "pow", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "erf", "sin", "cos",
        "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "ceil", "floor", "round", "trunc",
        "clip", "clamp", "cast", "where", "and", "or", "xor", "not", "logicaland", "logicalor", "logicalnot",
        "equal", "greater", "greaterorequal", "less", "lessorequal", "eq", "ne", "gt", "ge", "lt", "le", "isnan",
        "isinf", "quantizelinear", "dequantizelinear", "dynamicquantizelinear",
        "max", "min", "maximum", "minimum", "sum", "mean", "prod", "amax", "amin", "var", "std", "cumsum", "cumprod",
        "argmax", "argmin", "topk", "reducel1", "reducel2", "reducelogsum", "reducelogsumexp", "reducemax",
        "reducemean", "reducemin", "reduceprod", "reducesum", "reducesumsquare",
        "pool", "maxpool", "averagepool", "lppool", "globalaveragepool", "globalmaxpool", "globallppool",
        "adaptiveavgpool2d", "adaptiveavgpool3d", "avgpool1d", "avgpool3d", "maxpool3dwithindices", "resize",
        "upsample", "upsamplenearest2d", "upsamplebilinear2d",
    }),
}  # fmt: skip
OTHER = "other"
_CLASS_OF = {kind: name for name, kinds in CLASSES.items() for kind in kinds}


def operator_class(kind: str) -> str:
    """Class of an operator kind.

    >>> operator_class("Conv2d"), operator_class("_embedding_bag"), operator_class("Reshape")
    ('conv', 'embedding', 'other')
    """
    return _CLASS_OF.get(kind.lower().replace("_", ""), OTHER)
