"""The door: an event or a reason, nothing else, whatever is thrown at it."""

import json
from typing import Annotated, Any, ClassVar

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leap.schemas.codec import MAX_DECODED_BYTES, MAX_MESSAGE_BYTES, Rejected, decode, decode_open, encode
from leap.schemas.events import DeadLetter, Event, JobAllocated, JobAttempt, JobCompleted, JobSubmitted, PreferenceList
from leap.schemas.tooling.json_schema import event_schema
from leap.schemas.topics import PREFERENCES, SUBMITTED, load_topics
from tests.schemas.examples import example, example_paths, topic_of

EVENTS = [topic.event_type for topic in load_topics().values()]
SCHEMAS = {event: jsonschema.Draft7Validator(event_schema(event)) for event in EVENTS}
EXAMPLES = [(topic_of(path).event_type, path.read_bytes()) for path in example_paths()]

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([2**31, 2**53, 2**63, -(2**63) - 1, 2**64, 10**400, 1e30, 1.1e30, 5e-324, -0.0]),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.text(max_size=20)
    | st.sampled_from(["\ud800", "x" * 513, "0001-01-01T00:00:00+23:59"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def take(value: bytes, event_type: type[Event]) -> Event | None:
    """Decode; whatever is taken must be one that the schema takes and that survives being sent on."""
    try:
        event = decode(value, event_type)
    except Rejected as error:
        assert 0 < len(str(error)) < 2048
        with pytest.raises(Rejected):
            decode_open(value, event_type)
        return None
    assert event == decode_open(value, event_type)
    SCHEMAS[event_type].validate(json.loads(value))
    sent = msgspec.structs.replace(event, schema_version=event.VERSION)
    assert decode(encode(event), event_type, MAX_DECODED_BYTES) == sent
    return event


@settings(UNHURRIED)
@given(st.binary(max_size=200), st.sampled_from(EVENTS))
def test_arbitrary_bytes_give_an_event_or_a_reason(value: bytes, event_type: type[Event]) -> None:
    take(value, event_type)


@settings(UNHURRIED)
@given(VALUES, st.sampled_from(EVENTS))
def test_arbitrary_json_gives_an_event_or_a_reason(value: Any, event_type: type[Event]) -> None:
    take(json.dumps(value).encode(), event_type)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of a JSON value with every key or position in it."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [entry for key in keys for entry in places(value[key])]


@settings(UNHURRIED, max_examples=300)
@given(st.data())
def test_mutated_event_is_decoded_or_rejected(data: st.DataObject) -> None:
    event_type, raw = data.draw(st.sampled_from(EXAMPLES))
    fields = json.loads(raw)
    container, key = data.draw(st.sampled_from(places(fields)))
    change = data.draw(st.sampled_from(["replace", "delete", "add"]))
    if change == "replace":
        container[key] = data.draw(VALUES)
    elif change == "delete":
        del container[key]
    elif isinstance(container, dict):
        container[data.draw(st.text(max_size=8))] = data.draw(VALUES)
    take(json.dumps(fields).encode(), event_type)


@settings(UNHURRIED, max_examples=300)
@given(st.data())
def test_event_with_corrupt_bytes_is_decoded_or_rejected(data: st.DataObject) -> None:
    event_type, raw = data.draw(st.sampled_from(EXAMPLES))
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, min(len(raw), start + 8)))
    take(raw[:start] + data.draw(st.binary(max_size=8)) + raw[end:], event_type)


@settings(UNHURRIED)
@given(
    st.dictionaries(
        st.text(max_size=20).map("new_".__add__),
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3),
        max_size=20,
    )
)
def test_unknown_fields_survive_a_round_trip(strange: dict[str, Any]) -> None:
    fields = example(SUBMITTED) | strange
    fields["config"] |= strange
    once = decode(msgspec.json.encode(fields), JobSubmitted)
    twice = decode(encode(once), JobSubmitted)
    assert once.unknown == twice.unknown == once.config.unknown == twice.config.unknown == strange


def with_value(topic: str, path: str, value: Any) -> bytes:
    """The full example of a topic with one value, at a dotted path, set."""
    fields: Any = example(topic, "full")
    *parents, last = path.split(".")
    container = fields
    for step in parents:
        container = container[int(step)] if step.isdigit() else container[step]
    container[last] = value
    return json.dumps(fields).encode()


LONG = "é" * 512


def names(count: int, value: Any = 1) -> dict[str, Any]:
    return {str(number): value for number in range(count)}


