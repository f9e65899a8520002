"""Every constant that shapes the fleet, with what it was fitted to (docs/fleet.md gives the method).

The published marginals are those of DESIGN.md section 9; a figure named below is one of them.
"""

from typing import NamedTuple

# Model types: 660 of them at 25,000 attempts a day, the 560 rarest 22% of attempts. Share of the type of
# rank k is (k + offset x types) ** -exponent.
MODEL_TYPES = 660
POPULARITY_OFFSET = 0.004
POPULARITY_EXPONENT = 1.21
LATE_TYPES = 0.08  # share of the types, none of the most popular ones, that first appear on one of ...
LATE_DAYS = 60  # ... the first days
SIZE_TAIL = 2.2  # sizes gather in the middle of their domain's range; the ends make the long tails of throughput


class Domain(NamedTuple):
    """What the model types of one domain have in common."""

    weight: float  # share of the attempts
    architectures: tuple[str, ...]
    sizes: tuple[float, float]  # range of sizes, see model_definitions.py
    batch: tuple[int, int]  # log2 of the batch size per accelerator: of the largest and of the smallest model
    trainers: tuple[float, float]  # mean log2 of the hosts: of the smallest and of the largest model
    reader_ms: float  # processor time of a reader per sample


DOMAINS: dict[str, Domain] = {
    "recommendation": Domain(
        0.44, ("dlrm", "dcn", "deepfm", "mmoe", "two-tower", "din", "dhen"), (0.0, 1.0), (8, 12), (0.8, 2.6), 0.35
    ),
    "transformer": Domain(0.20, ("llama", "gpt", "bert", "t5", "mixtral", "vit"), (0.0, 1.0), (1, 5), (0.8, 5.0), 1.0),
    "convolution": Domain(
        0.12, ("resnet", "efficientnet", "yolo", "mask-rcnn", "convnext"), (0.0, 1.0), (4, 8), (0.4, 2.6), 3.0
    ),
    "speech": Domain(0.08, ("conformer", "rnnt", "wav2vec", "whisper"), (0.0, 1.0), (3, 6), (0.6, 2.8), 4.0),
    "diffusion": Domain(0.06, ("unet", "sdxl", "dit"), (0.0, 1.0), (2, 6), (0.8, 3.2), 4.0),
    "graph": Domain(0.10, ("graphsage", "gat", "pinsage", "rgcn"), (0.0, 1.0), (6, 10), (0.4, 2.4), 0.6),
}

# Families: recurring jobs. Attempts of one model type are shared by its families in proportion to a lognormal
# rate, so that a few run every hour and most now and then.
ATTEMPTS_PER_FAMILY_DAY = 3.0  # over the families alive on a day
FAMILIES_EXPONENT = 0.65  # families of a type grow with its share to this power: popular types recur more often
RATE_SPREAD = 2.0
SHORT_LIVED = 0.55  # share of the families that end, after LIFE_DAYS on average; as many begin
LIFE_DAYS = 8.0

# Configurations: a family starts from one of its type's presets and moves between variants of it.
PRESETS = 6
PRESET_DECAY = 0.65  # each preset is chosen this much less often than the one before it
VARIANTS = 6
VARIANT_CHANGES_PER_DAY = 0.03
AT_HOME = 0.75  # share of those moves that lead back to the family's first variant
OWN_CHOICE = 0.04  # share of the families that leave their type's usual precision, and as many its usual readers
HOST_SIZES = (0.94, 0.035, 0.015, 0.01)  # 8, 4, 2 or 1 accelerators
LENGTHS = (0.02, 0.05, 0.86, 0.05, 0.02)  # a quarter of the model's own sequence length to four times it
OTHER_VARIANT = 0.14  # share of the attempts that try another variant than the family's current one

