"""Placement against hand calculations, and its rules for any numbers."""

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leap.predictor.features.batch import HardwareTable, JobBatch
from leap.predictor.routing.placement import NOT_EFFICIENT, REASONS, Goal, Placement, order, place
from leap.schemas.hardware import Catalog, Hardware
from leap.schemas.launch import LaunchConfig, ModelDefinition, Operator
from tests.builders import CATALOG, submission

TABLE = HardwareTable(CATALOG)
NAMES = ["basic", "fast", "newest", "unpriced", "unheard of"]


def placed(
    throughput: list[float],
    model: ModelDefinition | None = None,
    goal: Goal | None = None,
    efficiency: float = 1.0,
    names: list[str] = NAMES,
) -> Placement:
    jobs = JobBatch.from_events([submission(model=model, trainers=2)])
    job = np.zeros(len(names), np.intp)
    return place(jobs, TABLE, job, TABLE.index(names), np.array(throughput), [goal or Goal()], efficiency)


def reasons(found: Placement) -> list[str | None]:
    return [REASONS[code] for code in found.reason]


def test_score_is_throughput_over_the_price_of_all_accelerators() -> None:
    found = placed([160.0, 960.0, 4800.0, 100.0, 100.0])
    assert found.cost_per_hour[:3].tolist() == [16.0, 48.0, 160.0]  # 2 trainers x 8 accelerators x price
    assert found.score[:3].tolist() == [10.0, 20.0, 30.0]


def test_hardware_without_price_or_specification_is_excluded_with_its_reason() -> None:
    assert reasons(placed([1.0] * 5))[3:] == ["no price in the catalog", "no specification in the catalog"]


def test_fastest_needs_no_price() -> None:
    found = placed([160.0, 960.0, 4800.0, 5000.0, 1.0], goal=Goal("fastest"))
    assert reasons(found)[3] is None
    assert (found.score[3], np.isnan(found.cost_per_hour[3])) == (5000.0, True)


def test_free_hardware_goes_before_priced_by_throughput() -> None:
    free = [Hardware(name=name, vendor="Acme", price_per_hour=0.0) for name in ("a", "b")]
    table = HardwareTable(Catalog([*CATALOG.values(), *free]))
    names = ["basic", "a", "newest", "b"]
    job = np.zeros(len(names), np.intp)
    throughput = np.array([1e6, 5.0, 1e6, 7.0])
    found = place(JobBatch.from_events([submission()]), table, job, table.index(names), throughput, [Goal()])
    assert [names[row] for row in order(names, found.score)] == ["b", "a", "basic", "newest"]
    assert np.isfinite(found.score).all()
    assert found.score[3] / found.score[1] == 7.0 / 5.0
    assert found.cost_per_hour[[1, 3]].tolist() == [0.0, 0.0]
    assert [REASONS[code] for code in found.reason] == [None, None, REASONS[NOT_EFFICIENT], None]


def test_premium_hardware_stays_only_where_it_earns_its_price() -> None:
    inefficient = placed([160.0, 960.0, 3199.0, 1.0, 1.0])  # 19.99 per USD against 20 of `fast`
    assert reasons(inefficient)[2] == "premium, and not efficient beside the best standard type"
    assert reasons(placed([160.0, 960.0, 3200.0, 1.0, 1.0]))[2] is None
    assert reasons(placed([160.0, 960.0, 1600.0, 1.0, 1.0], efficiency=0.5))[2] is None


def test_premium_hardware_alone_stays() -> None:
    assert reasons(placed([1.0], names=["newest"])) == [None]
    assert reasons(placed([1.0, 9.0], names=["newest", "unpriced"]))[0] is None


def test_premium_hardware_that_the_user_pinned_stays() -> None:
    throughput = [160.0, 960.0, 320.0, 1.0, 1.0]
    assert reasons(placed(throughput, goal=Goal(pinned="newest")))[2] is None
    assert reasons(placed(throughput, goal=Goal(pinned="basic")))[2] == REASONS[NOT_EFFICIENT]
    assert reasons(placed(throughput, goal=Goal(pinned="unpriced")))[3] == "no price in the catalog"


