"""What never came through the door is held to the same rule, and what is wrong with it is named with its value."""

import gc
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.schemas.codec import MAX_MESSAGE_BYTES, Rejected, decode, encode
from leap.schemas.events import MAX_CANDIDATES, JobSubmitted
from leap.schemas.launch import ModelDefinition, ModelTotals, Operator
from leap.schemas.validation import CHUNK, validated
from tests.builders import MODEL, submission

JOB = submission(model=MODEL)


def changed(path: str, value: object, job: JobSubmitted = JOB) -> JobSubmitted:
    """The job with one field set, as nobody checks it in Python."""
    *outer, name = path.split(".")
    inner: Any = job
    for step in outer:
        inner = getattr(inner, step)
    inner = msgspec.structs.replace(inner, **{name: value})
    for step in reversed(outer):
        inner = msgspec.structs.replace(job, **{step: inner})
    return inner  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("config.num_trainers", 0, "config.num_trainers is 0: Expected `int` >= 1"),
        ("config.num_trainers", -1, "config.num_trainers is -1: Expected `int` >= 1"),
        ("config.num_trainers", True, "config.num_trainers is True: Expected `int`, got `bool`"),
        ("config.num_trainers", "2", "config.num_trainers is '2': Expected `int`, got `str`"),
        ("config.num_trainers", 10**30, "config.num_trainers is 1000"),
        ("config.num_trainers", 10**5000, "config.num_trainers is "),
        ("config.num_trainers", math.nan, "config.num_trainers is nan: Expected `int`"),
        ("config.batch_size", math.nan, "config.batch_size is nan: Expected a finite number"),
        ("config.batch_size", math.inf, "config.batch_size is inf: Expected a finite number"),
        ("config.batch_size", -0.5, "config.batch_size is -0.5: Expected `float` > 0.0"),
        ("samples", -math.inf, "samples is -inf: Expected a finite number"),
        ("attempt_id", "a\ud800", r"attempt_id is 'a\ud800': "),
        ("attempt_id", "", "attempt_id is '': Expected `str` of length >= 1"),
        ("job_name", None, "job_name is None: Expected `str`, got `null`"),
        ("model_type", "\udfff", r"model_type is '\udfff': "),
        ("candidates", ("fast", "\ud800"), r"candidates.1 is '\ud800': "),
        ("candidates", ("fast", 7), "candidates.1 is 7: Expected `str`, got `int`"),
        ("candidates", ("x",) * (MAX_CANDIDATES + 1), f"Expected `array` of length <= {MAX_CANDIDATES}"),
        ("candidates", ("some-hardware-type",) * 10**6, f"bytes, over the limit of {MAX_MESSAGE_BYTES}"),
        ("config.extra", {"region": "\ud800"}, r"config.extra.region is '\ud800': "),
        ("config.extra", {"\ud800": 1.0}, r"config.extra is '\ud800': "),
        ("config.extra", {"x": math.nan}, "config.extra is {'x': nan}: Expected `float | str`, got `null`"),
        ("config", None, "config is None: Expected `object`, got `null`"),
        ("config", object(), "config is <object object at"),
        ("model", MODEL.operators, "model is ("),
        ("model", {}, "model is {}: give either operators or totals of the model"),
        ("model", {"totals": {"flops": 1}, "operators": [{"kind": "x"}]}, "give either operators or totals"),
        ("model", {"totals": {"flops": 1.0, "training_flops": 3.0}}, "flops and training_flops both state the work"),
        ("model", {"totals": {"matmul_flop_share": 0.7, "conv_flop_share": 0.5}}, "shares of the flops by class"),
        ("model", {"totals": {"flops": "1e9"}}, "model.totals.flops is '1e9': Expected `float | null`, got `str`"),
        ("model", ModelDefinition(totals=ModelTotals(flops=-1.0)), "model.totals.flops is -1.0: Expected `float` >= 0"),
        ("model", ModelDefinition(totals=ModelTotals(flops=1e31)), "model.totals.flops is 1e+31: "),
        ("model", ModelDefinition(totals=ModelTotals(flops=math.nan)), "model.totals.flops is nan: Expected a finite"),
        ("model", ModelDefinition(totals=ModelTotals(bytes=math.inf)), "model.totals.bytes is inf: Expected a finite"),
        ("model", {"totals": {"largest_flop_share": 2.0}}, "model.totals.largest_flop_share is 2.0"),
        ("model.operators", (Operator(kind="x", flops=-1.0),) * 4, "model.operators.0.flops is -1.0: Expected `float`"),
        ("model.precision", "\ud800", r"model.precision is '\ud800': "),
        ("model.name", "x" * 513, "model.name is 'xxx"),
        ("unknown", {"x": lambda: 0}, "unknown.x is <function"),
    ],
    ids=lambda given: given[:40] if isinstance(given, str) and given.isascii() else "",
)  # fmt: skip
def test_a_field_that_is_wrong_is_named_with_its_value(path: str, value: object, said: str) -> None:
    with pytest.raises(Rejected) as rejected:
        validated(changed(path, value), JobSubmitted)
    text = str(rejected.value)
    assert said in text
    assert len(text) <= 400
    text.encode()