LIMITS = [  # topic, field, the extremes that are taken, what lies just beyond
    ("job-submitted", "attempt_id", ["a", LONG], ["", LONG + "a"]),
    ("job-submitted", "schema_version", [1, 2**31 - 1], [0, 2**31]),
    ("job-submitted", "candidates", [[], ["a"] * 1000], [["a"] * 1001, [""]]),
    ("job-submitted", "samples", [5e-324, 1e30], [0, -1, 1.0001e30]),
    ("job-submitted", "submitted_at", ["1970-01-01T00:00:00Z"], ["1969-12-31T23:59:59Z", "2026-01-01T00:00:00"]),
    ("job-submitted", "submitted_at", ["2199-12-31T23:59:59-12:00"], ["2200-01-01T00:00:00Z", "2026-01-01", 0]),
    ("job-submitted", "config.num_trainers", [1, 10_000_000], [0, 10_000_001, 1.0, True, "1", None]),
    ("job-submitted", "config.data_readers", [0, 1e30], [-1e-300, 1.0001e30]),
    ("job-submitted", "config.sharding", ["", LONG, None], [LONG + "a"]),
    ("job-submitted", "config.extra", [{}, names(256), {"a": LONG}], [names(257), {"a": LONG + "a"}]),
    ("job-submitted", "config.extra", [{LONG: -1e308}], [{LONG + "a": 1}, {"": 1}, {"a": None}, {"a": 10**400}]),
    ("job-submitted", "unknown", [{}, names(256)], [names(257), None, []]),
    ("job-submitted", "model.operators", [[{"kind": "a"}] * 4], [[], [{}], [{"kind": "a"}] * 3]),
    ("job-submitted", "model.edges", [[], [[0, 3]]], [[[0, 4]], [[4, 0]], [[-1, 0]], [[0]], [[0, 1, 2]]]),
    ("job-submitted", "model.operators.0.shape", [[], [-1] * 16, [2**53]], [[1] * 17, [-2], [2**53 + 1]]),
    ("job-submitted", "model.operators.0.parameters", [0, 2**62], [-1, 2**62 + 1]),
    ("job-submitted", "model.operators.0.flops", [0, 1e30], [-1, 1.0001e30]),
    ("job-submitted", "model.operators.0.attributes", [names(64, -1)], [names(65, -1), {"a": "b"}]),
    ("job-allocated", "hosts", [1, 10_000_000], [0, 10_000_001]),
    ("job-completed", "measurements", [{}, names(64)], [names(65), {"throughput": -1}, {"throughput": "1"}]),
    ("job-completed", "finished_at", ["2026-11-28T06:33:00Z"], ["2026-11-28T06:32:59Z"]),
    ("dead-letter", "partition", [0, 2**31 - 1], [-1, 2**31]),
    ("dead-letter", "offset", [0, 2**63 - 1], [-1, 2**63]),
    ("dead-letter", "value", ["", "YQ==", None], ["YQ", "!", 1]),
    ("dead-letter", "reason", ["", "x" * 2048], ["x" * 2049]),
    ("preference-list", "objective", ["fastest"], ["slowest", "", None]),
    ("preference-list", "ranked.0.observations", [0, 2**53], [-1, 2**53 + 1]),
]


@pytest.mark.parametrize(
    ("topic", "path", "taken", "refused"), LIMITS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_values_at_and_beyond_the_limits(topic: str, path: str, taken: list[Any], refused: list[Any]) -> None:
    event_type = load_topics()[topic].event_type
    for value in taken:
        assert take(with_value(topic, path, value), event_type) is not None, value
    for value in refused:
        assert take(with_value(topic, path, value), event_type) is None, value


def test_message_over_the_size_limit_is_rejected() -> None:
    raw = json.dumps(example(SUBMITTED)).encode()
    assert decode(raw.ljust(MAX_MESSAGE_BYTES), JobSubmitted) == decode(raw, JobSubmitted)
    with pytest.raises(Rejected, match="1048577 bytes, over the limit of 1048576"):
        decode(raw.ljust(MAX_MESSAGE_BYTES + 1), JobSubmitted)
    with pytest.raises(Rejected, match="over the limit of 10"):
        decode(raw, JobSubmitted, limit=10)


def test_number_of_operators_is_limited() -> None:
    operators = [{"kind": "a"}] * 100_001
    event = decode(with_value(SUBMITTED, "model", {"operators": operators[:-1]}), JobSubmitted, limit=4 << 20)
    assert event.model is not None and len(event.model.operators) == 100_000
    with pytest.raises(Rejected, match="length <= 100000"):
        decode(with_value(SUBMITTED, "model", {"operators": operators}), JobSubmitted, limit=4 << 20)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 5000])