def test_memory_that_cannot_hold_weights_and_gradients_excludes() -> None:
    # bf16: 4 bytes a parameter over 16 accelerators of 16 GB hold at most 64e9 parameters.
    def of(parameters: int) -> ModelDefinition:
        return ModelDefinition(operators=(Operator(kind="linear", parameters=parameters),))

    assert reasons(placed([1.0] * 5, of(64_000_000_000)))[0] is None
    assert reasons(placed([1.0] * 5, of(64_100_000_000)))[:2] == ["memory cannot hold the job", None]


def test_embedding_tables_need_memory_for_their_weights_alone() -> None:
    def of(embedded: int, dense: int) -> ModelDefinition:
        tables = Operator(kind="embedding_bag", parameters=embedded, attributes={"rows": embedded / 128, "dim": 128})
        return ModelDefinition(operators=(tables, Operator(kind="linear", parameters=dense)))

    # bf16 on 16 accelerators of 16 GB: 2 bytes a value of a table and 4 of all else.
    assert reasons(placed([1.0] * 5, of(120_000_000_000, 4_000_000_000)))[0] is None
    assert reasons(placed([1.0] * 5, of(120_000_000_000, 4_100_000_000)))[0] == "memory cannot hold the job"


def test_the_tables_of_mlperf_fit_on_two_accelerators_of_80_gb() -> None:
    # DLRM-dcnv2: 204,184,588 rows of 128 values are 104.5 GB in fp32; dense gradients of them would double that.
    tables = Operator(kind="embedding_bag", parameters=204_184_588 * 128)
    model = ModelDefinition(operators=(tables, Operator(kind="linear", parameters=20_000_000)))
    config = LaunchConfig(num_trainers=1, accelerators_per_trainer=2, precision="fp32")
    jobs = JobBatch.from_events([msgspec.structs.replace(submission(model=model), config=config)])
    found = place(jobs, TABLE, np.array([0, 0]), TABLE.index(["fast", "basic"]), np.ones(2), [Goal()])
    assert reasons(found) == [None, "memory cannot hold the job"]


def test_a_prediction_that_is_not_finite_excludes() -> None:
    assert reasons(placed([float("nan"), 1.0, float("inf"), 1.0, 1.0]))[:3] == ["no prediction", None, "no prediction"]


def test_objectives() -> None:
    fastest = placed([160.0, 960.0, 970.0, 1.0, 1.0], goal=Goal("fastest"), efficiency=0.0)
    assert order(NAMES[:3], fastest.score[:3]) == [2, 1, 0]
    in_time = placed([160.0, 960.0, 970.0, 1.0, 1.0], goal=Goal("cheapest_by_deadline", 9600.0, 10.0), efficiency=0.0)
    assert reasons(in_time)[:3] == ["would finish after the deadline", None, None]
    assert in_time.score[:3].tolist() == in_time.per_cost[:3].tolist()


Price = st.floats(0.01, 100.0)
Rate = st.floats(1e-3, 1e6)


@given(st.lists(st.tuples(Price, Rate, st.booleans()), min_size=1, max_size=12), st.floats(0.0, 2.0))
def test_ranking_is_by_score_with_ties_by_name_and_keeps_a_standard_type(
    types: list[tuple[float, float, bool]], efficiency: float
) -> None:
    catalog = Catalog(
        Hardware(name=f"h{row:02}", vendor="v", price_per_hour=price, price_source="s", price_date="d", premium=premium)
        for row, (price, _, premium) in enumerate(types)
    )
    table, names = HardwareTable(catalog), list(catalog)
    rates = np.array([rate for _, rate, _ in types])
    jobs = JobBatch.from_events([submission()])
    found = place(jobs, table, np.zeros(len(names), np.intp), table.index(names), rates, [Goal()], efficiency)
    ranked = [row for row in order(names, found.score) if not found.reason[row]]
    keys = [(-found.score[row], names[row]) for row in ranked]
    assert keys == sorted(keys)
    standard = [row for row, (_, _, premium) in enumerate(types) if not premium]
    assert set(standard) <= set(ranked)
    assert ranked, "at least one candidate stays"
    if standard:
        best = max(found.score[row] for row in standard)
        assert all(found.score[row] >= efficiency * best for row in ranked if row not in standard)
