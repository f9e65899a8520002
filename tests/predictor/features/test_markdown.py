"""The page of features is that of the code, and names every column once."""

import re
from pathlib import Path

import numpy as np

from leap.predictor.features import matrix
from leap.predictor.features.architecture import NAMES, summary
from leap.predictor.features.batch import JobBatch
from leap.predictor.features.markdown import page
from leap.predictor.features.target_encoding import TargetEncoder
from leap.schemas.launch import ModelDefinition, Operator
from tests.builders import MODEL, submission

PAGE = Path(__file__).parents[3] / "docs" / "features.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m leap.predictor.features.markdown > docs/features.md"
    )


def test_every_column_is_on_the_page_in_its_place() -> None:
    assert re.findall(r"(?m)^\| `(\w+)` \|", page()) == list(matrix.names(TargetEncoder()))


def test_the_architecture_is_44_values_of_which_a_definition_has_those_that_apply() -> None:
    assert len(NAMES) == 44
    values = summary(MODEL)
    assert {"heads", "head_dim", "sequence"} == set(NAMES) - set(values)
    assert (values["operators"], values["edges"], values["depth"], values["width"]) == (4, 4, 4, 1)
    assert (values["parameters"], values["flops"], values["bytes"]) == (2177, 1120, 3020)
    assert (values["intensity"], values["flops_per_parameter"]) == (1120 / 3020, 1120 / 2177)
    assert (values["fan_out"], values["fan_in"], values["kinds"]) == (2, 2, 3)
    assert (values["matmul_flop_share"], values["embedding_parameter_share"]) == (1088 / 1120, 1600 / 2177)
    assert (values["largest_flop_share"], values["largest_parameter_share"]) == (1024 / 1120, 1600 / 2177)
    assert (values["embedding_rows"], values["embedding_largest"], values["embedding_dim"]) == (100, 100, 16)
    assert (values["activations"], values["largest_activation"], values["layer_width"]) == (81, 32, 32)
    assert values["precision_bits"] == 16


def test_a_dimension_that_varies_is_not_a_number() -> None:
    open_ended = Operator(kind="attention", shape=(-1, -1))
    assert {"sequence", "layer_width"} & summary(ModelDefinition(operators=(open_ended,))).keys() == set()
    values = summary(ModelDefinition(operators=(open_ended, Operator(kind="attention", shape=(128, 64)))))
    assert (values["sequence"], values["layer_width"]) == (128, 64)
    jobs = JobBatch.from_events([submission(model=ModelDefinition(operators=(open_ended,)))])
    assert np.isnan(jobs.architecture[0, [NAMES.index("sequence"), NAMES.index("layer_width")]]).all()