@pytest.mark.parametrize("value", [None, 7, "a job", b"{}", [], object(), JobSubmitted, MODEL, {}, {"attempt_id": 7}])
def test_what_is_no_submission_is_refused(value: object) -> None:
    with pytest.raises(Rejected):
        validated(value, JobSubmitted)


def test_what_is_valid_comes_through_equal_and_a_definition_uncopied() -> None:
    for job in (JOB, submission()):
        assert validated(job, JobSubmitted) == job == validated(msgspec.to_builtins(job), JobSubmitted)
    assert validated(JOB, JobSubmitted).model is MODEL
    assert validated(changed("candidates", ["fast", "basic"]), JobSubmitted).candidates == ("fast", "basic")


def large(count: int, **last: object) -> JobSubmitted:
    operators = [Operator(kind="linear", name=f"layer {number}", shape=(8, 8), flops=1.0) for number in range(count)]
    operators[-1] = msgspec.structs.replace(operators[-1], **last)
    edges = tuple((number, number + 1) for number in range(count - 1))
    return submission(model=ModelDefinition(operators=tuple(operators), edges=edges))


def test_every_operator_and_edge_is_checked() -> None:
    count = 3 * CHUNK + 1
    assert validated(large(count), JobSubmitted) == large(count)
    with pytest.raises(Rejected, match=rf"model\.operators\.{count - 1}\.parameters is -1: Expected `int` >= 0"):
        validated(large(count, parameters=-1), JobSubmitted)
    good = large(count)
    assert good.model is not None
    wrong = changed("model.edges", (*good.model.edges, (0, -5)), good)
    with pytest.raises(Rejected, match=rf"model\.edges\.{count - 1}\.1 is -5"):
        validated(wrong, JobSubmitted)


def test_a_definition_is_as_large_as_a_message_may_be() -> None:
    count = 1000
    while len(encode(large(count))) <= MAX_MESSAGE_BYTES:
        count += 500
    with pytest.raises(Rejected, match=f"over the limit of {MAX_MESSAGE_BYTES}"):
        validated(large(count), JobSubmitted)
    assert validated(large(count - 500), JobSubmitted)


def test_python_looks_for_no_garbage_while_a_large_definition_is_checked() -> None:
    job, began = large(8000), []

    def noted(phase: str, _: dict[str, int]) -> None:
        began.append(phase)

    gc.collect()  # which also begins the count of objects anew
    gc.callbacks.append(noted)
    try:
        validated(job, JobSubmitted)
    finally:
        gc.callbacks.remove(noted)
    assert began == []


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.text(st.characters(codec=None))
    | st.builds(object) | st.datetimes(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)) | st.integers(), inner),
    max_leaves=8,
)  # fmt: skip
FIELDS = [
    *(name for name in JobSubmitted.__struct_fields__ if name not in ("submitted_at", "deadline")),
    *(f"config.{name}" for name in JOB.config.__struct_fields__),
    "model.precision", "model.name",
]  # fmt: skip


@given(path=st.sampled_from(FIELDS), value=ANYTHING)
def test_whatever_is_in_a_field_is_taken_as_the_door_would_or_refused(path: str, value: object) -> None:
    try:
        found = validated(changed(path, value), JobSubmitted)
    except Rejected as rejected:
        str(rejected).encode()
    else:
        assert decode(encode(found), JobSubmitted) == found