# Hidden efficiencies, standard deviations of ln throughput.
TYPE = 0.25
TYPE_HARDWARE = 0.10
FAMILY_STOCK = 0.05  # families that run their type's stock recipe ...
FAMILY_TUNED = 0.5  # ... and those that changed it (mean of an exponential, faster for the tail)
TUNED_SHARE = 0.3
FAMILY_HARDWARE = 0.10
DRIFT_PER_DAY = 0.008
JUMPS_PER_DAY = 0.005
JUMP = 0.20
DAY_EFFECT = 0.028  # median over families of what one day's data and neighbours do
DAY_EFFECT_SPREAD = 1.2

# Noise of one run around its truth: the label noise.
RUN_NOISE = 0.044
RUN_NOISE_SPREAD = 0.5
SLOW_RUNS = 0.10
SLOWDOWN = 0.75  # mean of an exponential, cut at ...
SLOWEST = 2.3  # ... a tenth of the speed

# The lookup table of the marginals holds the keys that make this share of a window's attempts: 45 a day.
TABLE_SHARE = 0.00185

# Disorder of the events, as shares of the attempts.
FAILED = 0.045
COMPLETION_LOST = 0.005
SUBMISSION_LOST = 0.003
UNALLOCATED = 0.015
REPEATED = 0.008
LATE = 0.02
LATEST_HOURS = 40.0

# Hardware. Which jobs a hardware type attracts decides the median and the spread of its throughput, so two numbers
# per type were fitted, both natural-log weights of a habit: `tilt` per standard deviation that a model is lighter
# (in FLOP per sample) than the mean, `breadth` for models far from the mean on either side.
CAPACITY_HEADROOM = 1.25
HABIT_SPREAD = 1.0  # how much families of one domain differ in the hardware that they prefer
TYPE_HABIT_SPREAD = 0.5  # how much the families of one model type agree on a taste of their own
NEW_HARDWARE = "B200"  # enters in the middle of the fleet's days


class Pool(NamedTuple):
    """One hardware type of the fleet: share of the attempts that its capacity is built for, and its habits."""

    capacity: float
    tilt: float
    breadth: float


POOLS: dict[str, Pool] = {
    "A100-SXM-40GB": Pool(0.1, -0.43, 0.14),
    "A100-SXM-80GB": Pool(0.12, 0.05, 0.22),
    "H100-SXM-80GB": Pool(0.12, -1.28, -0.27),
    "V100-SXM-32GB": Pool(0.08, 0.06, -0.67),
    "V100-SXM-16GB": Pool(0.05, 0.05, -0.26),
    "A100-PCIe-80GB": Pool(0.04, 0.24, 0.18),
    "H100-PCIe-80GB": Pool(0.03, 0.09, 0.37),
    "H200-SXM-141GB": Pool(0.04, -0.23, -0.57),
    "B200": Pool(0.04, 0.48, 0.6),
    "MI300X": Pool(0.06, -0.08, 0.25),
    "MI250X": Pool(0.03, -0.24, 0.08),
    "MI325X": Pool(0.02, 1.2, 0.67),
    "TPU-v4": Pool(0.03, -0.23, 0.37),
    "TPU-v5e": Pool(0.03, -1.07, -0.89),
    "TPU-v5p": Pool(0.02, -0.82, -0.23),
    "TPU-v6e": Pool(0.02, -0.95, -0.75),
    "Gaudi2": Pool(0.03, 0.84, 0.85),
    "Gaudi3": Pool(0.02, 1.52, 0.20),
    "Trainium2": Pool(0.02, -0.43, 0.16),
    "L40S": Pool(0.02, 0.38, -0.60),
    "A10": Pool(0.02, 0.35, 0.30),
    "L4": Pool(0.015, 0.33, 0.30),
    "T4": Pool(0.02, 0.75, 0.25),
    "P100": Pool(0.01, 1.84, 0.38),
    "RTX-A6000": Pool(0.015, -0.40, 0.00),
    "Quadro-RTX-8000": Pool(0.01, 1.82, 0.44),
}
