"""Job families: recurring jobs, their configurations and lifetimes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leap.streams.simulator import constants as c
from leap.streams.simulator.model_types import DOMAIN_NAMES, Floats, Ints, ModelTypes

Bools = NDArray[np.bool_]
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")
OPTIMIZERS = ("adamw", "sgd", "adagrad", "lamb", "adafactor")
SHARDINGS = ("none", "ddp", "zero1", "zero3", "table-wise")
_TEAMS = ("ads", "feed", "search", "video", "music", "maps", "shop", "mail", "chat", "news", "travel", "games")
_GOALS = ("ctr", "cvr", "rank", "retrieval", "quality", "embed", "caption", "translate", "detect", "spam")
_PURPOSES = ("train", "retrain", "finetune", "pretrain", "ablation", "sweep", "distill", "refresh", "probe")


@dataclass(frozen=True)
class Configurations:
    """Launch configurations: columns of the same shape (family × variant, or one per attempt)."""

    trainers: Ints
    accelerators: Ints
    batch: Ints
    readers: Ints
    precision: Ints
    sequence: Ints
    accumulation: Ints
    checkpointing: Ints
    tensor_parallel: Ints
    pipeline_parallel: Ints

    def take(self, family: Ints, variant: Ints) -> "Configurations":
        """The configuration of each (family, variant)."""
        return Configurations(**{name: column[family, variant] for name, column in vars(self).items()})


@dataclass(frozen=True)
class Families:
    """Columns over families; `configurations` is family × variant, `variant` (the current one) day × family."""

    names: tuple[str, ...]
    model_type: Ints
    born: Ints
    died: Ints
    rate: Floats
    style: Ints
    describes: Bools
    optimizer: Ints
    sharding: Ints
    configurations: Configurations
    variant: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.names)

    def alive_on(self, day: int, types: ModelTypes) -> tuple[Ints, Floats]:
        """Families active on `day`, and the share of attempts of each."""
        alive = np.flatnonzero((self.born <= day) & (day < self.died))
        kind, rate = self.model_type[alive], self.rate[alive]
        of_type = np.bincount(kind, rate, len(types))
        share = rate * types.share[kind] / of_type[kind]
        return alive, np.asarray(share / share.sum())


def fresh(rng: np.random.Generator) -> np.random.Generator:
    """A separate stream per column, so that a longer fleet starts with the same families."""
    return rng.spawn(1)[0]


def make_families(types: ModelTypes, alive: float, days: int, rng: np.random.Generator) -> Families:
    """Draw the families of `days` days, about `alive` at a time: permanent ones first, then temporary ones by birth."""
    wanted = types.share**c.FAMILIES_EXPONENT
    slots = np.maximum(1.0, alive * wanted / wanted.sum())
    lasting = np.repeat(np.arange(len(types)), np.maximum(1, np.rint(slots * (1 - c.SHORT_LIVED)).astype(int)))
    lead_in = 3 * int(c.LIFE_DAYS)
    births = fresh(rng).poisson(slots * c.SHORT_LIVED / c.LIFE_DAYS, (lead_in + days, len(types)))
    cohort, newborn = np.nonzero(births)
    times = births[cohort, newborn]
    kind = np.concatenate([lasting, np.repeat(newborn, times)])
    count = len(kind)
    begin = np.concatenate([np.full(len(lasting), -lead_in), np.repeat(cohort - lead_in, times)])
    born = np.maximum(begin, types.born[kind])
    life = 1 + fresh(rng).exponential(c.LIFE_DAYS, count).astype(int)
    tables = types.domain[kind] == DOMAIN_NAMES.index("recommendation")
    return Families(
        names=_names(types, kind, rng),
        model_type=kind,
        born=born,
        died=np.where(np.arange(count) < len(lasting), days, born + life),
        rate=fresh(rng).lognormal(0, c.RATE_SPREAD, count),
        style=fresh(rng).integers(0, 8, count),
        describes=fresh(rng).random(count) < 0.3,
        optimizer=np.where(tables, 2, fresh(rng).choice(len(OPTIMIZERS), count, p=(0.6, 0.2, 0.05, 0.1, 0.05))),
        sharding=np.where(tables, 4, fresh(rng).choice(len(SHARDINGS), count, p=(0.1, 0.45, 0.15, 0.3, 0.0))),
        configurations=_configurations(types, kind, rng),
        variant=_variants(count, days, rng),
    )


def _variants(count: int, days: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Current variant of each family by day: mostly the first one, sometimes another for about a month."""
    variant = np.zeros((days, count), dtype=np.int8)
    current = np.where(fresh(rng).random(count) < c.AT_HOME, 0, fresh(rng).integers(0, c.VARIANTS, count))
    for day, draws in enumerate(fresh(rng).spawn(days)):
        changes = fresh(draws).random(count) < c.VARIANT_CHANGES_PER_DAY
        moved = np.where(fresh(draws).random(count) < c.AT_HOME, 0, fresh(draws).integers(0, c.VARIANTS, count))
        current = np.where(changes, moved, current)
        variant[day] = current
    return variant


