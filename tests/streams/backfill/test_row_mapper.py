"""Tables of past jobs to events: values, order, and what is said about rows that cannot be used."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.schemas.backfill.mapping import Condition, Mapping, MappingError, Source, load_mapping
from leap.schemas.codec import decode, encode
from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted
from leap.schemas.hardware import load_catalog
from leap.streams.backfill.row_events import Job, in_time_order
from leap.streams.backfill.row_mapper import BadRow, RowMapper
from leap.streams.backfill.sender import read_table
from leap.streams.joining.attempt import event_time
from leap.streams.tables.table_reader import Row

MAPPING = Mapping(
    keep=(Condition(column="state", equals=("done", "FAILED")), Condition(column="rate", missing=False)),
    derived={"hosts": Source(column="nodes", default=1)},
    attempt_id=Source(template="{cluster}/{job}"),
    job_name="name",
    model_type=Source(constant="resnet"),
    hardware_type=Source(column="gpu", values={"A100": "A100-SXM-80GB"}),
    submitted_at="start",
    run_seconds=Source(column="minutes", scale=60.0),
    status=Source(column="state", values={"done": "succeeded"}),
    config={
        "num_trainers": "hosts",
        "accelerators_per_trainer": 8,
        "batch_size": Source(expression="batch / hosts"),
        "activation_checkpointing": Source(column="recompute", default=False),
    },
    extra={"queue": "queue"},
    measurements={"throughput": Source(column="rate", scale=1000.0)},
    candidates=("H100-SXM-80GB",),
)
ROW: Row = {
    "cluster": "east", "job": 17.0, "name": "train-resnet", "gpu": "A100", "start": "2024-03-01T10:00:00+02:00",
    "minutes": "90", "state": "Done", "nodes": "4", "batch": "1024", "queue": "night", "recompute": "yes",
    "rate": "2.5",
}  # fmt: skip


def mapped(**changes: object) -> Job | BadRow | None:
    return RowMapper(MAPPING, ROW).job(7, {**ROW, **changes})


def job(**changes: object) -> Job:
    result = mapped(**changes)
    assert isinstance(result, tuple), result
    return result


def bad(**changes: object) -> BadRow:
    result = mapped(**changes)
    assert isinstance(result, BadRow), result
    return result


def arrives(job: Job) -> bool:
    """Whether a worker decodes exactly what was made."""
    submitted, allocated, completed = job
    return (
        decode(encode(submitted), JobSubmitted) == submitted
        and decode(encode(allocated), JobAllocated) == allocated
        and decode(encode(completed), JobCompleted) == completed
    )


def test_row_maps_to_submission_allocation_and_completion() -> None:
    submitted, allocated, completed = job()
    start = datetime(2024, 3, 1, 8, tzinfo=UTC)
    assert (submitted.attempt_id, submitted.job_name, submitted.model_type) == (
        "east/17",
        "train-resnet",
        "resnet",
    )
    assert submitted.submitted_at == allocated.allocated_at == completed.started_at == start
    assert submitted.config.num_trainers == 4
    assert submitted.config.batch_size == 256
    assert submitted.config.activation_checkpointing is True
    assert submitted.config.extra == {"queue": "night"}
    assert submitted.candidates == ("A100-SXM-80GB", "H100-SXM-80GB")
    assert (allocated.hardware_type, allocated.hosts, allocated.accelerators) == ("A100-SXM-80GB", 4, 32)
    assert completed.finished_at == start + timedelta(minutes=90)
    assert completed.accelerator_hours == 48
    assert completed.measurements == {"throughput": 2500}
    assert completed.status == "succeeded"  # a usual word, whatever its case; `values` maps texts as they are written


def test_mapped_events_pass_the_workers_validation() -> None:
    assert arrives(job())


def test_missing_values_use_the_default_or_are_omitted() -> None:
    submitted, _, completed = job(nodes="", recompute=None, queue="NaN", state="FAILED")
    assert submitted.config.num_trainers == 1
    assert submitted.config.batch_size == 1024
    assert submitted.config.activation_checkpointing is False
    assert submitted.config.extra == {}
    assert completed.status == "failed"


@pytest.mark.parametrize("changes", [{"state": "running"}, {"state": ""}, {"rate": ""}, {"rate": float("nan")}])
def test_rows_that_fail_the_conditions_are_skipped(changes: Row) -> None:
    assert mapped(**changes) is None


@pytest.mark.parametrize(
    ("changes", "field", "value", "problem"),
    [
        ({"start": "yesterday"}, "submitted_at", "yesterday", "time_format: iso"),
        ({"start": ""}, "submitted_at", "", "missing; add a default"),
        ({"minutes": "long"}, "run_seconds", "long", "not a number"),
        ({"minutes": "inf"}, "run_seconds", "inf", "not finite"),
        ({"minutes": "1e300"}, "run_seconds", "6e+301", ""),
        ({"minutes": "-1"}, "event", "", "finished_at is before started_at"),
        ({"nodes": "0"}, "config.batch_size", "batch=1024, hosts=0", "division by zero"),
        ({"nodes": "2.5"}, "config.num_trainers", "2.5", "ceil(gpus / 8)"),
        ({"nodes": "-4"}, "config.num_trainers", "", ">= 1"),
        ({"name": "x" * 513}, "job_name", "", "512"),
        ({"recompute": "perhaps"}, "config.activation_checkpointing", "perhaps", "neither true nor false"),
        ({"rate": "-1"}, "measurements[...]", "", ">= 0"),
        ({"job": None}, "attempt_id", "", "missing"),
    ],
)
def test_bad_row_names_row_field_problem_and_remedy(changes: Row, field: str, value: str, problem: str) -> None:
    result = bad(**changes)
    assert (result.row, result.field, result.value) == (7, field, value)
    assert problem in result.problem
    assert str(result).startswith(f"row 7: {field}: ")


@given(st.dictionaries(st.sampled_from(sorted(ROW)), st.one_of(st.text(), st.floats(), st.integers(), st.none())))
def test_arbitrary_row_gives_events_none_or_a_bad_row(changes: Row) -> None:
    result = mapped(**changes)
    if isinstance(result, BadRow):
        assert result.problem
    elif result is not None:
        assert arrives(result)


@pytest.mark.parametrize(
    ("time_format", "value"),
    [
        ("iso", "2024-03-01T08:00:00Z"),
        ("iso", "2024-03-01 08:00:00"),
        ("iso", datetime(2024, 3, 1, 8)),
        ("seconds", 1709280000),
        ("milliseconds", "1709280000000"),
        ("%d/%m/%Y %H:%M", "01/03/2024 08:00"),
    ],
)
def test_times_are_parsed_with_the_declared_format(time_format: str, value: object) -> None:
    mapping = Mapping(
        attempt_id="job", job_name="name", model_type="name", hardware_type="gpu", submitted_at="start",
        finished_at="start", config={"num_trainers": 1, "accelerators_per_trainer": 1},
        measurements={"throughput": "rate"}, time_format=time_format,
    )  # fmt: skip
    result = RowMapper(mapping, ROW).job(1, {**ROW, "start": value})
    assert isinstance(result, tuple)
    assert result[0].submitted_at == result[2].finished_at == datetime(2024, 3, 1, 8, tzinfo=UTC)


def test_mapping_error_names_the_missing_column() -> None:
    with pytest.raises(MappingError, match=r"config.batch_size: the table has no column 'batch'; it has cluster"):
        RowMapper(MAPPING, ROW.keys() - {"batch"})
    with pytest.raises(MappingError, match="keep: the table has no column 'state'"):
        RowMapper(MAPPING, ROW.keys() - {"state"})


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_parquet_timestamps_with_nanoseconds_are_read(tmp_path: Path, zone: str | None) -> None:
    times = pd.to_datetime(["2024-03-01T10:00:00.123456789"]).tz_localize(zone)
    pd.DataFrame([ROW]).assign(start=times).to_parquet(tmp_path / "jobs.parquet")
    [result] = read_table(tmp_path / "jobs.parquet", MAPPING, load_catalog()).jobs
    expected = datetime(2024, 3, 1, 9 if zone == "Europe/Berlin" else 10, 0, 0, 123456, UTC)
    assert type(result[0].submitted_at) is datetime and result[0].submitted_at == expected
    assert arrives(result)


@pytest.mark.parametrize("name", ["job.id", "job[0]", "0", "job id"])
def test_template_accepts_column_names_with_dots(name: str) -> None:
    mapping = msgspec.structs.replace(MAPPING, attempt_id=Source(template="{{{" + name + "}-{cluster}"))
    result = RowMapper(mapping, {**ROW, name: 1}).job(1, {**ROW, name: 17.0})
    assert isinstance(result, tuple), result
    assert result[0].attempt_id == "{17-east"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=30))
def test_events_are_sorted_by_time_and_stable_within_a_job(times: list[tuple[int, int]]) -> None:
    jobs = [job(job=n, start=f"2024-03-01T0{start}:00:00Z", minutes=60 * run) for n, (start, run) in enumerate(times)]
    events = in_time_order(jobs)
    assert [event_time(event) for event in events] == sorted(event_time(event) for row in jobs for event in row)
    for row in jobs:
        assert [event for event in events if event in row] == list(row)


@pytest.mark.parametrize(
    ("name", "file", "usable"),
    [
        ("mlperf", "mlperf-training/runs.csv", 17_067),  # what the table's README calls usable
        ("sia", "sia-pollux/profiles.csv", 23_304),
        ("timm-train", "timm/runs.csv", 1_672),
        ("timm-inference", "timm/runs.csv", 12_502),
        ("megatron-bridge", "megatron-bridge/runs.csv", 278),
    ],
)
def test_every_usable_row_of_a_public_table_is_mapped(shared_data: Path, name: str, file: str, usable: int) -> None:
    table = read_table(shared_data / file, load_mapping(name), load_catalog())
    assert (len(table.jobs), table.bad) == (usable, [])
    attempts = [submitted for submitted, _, _ in table.jobs]
    assert len({attempt.attempt_id for attempt in attempts}) == usable
    assert min(attempt.submitted_at for attempt in attempts).year >= 2020
    unlisted = {allocated.hardware_type for _, allocated, _ in table.jobs} - {*load_catalog()}
    assert all(name.startswith("CPU-") for name in unlisted)


def test_the_family_of_a_row() -> None:
    by_pattern = msgspec.structs.replace(MAPPING, family_patterns=("-resnet$",))
    by_column = msgspec.structs.replace(by_pattern, family="queue")
    for mapping, expected in ((MAPPING, None), (by_pattern, "train"), (by_column, "night")):
        result = RowMapper(mapping, ROW).job(1, dict(ROW))
        assert isinstance(result, tuple)
        assert result[0].family == result[2].family == expected
    with pytest.raises(MappingError, match="family_patterns: pattern"):
        RowMapper(msgspec.structs.replace(MAPPING, family_patterns=("(a+)+",)), ROW)


def test_patterns_of_families_from_a_file_beside_the_mapping(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(msgspec.yaml.encode(msgspec.structs.replace(MAPPING, family_patterns="families.yaml")))
    with pytest.raises(MappingError, match=r"families\.yaml: No such file"):
        load_mapping(file)
    (tmp_path / "families.yaml").write_text('["-[a-z]+$"]', encoding="utf-8")
    assert load_mapping(file).family_patterns == ("-[a-z]+$",)
