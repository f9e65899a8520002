"""Model types: operators, popularity, presets and first day."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leap.predictor.features import architecture
from leap.schemas.launch import ModelDefinition, Operator
from leap.streams.simulator import constants as c
from leap.streams.simulator.model_definitions import BUILDERS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DOMAIN_NAMES = tuple(c.DOMAINS)
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class ModelTypes:
    """Columns over model types, most popular first (axis 0: type; axis 1 of presets: preset).

    `flops`, `bytes` and `exchange_bytes` are those of the forward pass per sample, at `tokens` tokens
    (0: the model has no sequence). `dense_parameters` are those reduced over all accelerators at each step.
    """

    names: tuple[str, ...]
    definitions: tuple[ModelDefinition, ...]
    domain: Ints
    share: Floats
    born: Ints
    size: Floats
    tokens: Ints
    operators: Ints
    flops: Floats
    bytes: Floats
    dense_parameters: Floats
    table_parameters: Floats
    exchange_bytes: Floats
    reader_ms: Floats
    readers: Ints
    precision: Ints
    preset_trainers: Ints
    preset_batch: Ints

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def architectures(self) -> Floats:
        """Model type × named summary value of its definition; NaN where it does not apply."""
        summaries = [architecture.summary(definition) for definition in self.definitions]
        return np.array([[summary.get(name, np.nan) for name in architecture.NAMES] for summary in summaries])


def popularity(count: int) -> Floats:
    """Share of attempts of each model type, by rank."""
    weight = (np.arange(1, count + 1) + c.POPULARITY_OFFSET * count) ** -c.POPULARITY_EXPONENT
    return np.asarray(weight / weight.sum())


def make_model_types(count: int, rng: np.random.Generator) -> ModelTypes:
    """Draw `count` model types.

    Domains and sizes follow low-discrepancy sequences by rank, independent of the seed: the ten most popular types
    have 40% of the attempts, so random draws for them would dominate every statistic.
    """
    share = popularity(count)
    domain = _spread_domains(share)
    size, names, sized = np.empty(count), [], []
    seen: dict[str, int] = {}
    start = np.full(len(DOMAIN_NAMES), 0.5)
    for rank in range(count):
        name = DOMAIN_NAMES[domain[rank]]
        spec = c.DOMAINS[name]
        start[domain[rank]] = (start[domain[rank]] + _GOLDEN) % 1.0
        low, high = spec.sizes
        centred = 2 * start[domain[rank]] - 1
        size[rank] = low + (high - low) * (1 + np.sign(centred) * abs(centred) ** c.SIZE_TAIL) / 2
        stem = f"{spec.architectures[rng.integers(len(spec.architectures))]}-{'sml'[int(2.999 * size[rank])]}"
        seen[stem] = seen.get(stem, 0) + 1
        names.append(f"{stem}-v{seen[stem]}")
        sized.append(BUILDERS[name](size[rank], names[-1]))
    operators = [s.definition.operators for s in sized]
    born = np.where(rng.random(count) < c.LATE_TYPES, rng.integers(1, c.LATE_DAYS, count), 0)
    born[: count // 20] = 0
    trainers, batch = _presets(domain, size, rng)
    return ModelTypes(
        names=tuple(names),
        definitions=tuple(s.definition for s in sized),
        domain=domain,
        share=share,
        born=born,
        size=size,
        tokens=np.array([s.tokens for s in sized]),
        operators=np.array([sum(o.attributes.get("repeats", 1.0) for o in ops) for ops in operators]).astype(int),
        flops=np.array([sum(o.flops for o in ops) for ops in operators]),
        bytes=np.array([sum(o.bytes for o in ops) for ops in operators]),
        dense_parameters=_parameters(operators, tables=False),
        table_parameters=_parameters(operators, tables=True),
        exchange_bytes=np.array(
            [sum(4 * o.attributes["dim"] for o in ops if o.name.startswith("table")) for ops in operators]
        ),
        reader_ms=np.array([c.DOMAINS[DOMAIN_NAMES[d]].reader_ms for d in domain]) * np.exp(rng.normal(0, 0.5, count)),
        readers=8 << rng.integers(0, 3, count),
        precision=rng.choice(5, count, p=(0.08, 0.12, 0.15, 0.6, 0.05)),
        preset_trainers=trainers,
        preset_batch=batch,
    )


def _parameters(operators: Sequence[tuple[Operator, ...]], tables: bool) -> Floats:
    """Parameters of each model, those of its embedding tables or all others."""
    return np.array([sum(float(o.parameters) for o in ops if (o.kind == "embedding") == tables) for ops in operators])


def _spread_domains(share: Floats) -> Ints:
    """Give each rank the domain that is furthest below its weight so far."""
    weight = np.array([c.DOMAINS[name].weight for name in DOMAIN_NAMES])
    given, domain = np.zeros(len(weight)), np.empty(len(share), dtype=np.int64)
    for rank, part in enumerate(share):
        domain[rank] = np.argmax(weight * (share[:rank].sum() + part) - given)
        given[domain[rank]] += part
    return domain


def _presets(domain: Ints, size: Floats, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Hosts and batch size per host of each type's presets, powers of two."""
    shape = (len(domain), c.PRESETS)
    specs = [c.DOMAINS[DOMAIN_NAMES[d]] for d in domain]
    few, many = np.array([s.trainers for s in specs]).T
    large, small = np.array([s.batch for s in specs], float).T
    hosts = (few + (many - few) * size)[:, None] + rng.normal(0, 1.0, shape)
    batch = (small + (large - small) * size)[:, None] + rng.normal(0, 0.7, shape) + 3  # eight accelerators
    return 1 << np.clip(np.rint(hosts), 0, 7).astype(np.int64), 1 << np.clip(np.rint(batch), 0, 16).astype(np.int64)
