"""The mapping declaration and its expressions: what is taken, and how what is not is explained."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leap.schemas.backfill.expression import Expression
from leap.schemas.backfill.mapping import FOLDER, MappingError, load_mapping

CONFIG = {"num_trainers": "nodes", "accelerators_per_trainer": 8}
MINIMAL = {
    "attempt_id": "id",
    "job_name": "name",
    "model_type": "model",
    "hardware_type": "gpu",
    "submitted_at": "start",
    "run_seconds": "seconds",
    "config": CONFIG,
    "measurements": {"throughput": "throughput"},
}


def written(folder: Path, **changes: object) -> Path:
    path = folder / "map.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in {**MINIMAL, **changes}.items() if v is not None}))
    return path


def test_minimal_mapping_is_accepted(tmp_path: Path) -> None:
    mapping = load_mapping(written(tmp_path))
    assert mapping.config["accelerators_per_trainer"] == 8
    assert mapping.time_format == "iso"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_shipped_mappings_are_valid(name: str) -> None:
    assert "throughput" in load_mapping(name).measurements


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"job_name": None}, "job_name"),
        ({"run_seconds": None}, "exactly one of finished_at, run_seconds"),
        ({"finished_at": "end"}, "exactly one of finished_at, run_seconds"),
        ({"config": {"num_trainers": 1}}, "accelerators_per_trainer"),
        ({"config": {**CONFIG, "gpu_count": 2}}, "config has no gpu_count"),
        ({"measurements": {}}, "measurements"),
        ({"attempt_id": {"template": "no column"}}, "columns in braces"),
        ({"attempt_id": {"template": "{id:>5}"}}, "no formats"),
        ({"attempt_id": {"template": "{id"}}, "attempt_id"),
        ({"attempt_id": {"column": "a", "constant": 1}}, "exactly one of column, constant"),
        ({"attempt_id": {"default": 1}}, "found none"),
        ({"run_seconds": {"expression": "end ** start"}}, "end ** start"),
        ({"keep": [{"column": "status"}]}, "exactly one of equals, missing, positive"),
        ({"keep": [{"column": "status", "equal": "ok"}]}, "equal"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_error_names_file_and_problem(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(MappingError) as caught:
        load_mapping(path)
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def test_documented_mappings_are_valid(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[3] / "docs/backfill.md").read_text()
    formats = []
    for block in manual.split("```yaml\n")[1:]:
        (tmp_path / "map.yaml").write_text(block.split("```")[0])
        formats.append(load_mapping(tmp_path / "map.yaml").time_format)
    assert formats == ["iso", "%Y-%m-%d %H:%M:%S"]


def test_invalid_mapping_file_raises_mapping_error(tmp_path: Path) -> None:
    with pytest.raises(MappingError, match="mlflow, mlperf"):
        load_mapping("mlpref")
    (tmp_path / "map.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MappingError, match="not YAML in UTF-8"):
        load_mapping(tmp_path / "map.yaml")
    (tmp_path / "map.yaml").write_text("x" * 300_000)
    with pytest.raises(MappingError, match="over 262144 bytes"):
        load_mapping(tmp_path / "map.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a + b * 2", 13.0),
        ("(a + b) * 2", 16.0),
        ("-a / b", -0.6),
        ("max(a, b) - min(a, 1)", 4.0),
        ("1.5", 1.5),
    ],
)
def test_expression_evaluates_arithmetic(text: str, value: float) -> None:
    assert Expression(text).evaluate({"a": 3.0, "b": 5.0}) == pytest.approx(value)


def test_expression_names_its_columns_once() -> None:
    assert Expression("max(nodes, 1) * gpus + nodes").columns == ("nodes", "gpus")


@pytest.mark.parametrize("text", ["a / b", "a / (b - b)", "1e308 * 10 * a", "1e308 * 1e308 - 1e308 * 1e308"])
def test_expression_result_must_be_finite(text: str) -> None:
    with pytest.raises(ValueError, match=r"zero|finite|the result is"):
        Expression(text).evaluate({"a": 1.0, "b": 0.0})


@pytest.mark.parametrize(
    "text",
    ["a.b", "a[0]", "f(a)", "min(a)", "a if b else c", "'x'", "True", "a ** 2", "a // 2", "not a", "lambda: 0", "",
     "a; b", "[a]", "min(a, b, key=c)", "a" + "+a" * 1000, "-(" * 60 + "a" + ")" * 60, "-" * 900 + "a", "\0"],
)  # fmt: skip
def test_expression_other_than_arithmetic_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="expression"):
        Expression(text)


@given(st.text(max_size=200))
def test_arbitrary_expression_parses_or_raises_value_error(text: str) -> None:
    try:
        expression = Expression(text)
    except ValueError:
        return
    try:
        expression.evaluate(dict.fromkeys(expression.columns, 2.0))
    except ValueError as error:
        assert "zero" in str(error) or "result" in str(error) or "large" in str(error)
