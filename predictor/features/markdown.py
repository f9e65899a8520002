"""The page of features, written from the tables that stand beside the code that computes them.

``python -m leap.predictor.features.markdown > docs/features.md`` renews it.
"""

from collections.abc import Mapping

from leap.predictor.features import architecture, configuration, hardware, history, operator_classes, ratios
from leap.predictor.features.spec import Described
from leap.predictor.features.target_encoding import MAX_CODES, MAX_EXTRA, MIN_ROWS, TargetEncoder
from leap.schemas.hardware import SPECIFICATIONS

_HEAD = """\
# Features

Written by `python -m leap.predictor.features.markdown`; do not edit.

One row for each attempt and hardware type, in this order of columns, the same at launch and at night; float32, and
what is missing is NaN. `predictor/features` computes them, one file a group. A group is known to `leap ablate` and
to the importance of the report by the name in brackets.
"""
_SPECIFICATION_UNITS = {
    "tflops": "10¹² FLOP/s",
    "memory_gb": "10⁹ bytes",
    "gb_s": "10⁹ bytes/s",
    "tdp_w": "W",
    "clock_mhz": "MHz",
}
_NAMES = {
    "code": "rank of the name by mean ln throughput in the training window",
    "unseen": "1 if the name has no code, else 0",
}


def page() -> str:
    """Markdown text."""
    return "\n".join(
        [
            _HEAD,
            _section("Launch configuration (scale)", "Numbers of `JobSubmitted.config`.", configuration.TABLE),
            _section(
                "Ratios (scale)", "b is `batch_size`, a `accelerators_per_trainer`, t `num_trainers`.", ratios.TABLE
            ),
            _section(
                "Architecture (architecture)",
                f"{len(architecture.TABLE)} values over the operators o of the model definition, for the forward pass "
                "of one sample; or stated as `totals`, which `leap describe MODEL --summary` writes. "
                "Classes, of kinds in lower case without underscores: " + _classes(),
                architecture.TABLE,
            ),
            _section("Hardware (hardware)", "From the catalog.", _specifications()),
            _section(
                "Hardware and model (hardware)",
                "peak is the greatest of bf16, fp16 and fp32; samples are `batch_size / accelerators_per_trainer`; a "
                "step costs three forward passes.",
                hardware.TABLE,
            ),
            _section(
                "History (history)",
                "As known at launch: the statistics are those at the end of the day before. Keys, the broader after "
                "the narrower: family and hardware type, family, model type, all. Of attempts whose completion states "
                "a shape, throughput per accelerator times the accelerators of the job.",
                history.TABLE,
            ),
            _section(
                "Names (names)",
                "And the same of each free string in `extra`; free numbers are taken as they are. At most "
                f"{2 * MAX_EXTRA} of them, those that 1% of the window has. The {MAX_CODES:,} most frequent names of a "
                "field have codes; of the launcher's own strings (`precision`, `optimizer`, `sharding`, `extra`) only "
                f"those that {MIN_ROWS} rows of the window have (5% of a smaller window), and of `extra` only fields "
                "that mostly have such strings: an id of the run is none.",
                _names(),
            ),
        ]
    )


def _section(title: str, about: str, table: Mapping[str, Described]) -> str:
    lines = [f"## {title}", "", about, "", "| name | formula | unit | missing |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{name}` | {told.formula} | {told.unit} | {told.missing or 'never'} |" for name, told in table.items()
    ]
    return "\n".join(lines) + "\n"


def _classes() -> str:
    several = [f"{name} ({', '.join(sorted(kinds))})" for name, kinds in operator_classes.CLASSES.items()]
    return "; ".join([*several, f"{operator_classes.OTHER} (all else)"]) + "."


def _specifications() -> dict[str, Described]:
    units = {
        name: next((unit for end, unit in _SPECIFICATION_UNITS.items() if name.endswith(end)), "")
        for name in SPECIFICATIONS
    }
    return {name: Described("of the catalog", unit, "where not known") for name, unit in units.items()}


def _names() -> dict[str, Described]:
    told = {}
    for name in TargetEncoder().features:
        kind = name.rpartition("_")[2]
        told[name] = Described(_NAMES[kind], "", "where missing or unseen" if kind == "code" else "")
    return told


if __name__ == "__main__":
    print(page(), end="")