@pytest.mark.parametrize("field", ["samples", "novelty"])
def test_non_finite_numbers_are_rejected_even_in_unknown_fields(number: str, field: str) -> None:
    raw = json.dumps(example(SUBMITTED) | {field: "here"}).replace('"here"', number).encode()
    with pytest.raises(Rejected, match=r"malformed|out of range"):
        decode(raw, JobSubmitted)


@pytest.mark.parametrize("text", [rb"\ud800", rb"\udc00", rb"\ud800\u0041", b"\xed\xa0\x80", b"\xff", b"\xc0\x80"])
def test_invalid_unicode_is_rejected_in_values_and_names(text: bytes) -> None:
    raw = json.dumps(example(SUBMITTED) | {"here": "there"}).encode()
    for word in (b"here", b"there"):
        with pytest.raises(Rejected):
            decode(raw.replace(b'"' + word + b'"', b'"' + text + b'"'), JobSubmitted)


@pytest.mark.parametrize("field", ["novelty", "candidates", "unknown", "config"])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("depth", [33, 500, 990, 100_000])
def test_deep_nesting_is_rejected(field: str, start: str, end: str, depth: int) -> None:
    raw = json.dumps(example(SUBMITTED) | {field: "here"})
    with pytest.raises(Rejected):
        decode(raw.replace('"here"', start * depth + "1" + end * depth).encode(), JobSubmitted)


def test_unknown_fields_may_nest_31_deep() -> None:
    nested: Any = 1
    for _ in range(31):
        nested = [nested]
    raw = json.dumps(example(SUBMITTED) | {"novelty": nested}).encode()
    assert decode(raw, JobSubmitted).unknown == {"novelty": nested}
    with pytest.raises(Rejected, match="nested deeper than 32"):
        decode(json.dumps(example(SUBMITTED) | {"novelty": [nested]}).encode(), JobSubmitted)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "tombstone"),
        (b"", "truncated"),
        (b"[]", "expected a JSON object, got list"),
        (b"null", "expected a JSON object, got NoneType"),
        (b"{}", "missing required field `attempt_id`"),
        (b"\xef\xbb\xbf{}", "malformed"),
        (b"{} {}", "trailing characters"),
        (b'{"attempt_id": 7}', r"Expected `str`, got `int` - at `\$.attempt_id`"),
    ],
)  # fmt: skip
def test_rejection_names_problem_and_path(value: bytes | None, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        decode(value, JobAllocated)


def test_unknown_hardware_field_does_not_break_an_older_reader() -> None:
    fields = example("job-attempt", "full")
    known = decode(json.dumps(fields).encode(), JobAttempt)
    fields["hardware"]["fp4_tflops"] = 1e4
    fields["submitted"]["novelty"] = fields["completed"]["novelty"] = 1
    event = decode(json.dumps(fields).encode(), JobAttempt)
    assert event.hardware == known.hardware
    assert event.submitted.unknown == event.completed.unknown == {"novelty": 1}


def test_encoded_message_has_its_schema_version() -> None:
    class Second(JobCompleted, frozen=True, kw_only=True, omit_defaults=True):
        VERSION: ClassVar[int] = 2
        cause: Annotated[str, msgspec.Meta(max_length=9)] = ""

    raw = json.dumps(example("job-completed")).encode()
    assert b"schema_version" not in encode(decode(raw, JobCompleted))
    assert decode(encode(decode(raw, Second)), Second).schema_version == 2
    assert decode(encode(decode(raw, Second)), JobCompleted).schema_version == 2


def test_dead_letter_of_a_maximum_size_message_round_trips() -> None:
    fields = example("dead-letter", "full") | {"value": None}
    letter = msgspec.structs.replace(decode(json.dumps(fields).encode(), DeadLetter), value=bytes(MAX_MESSAGE_BYTES))
    assert decode(encode(letter), DeadLetter, load_topics()["dead-letter"].max_message_bytes) == letter
    with pytest.raises(ValueError, match=r"DeadLetter of .* over the limit of 2097152"):
        encode(msgspec.structs.replace(letter, value=bytes(2 * MAX_MESSAGE_BYTES)))


@pytest.mark.parametrize("event_type", EVENTS)
def test_every_struct_forbids_unknown_fields(event_type: type[Event]) -> None:
    """The codec decodes in one step what has no unknown field, so each has to tell of them."""
    for definition in msgspec.json.schema(event_type)["$defs"].values():
        assert definition["additionalProperties"] is False


def test_unknown_fields_within_a_list_are_dropped() -> None:
    fields = example(PREFERENCES, "full")
    plain = decode(msgspec.json.encode(fields), PreferenceList)
    fields["ranked"][0]["new"] = 1
    assert plain.ranked
    assert decode(msgspec.json.encode(fields), PreferenceList) == plain
