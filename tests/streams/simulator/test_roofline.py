"""Roofline, scheduler and model definitions of the fleet, against figures worked out by hand."""

import dataclasses

import msgspec
import numpy as np
import pytest

from leap.schemas.hardware import Hardware, load_catalog
from leap.streams.simulator import model_definitions
from leap.streams.simulator.fleet import Fleet, FleetConfig
from leap.streams.simulator.job_families import Configurations
from leap.streams.simulator.model_types import make_model_types
from leap.streams.simulator.roofline import Machines, roofline_throughput
from leap.streams.simulator.scheduler import allocate

ONE = np.ones(1, dtype=np.int64)
TYPES = make_model_types(12, np.random.default_rng(0))
PLAIN = Configurations(
    trainers=ONE,
    accelerators=ONE,
    batch=64 * ONE,
    readers=10_000_000 * ONE,
    precision=3 * ONE,
    sequence=0 * ONE,
    accumulation=0 * ONE,
    checkpointing=0 * ONE,
    tensor_parallel=ONE,
    pipeline_parallel=ONE,
)


def machine(**figures: float) -> Machines:
    return Machines.of([msgspec.convert({"name": "X", "vendor": "V", **figures}, Hardware)])


def test_a_model_bound_by_arithmetic_runs_at_half_of_the_peak() -> None:
    fast = machine(bf16_tflops=100.0, memory_bandwidth_gb_s=1e6)
    kind = int(np.argmax(TYPES.flops))
    config = dataclasses.replace(PLAIN, sequence=TYPES.tokens[kind] * ONE)
    measured = roofline_throughput(TYPES, kind * ONE, config, fast, 0 * ONE)
    assert measured[0] == pytest.approx(0.5 * 100e12 / (3 * TYPES.flops[kind]), rel=0.01)


def test_a_model_bound_by_its_readers_runs_as_fast_as_they_read() -> None:
    fast = machine(bf16_tflops=1e5, memory_bandwidth_gb_s=1e6)
    kind = int(np.argmin(TYPES.flops))
    starved = dataclasses.replace(PLAIN, readers=2 * ONE)
    measured = roofline_throughput(TYPES, kind * ONE, starved, fast, 0 * ONE)
    assert measured[0] == pytest.approx(2 / (TYPES.reader_ms[kind] * 1e-3), rel=0.02)


def test_better_hardware_is_never_slower_and_more_hosts_never_scale_beyond_their_number() -> None:
    kinds = np.arange(len(TYPES))
    config = Configurations(**{n: np.repeat(v, len(kinds)) for n, v in vars(PLAIN).items()})
    config = dataclasses.replace(config, sequence=TYPES.tokens, batch=np.maximum(config.batch, 8))
    rows = np.zeros(len(kinds), dtype=np.int64)
    worse = dict.fromkeys(("bf16_tflops", "memory_bandwidth_gb_s", "interconnect_gb_s", "host_link_gb_s"), 50.0)
    base = roofline_throughput(TYPES, kinds, config, machine(**worse), rows)
    for name in worse:
        better = roofline_throughput(TYPES, kinds, config, machine(**(worse | {name: 100.0})), rows)
        assert (better >= base * (1 - 1e-12)).all()
    many = dataclasses.replace(config, trainers=8 * config.trainers, readers=8 * config.readers)
    scaled = roofline_throughput(TYPES, kinds, many, machine(**worse), rows)
    assert (scaled < 8 * base).all()


def test_hardware_of_the_catalog_is_usable_although_figures_are_missing() -> None:
    machines = Machines.of(list(load_catalog().values()))
    for column in vars(machines).values():
        assert np.isfinite(column).all() and (column > 0).all()


def test_an_attempt_gets_its_first_choice_until_that_is_full() -> None:
    wish = np.tile([3.0, 2.0, 1.0], (6, 1))
    candidates = np.ones((6, 3), dtype=bool)
    candidates[5] = [True, False, False]
    hour = np.array([0, 0, 0, 0, 1, 1])
    given = allocate(candidates, wish, hour, capacity=np.array([1.0, 2.0, 9.0]))
    # Of hour 0 one gets type 0, two type 1, the fourth type 2; in hour 1 the last finds its only choice full.
    assert given.tolist() == [0, 1, 1, 2, 0, 0]


def test_half_an_attempt_an_hour_is_one_every_second_hour() -> None:
    given = allocate(np.ones((24, 2), dtype=bool), np.tile([2.0, 1.0], (24, 1)), np.arange(24), np.array([0.5, 9.0]))
    assert (given == 0).sum() == 12


@pytest.mark.parametrize("domain", sorted(model_definitions.BUILDERS))
def test_definitions_are_bounded_and_grow_with_size(domain: str) -> None:
    small, large = (model_definitions.BUILDERS[domain](size, "m").definition for size in (0.0, 0.999))
    for definition in (small, large):
        assert 10 <= len(definition.operators) <= 200
        assert len(definition.edges) == len(definition.operators) - 1
    assert sum(o.flops for o in large.operators) > 20 * sum(o.flops for o in small.operators)


def test_arithmetic_of_operators() -> None:
    # 10 rows of 4 by 6: 480 operations, 24 weights. A 3x3 convolution of 8 to 16 channels on 5x5: 57,600, 1,152.
    dense, convolution = model_definitions.matmul("d", 10, 4, 6), model_definitions.conv("c", 5, 8, 16)
    assert (dense.flops, dense.parameters) == (480, 24)
    assert (convolution.flops, convolution.parameters) == (57_600, 1_152)
    assert model_definitions.attention("a", 7, 64, 2).flops == 4 * 7 * 7 * 64


def test_capacity_is_respected_but_for_those_without_a_choice() -> None:
    fleet = Fleet(FleetConfig(days=2, attempts_per_day=5000))
    batch = fleet.day(1)
    count = np.bincount(batch.hardware, minlength=len(fleet.hardware)) / len(batch)
    assert (count < 0.2).all() and (count[count > 0] > 0.002).all()