def _configurations(types: ModelTypes, kind: Ints, rng: np.random.Generator) -> Configurations:
    count, shape = len(kind), (len(kind), c.VARIANTS)
    first = np.arange(c.VARIANTS) == 0
    weight = (1 - c.PRESET_DECAY) ** np.arange(c.PRESETS)
    preset = fresh(rng).choice(c.PRESETS, count, p=weight / weight.sum())

    def shift(probabilities: tuple[float, float, float]) -> Ints:
        """Halve, keep or double; the first variant is the preset."""
        return np.where(first, 0, fresh(rng).choice((-1, 0, 1), shape, p=probabilities))

    def column(values: Ints) -> Ints:
        return np.repeat(values[:, None], c.VARIANTS, axis=1)

    language = types.domain[kind] == DOMAIN_NAMES.index("transformer")
    large = language & (types.dense_parameters[kind] > 3e9)
    trainers = _scaled(types.preset_trainers[kind, preset], shift((0.25, 0.4, 0.35)), 256)
    batch = _scaled(types.preset_batch[kind, preset], shift((0.25, 0.5, 0.25)), 1 << 17)
    accelerators = column(np.where(large, 8, fresh(rng).choice((8, 4, 2, 1), count, p=c.HOST_SIZES)))
    length = column(fresh(rng).choice((-2, -1, 0, 1, 2), count, p=c.LENGTHS)) + shift((0.06, 0.88, 0.06))
    reference = types.tokens[kind]
    precision = np.where(
        fresh(rng).random(count) < c.OWN_CHOICE,
        fresh(rng).choice(4, count, p=(0.15, 0.2, 0.25, 0.4)),
        types.precision[kind],
    )
    another = ~first & (fresh(rng).random(shape) < 0.05)
    own_readers = fresh(rng).random(count) < c.OWN_CHOICE
    usual = np.where(own_readers, 8 << fresh(rng).integers(0, 3, count), types.readers[kind])
    readers = np.maximum(_scaled(usual, shift((0.1, 0.75, 0.15)), 256), 4)
    model_parallel = np.where(large, fresh(rng).choice((2, 4, 8), count), 1)
    return Configurations(
        trainers=trainers,
        accelerators=accelerators,
        batch=np.maximum(batch, accelerators),
        readers=readers * trainers,
        precision=np.where(another, fresh(rng).choice(4, shape), column(precision)),
        sequence=np.where(column(reference) > 0, _scaled(reference, length, 65536), 0),
        accumulation=column(np.where(language, 1 << fresh(rng).integers(0, 4, count), 1)),
        checkpointing=column((language & (fresh(rng).random(count) < 0.4)).astype(np.int64)),
        tensor_parallel=column(model_parallel),
        pipeline_parallel=np.where(large[:, None] & (trainers >= 4), 4, 1),
    )


def _scaled(values: Ints, doublings: Ints, most: int) -> Ints:
    return np.clip(np.rint(values[:, None] * np.exp2(doublings)), 1, most).astype(np.int64)


def _names(types: ModelTypes, kind: Ints, rng: np.random.Generator) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    names = []
    choices = (fresh(rng).integers(0, len(words), len(kind)).tolist() for words in (_TEAMS, _GOALS, _PURPOSES))
    for team, goal, purpose, model_type in zip(*choices, kind.tolist(), strict=True):
        name = f"{_TEAMS[team]}-{_GOALS[goal]}-{types.names[model_type]}-{_PURPOSES[purpose]}"
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}-v{seen[name]}")
    return tuple(names)
