"""The families, declared in one place; ``leap ablate --list`` shows them."""

from pathlib import Path

from leap.predictor.models.boosted import BoostedTrees
from leap.predictor.models.cascade import BinnedCascade
from leap.retrainer.ablation.baselines.leap_estimators import (
    GROUPS,
    Chain,
    Lookup,
    Trees,
    Tuned,
    combined_by,
)
from leap.retrainer.ablation.candidate import Context, Estimator, Family
from leap.retrainer.night.recipes import Published

#: What a family needs at serving.
TABLE, ARRAYS = "a table", "arrays"
_ENCODER = {"encoder": "folder of an encoder in Hugging Face's layout"}


def _small(groups: int, context: Context) -> Estimator:
    """The published steps: the same small trees, each time with one more group of features."""
    trees = BoostedTrees(max_leaf_nodes=31, learning_rate=0.1, validation_fraction=1 / 30, random_state=context.seed)
    return Trees(trees, GROUPS[:groups])


def _boosted(context: Context) -> Estimator:
    trees = BoostedTrees(
        max_leaf_nodes=63, max_iter=800, max_features=0.4, validation_fraction=1 / 30, random_state=context.seed
    )
    return Trees(trees)


def _rival(library: str, context: Context) -> Estimator:
    from leap.retrainer.ablation.baselines import gbdt as rivals  # group ablation

    rival: type[rivals.Rival] = getattr(rivals, library)
    return Tuned(rival(context.seed))


def _dnnperf(with_graph: bool, context: Context) -> Estimator:
    from leap.retrainer.ablation.neural.dnnperf import DNNPerf  # group ablation

    return DNNPerf(context.models if with_graph else {}, context.seed)


def _on_text(kind: str, context: Context) -> Estimator:
    from leap.retrainer.ablation.text import encoder_models as language  # group ablation
    from leap.retrainer.ablation.text import frozen_encoder as encoder

    made: type[language.TextNetwork | language.TextTrees] = getattr(language, kind)
    return made(encoder.load(Path(context.options["encoder"])), context.seed)


def _tuned_text(context: Context) -> Estimator:
    from leap.retrainer.ablation.text.lora import TunedTextNetwork  # group ablation, and PyTorch

    rank, epochs = (int(context.options.get(name, usual)) for name, usual in (("rank", "8"), ("epochs", "1")))
    return TunedTextNetwork(Path(context.options["encoder"]), rank, epochs, context.seed)


def _generative(context: Context) -> Estimator:
    from leap.retrainer.ablation.text import few_shot_llm as generative

    record = context.options.get("record")
    generator = generative.load(Path(context.options["model"]), Path(record) if record else None)
    return generative.Generative(generator)


def _tabpfn(context: Context) -> Estimator:
    from leap.retrainer.ablation.text import tabpfn

    return tabpfn.InContext(tabpfn.load(Path(context.options["weights"]), context.seed))


_ALL = (
    Family("lookup", "median under (model type, hosts, batch, hardware type)", TABLE, lambda context: Lookup()),
    Family("chain", "medians, the most specific key first", TABLE, lambda context: Chain()),
    Family("step-1", "small boosted trees on the launch configuration", ARRAYS, lambda context: _small(1, context)),
    Family("step-2", "+ history of the family", ARRAYS, lambda context: _small(2, context)),
    Family("step-3", "+ ratios", ARRAYS, lambda context: _small(3, context)),
    Family("step-4", "+ architecture", ARRAYS, lambda context: _small(4, context)),
    Family("step-5", "+ history by hardware type and model type", ARRAYS, lambda context: _small(5, context)),
    Family("boosted", "deeper histogram boosting, all features", ARRAYS, _boosted),
    Family(
        "paper",
        "the published cascade: 13 experts under a classifier, their mean",
        ARRAYS,
        lambda context: Trees(BinnedCascade(random_state=context.seed)),
        also={"paper-median": lambda fitted: combined_by(fitted, "median")},
    ),
    Family("lightgbm", "LightGBM, tuned", "LightGBM", lambda context: _rival("LightGBM", context)),
    Family("xgboost", "XGBoost, tuned", "XGBoost", lambda context: _rival("XGBoost", context)),
    Family("catboost", "CatBoost, tuned", "CatBoost", lambda context: _rival("CatBoost", context)),
    Family(
        "dnnperf",
        "attention over the operator graph, piecewise linear features, residual head",
        "JAX",
        lambda context: _dnnperf(True, context),
    ),
    Family("dnnperf-flat", "the same without the graph", "JAX", lambda context: _dnnperf(False, context)),
    Family(
        "text-network",
        "the job as text through a frozen encoder, standardised numbers, residual head",
        "JAX and the encoder",
        lambda context: _on_text("TextNetwork", context),
        options=_ENCODER,
        needs=("encoder",),
    ),
    Family(
        "text-trees",
        "boosted, with the job as text through a frozen encoder",
        "arrays and the encoder",
        lambda context: _on_text("TextTrees", context),
        options=_ENCODER,
        needs=("encoder",),
    ),
    Family(
        "text-lora",
        "text-network, its encoder tuned through low-rank adapters",
        "JAX, PyTorch and the encoder",
        _tuned_text,
        options=_ENCODER | {"rank": "of the adapters, 8 by default", "epochs": "passes over the rows, 1 by default"},
        needs=("encoder",),
    ),
    Family(
        "generative",
        "a language model that is shown similar attempts and answers in text",
        "PyTorch and the model",
        _generative,
        options={
            "model": "folder of a causal model in Hugging Face's layout, or a file of its recorded answers",
            "record": "file that answers are written to",
        },
        needs=("model",),
    ),
    Family(
        "tabpfn",
        "TabPFN v2, the most similar attempts as context",
        "PyTorch, the weights and the rows",
        _tabpfn,
        options={"weights": "checkpoint of the TabPFN v2 regressor"},
        needs=("weights",),
    ),
    Family("structured", "ours: the structured recipe", ARRAYS, lambda context: Published("structured")),
)
FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}
