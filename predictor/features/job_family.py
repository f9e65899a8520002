"""The family of a job: its name without what is specific to one run.

Runs of one recurring job carry names that differ in dates, attempt numbers, hashes and the like. The family is
what stays the same, so it is the key under which history is kept. Numbers that name a thing stay: ``resnet-50``,
``llama-3-70b``, ``k8s-1-36``, ``v2``.

Two errors are possible and they do not cost the same. Merging two jobs poisons the history of both; failing to
merge two runs only makes a cold start. So every rule asks for a shape that names of things do not have, and what
stays ambiguous is kept: bare numbers below seven digits, years and year-months, versions, node and GPU counts,
random suffixes without a recognisable shape (``train-kqzwx``), user names without a marker.

Why it is linear: a rule starts only where a word starts, then reads either a bounded number of characters or the
rest of that one word, so a pass costs a constant per character plus each word a constant number of times. Taking
an identifier out may join two halves of another, hence further passes, at most `PASSES` of them.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from leap.predictor.features.generated_names import GENERATED_NAME, HASH_AFTER_DATE, POD, SLURM_ARRAY, is_size
from leap.schemas.events import JobCompleted, JobSubmitted

__all__ = ["RULES", "Rule", "family", "family_of", "family_repeats"]

PASSES = 8
"""Depth of nesting that is followed. Real names need two or three passes; a name that is still changing
after eight was built to be hostile and is its own family, which keeps `family` idempotent and linear."""

_SEPARATORS = " \t\r\n-_./:=,;@#~|"

_YEAR, _MONTH, _DAY = "20[0-3][0-9]", "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"  # not 2048, a width
_HOUR, _SIXTY = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_ZONE = "(?:[Zz]|UTC|[-+](?:0[0-9]|1[0-4]):?(?:00|15|30|45))?"
_FRACTION = "(?:[.,][0-9]{3,9})?"
_CLOCK = f"{_HOUR}[-_.:]?{_SIXTY}(?:[-_.:]?{_SIXTY}{_FRACTION})?{_ZONE}"
_TIME = f"(?:[-_.: Tt]?{_CLOCK}|[Tt]{_HOUR}{_ZONE})?"
_DASHES = ("", "-", "_", r"\.", "/")
_YEAR_FIRST = "|".join(f"{_YEAR}{dash}{_MONTH}{dash}{_DAY}" for dash in _DASHES)
_DAY_FIRST = "|".join(f"[0-3][0-9]{dash}{_MONTH}{dash}{_YEAR}" for dash in _DASHES[1:])
_MONTH_FIRST = "|".join(f"[01][0-9]{dash}{_DAY}{dash}{_YEAR}" for dash in _DASHES[1:])
_MONTH_NAME = "(?i:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)"
_YEAR_AFTER = f"[-_ ]?(?!{_YEAR_FIRST}){_YEAR}{_TIME}"  # dec12-2026-01-14 is a decoder and a date
_OCTETS = r"(?:\.(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])){3}"
_DASHED_OCTETS = "-[1-9][0-9]{1,2}(?:-[0-9]{1,3}){3}"
_HEX = "[0-9A-Fa-f]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_YARN = "[0-9]{10,14}_[0-9]{4,8}"
_COUNTED = (
    "[Rr](?i:un(?:[-_]?id)?|e(?:run|try|start|peat|submit|sume|sult))",
    "[Aa](?i:ttempt)",
    "[Tt](?i:ry|rial)",
    "[Ss](?i:eed)",
    "[Jj](?i:ob[-_]?id)",
)
_UNIT = "(?i:gpu|cpu|tpu|node|host|core|chip|card|worker|trainer|layer|epoch|step|hour|day)s?"
_DATED = rf"{_YEAR}[-_./]{_MONTH}|[0-3][0-9][-_./][0-3][0-9][-_./]20|[0-2][0-9]:|[0-9]{{6}}[-_T][0-9]{{6}}"
_NO_NUMBER = rf"[0-9A-Za-z]|\.[0-9]++(?![0-9A-Za-z])|[-_ ]{_UNIT}(?![A-Za-z])"
_NUMBER = rf"[-_.=:# ]?(?!{_DATED})[0-9]{{1,6}}(?:[-_ ]of[-_ ][0-9]{{1,4}})?(?!{_NO_NUMBER})"
_COUNTER = "|".join(word + _NUMBER for word in _COUNTED)
_DAY_AND_CLOCK = (
    rf"(?:{_DAY_FIRST}|{_MONTH_FIRST})[-_. T]{{1,2}}(?:{_HOUR}(?:[-_.:h]?{_SIXTY}){{2}}|{_HOUR}:{_SIXTY})"
    rf"|[0-3][0-9]{_MONTH}{_YEAR}[-_T]{_HOUR}{_SIXTY}{_SIXTY}"
)
_STAGES = "train|training|eval|test|prod|dev|staging|debug|main|infer|inference|finetune|pretrain|py|sh|slurm|yaml"


class Rule(NamedTuple):
    """One kind of run-specific identifier.

    Attributes
    ----------
    kind
        Its name in tests and messages.
    pattern
        Regular expression of the whole identifier, tried where a word starts; a word is a run of ASCII letters
        and digits, and the match must end where one ends.
    why
        What produces it, or why the shape is safe to remove.
    examples
        Names and their families, run by the tests.
    """

    kind: str
    pattern: str
    why: str
    examples: dict[str, str]


RULES = (
    Rule(
        "yarn",
        rf"(?:job|application)_{_YARN}|appattempt_{_YARN}_[0-9]{{6}}|container_(?:e[0-9]{{1,4}}_)?{_YARN}_[0-9]{{2}}_[0-9]{{6}}"
        rf"|task_{_YARN}_[mr]_[0-9]{{6}}|attempt_{_YARN}_[mr]_[0-9]{{6}}_[0-9]{{1,9}}",
        "identifiers of Hadoop and YARN, built on the start time of the cluster",
        {"sort-application_1485248649253_0147": "sort", "attempt_201706092018_0024_m_000000_970/sort": "sort"},
    ),
    Rule(
        "uuid",
        rf"{_UUID}|req-{_UUID}|{_HEX}{{32}}|[0-7][0-9A-HJKMNP-TV-Z]{{25}}",
        "UUIDs with or without dashes (OpenStack puts req- before), ULIDs",
        {
            "bert_0B72ACA0-102e-4421-8ff3-2902d8353ff0": "bert",
            "e9746973ac574c6b8a9e8857f56a7608.bert": "bert",
            "bert-01HMZ3K8Q4W9T2V7XN5RJD6BCE": "bert",
        },
    ),
    Rule(
        "block",
        r"blk_-?[0-9]{1,19}(?:_[0-9]{4,10})?",
        "HDFS blocks, with their generation stamp",
        {"scan-blk_-1030832046197982436": "scan"},
    ),
    Rule(
        "rotated log",
        r"log\.[0-9]{1,4}|nova-(?:api|compute|conductor|scheduler)\.log\.[0-9]{1,4}",
        "a log's rotation number; OpenStack puts the name of its service before it",
        {"scan-nova-api.log.1.2017-05-16_13:53:08": "scan", "scan.log.3": "scan"},
    ),
    Rule(
        "rack location",
        r"R[0-9]{2}-M[01]-N[0-9A-Fa-f](?:-C:J[0-9]{2}-U[0-9]{2})?",
        "rack, midplane, node card and chip of a Blue Gene",
        {"cfd-R02-M1-N0-C:J12-U11": "cfd"},
    ),
    Rule(
        "address",
        rf"[1-9][0-9]{{1,2}}{_OCTETS}(?!\.[0-9]{{1,3}}(?:[:/]|\Z))(?::[0-9]{{1,5}})?|[1-9]{_OCTETS}:[0-9]{{1,5}}"
        rf"|ip{_DASHED_OCTETS}(?:(?:\.[0-9a-z-]{{1,20}}){{1,3}}\.internal)?|host{_DASHED_OCTETS}|node{_DASHED_OCTETS}"
        rf"|{_HEX}{_HEX}(?::{_HEX}{{2}}){{5}}|{_HEX}{_HEX}{{0,3}}(?::{_HEX}{{1,4}}){{7}}",
        "IP and MAC addresses; without a port the first octet is 10 or more, since versions begin lower",
        {
            "dlrm@10.12.0.7:29500": "dlrm",
            "ip-10-0-3-17.us-west-2.compute.internal/dlrm": "dlrm",
            "dlrm-cudnn-8.9.7.29": "dlrm-cudnn-8.9.7.29",
        },
    ),
    Rule(
        "timestamp",
        rf"(?:{_YEAR_FIRST}){_TIME}(?:[-_.][0-9]{{1,3}}\Z|{HASH_AFTER_DATE})?",
        "year-month-day with any time of day; a short number after it at the very end is that day's counter",
        {
            "exp-2026-01-14T10:22:33Z": "exp",
            "train_dlrm_v2_20260114": "train_dlrm_v2",
            "dlrm-20260114-1022/resnet-50": "dlrm/resnet-50",
            "pytorch-training-2026-01-14-10-22-33-123": "pytorch-training",
            "gpt-2048-12-12": "gpt-2048-12-12",
        },
    ),
    Rule(
        "other date",
        rf"{_DAY_AND_CLOCK}|(?:{_DAY_FIRST}|{_MONTH_FIRST})(?![-_./][0-9]{{1,2}}(?![0-9A-Za-z]))"
        rf"|[0-3][0-9][-_ ]?{_MONTH_NAME}{_YEAR_AFTER}"
        rf"|{_MONTH_NAME}[-_ ]?[0-3][0-9](?:{_YEAR_AFTER}|[-_]{_HOUR}(?:[-_.:]{_SIXTY}){{2}})"
        rf"|[0-3][0-9]{_MONTH}{_DAY}[-_T]{_HOUR}{_SIXTY}{_SIXTY}|[0-2][0-9]:{_SIXTY}:{_SIXTY}{_FRACTION}{_ZONE}",
        "day or month first, month by name, two-digit year with seconds, a time alone",
        {
            "exp_14-01-2026": "exp",
            "exp_14Jan2026": "exp",
            "Jan14_10-22-33_exp": "exp",
            "exp-260114_102233": "exp",
            "exp 10:22:33.125": "exp",
            "enc6-dec12-1024-deb12_20260114": "enc6-dec12-1024-deb12",
        },
    ),
    Rule(
        "pod",
        rf"[4-9bcdf]{{7,10}}-{POD}|2[5-9][0-9]{{6}}-{POD}|3[0-4][0-9]{{6}}-{POD}",
        "Kubernetes: hash of the pod template, or a CronJob's minutes since 1970, then five random characters",
        {"trainer-7d9f8b6c5-x2x4q": "trainer", "nightly-29473101-kqzwx": "nightly", "t5xxl-mpt7b": "t5xxl-mpt7b"},
    ),
    Rule(
        "generated name",
        rf"{GENERATED_NAME}",
        "the random end of a generated name: Kubernetes, Katib, Argo, trackers",
        {
            "train-bert-x7k2p": "train-bert",
            "random-search-a8f3k2p9": "random-search",
            "my-wf-7bdq2-train-1029384756": "my-wf-train",
            "raysubmit_Kj2hs8dQmz71XcVb": "raysubmit",
            "train-mpt7b": "train-mpt7b",
            "train-8x22b": "train-8x22b",
        },
    ),
    Rule(
        "hash",
        r"[0-9]++(?!ba[0-9]{1,3}b(?![0-9A-Za-z]))[a-f][0-9a-f]*+(?<=[0-9a-f]{7})|[0-9]{1,5}-g[0-9a-f]{7,40}"
        r"|[a-f](?![a-f]*+2[a-f]++(?![0-9A-Za-z]))[a-f]*+[0-9][0-9a-f]*+(?<=[0-9a-f]{7})(?<!(?:dec|feb)20[0-9]{2})(?<!ed25519)",
        "git and other digests: seven or more hex digits, letters and digits; not dec2025, face2face or 235ba22b",
        {"bert-9f3c2ab": "bert", "bert-v1.2-14-g1a2b3c4": "bert-v1.2", "bert-dec2025": "bert-dec2025"},
    ),
    Rule(
        "slurm array",
        SLURM_ARRAY,
        "number of a Slurm array and of its task; not the sizes that `is_size` knows",
        {"bert_48293_7": "bert", "bert_48293_[1-10%4]": "bert", "gpt_12288_96": "gpt_12288_96"},
    ),
    Rule(
        "long number",
        r"1[2-9][0-9]{8}(?:\.[0-9]{5,9})?|[0-9]{13,}+|[0-9]{7,12}+(?<!000)(?<!1048576)(?<!2097152|4194304|8388608)(?<!16777216)",
        "seconds to nanoseconds since 1970, and job numbers; not sizes, which are round or powers of two",
        {"bert_1768386153": "bert", "bert.4829301": "bert", "rows-1048576-20000000": "rows-1048576-20000000"},
    ),
    Rule(
        "counter",
        _COUNTER,
        "attempt, run and seed numbers; not versions (seed-1.6), sizes (run-16-nodes) or the start of a date",
        {
            "bert-attempt-2": "bert",
            "bert.retry1_of_3": "bert",
            "NVIDIA/dgxa100_ngc20.06/dlrm/result_3": "NVIDIA/dgxa100_ngc20.06/dlrm",
            "seed-1.6-run3": "seed-1.6",
            "run-16-nodes": "run-16-nodes",
        },
    ),
    Rule("numbered", r"(?<=#)[0-9]{1,9}", "a number after a number sign", {"bert #17": "bert"}),
    Rule(
        "user",
        r"(?i:user|owner)[=:][0-9A-Za-z]++",
        "the person who launched, where marked as one; user-tower and user/embedding are things",
        {"user=bob/bert": "bert", "user-tower": "user-tower"},
    ),
)

_ANY_RULE = "|".join(rule.pattern for rule in RULES)
_ROW = re.escape(_SEPARATORS)
_RUN_SPECIFIC = re.compile(
    # job_name.user.run3: a lone word between a compound name and a counter, unless it is a stage of the job.
    rf"(?P<job>[-_][0-9A-Za-z]++)\.(?!(?:{_STAGES})\.)[a-z]{{2,32}}(?=\.(?:{_COUNTER}))"
    # Separators before an identifier go with it. Read from the first of a row only, or a row would cost its square.
    rf"|(?<![{_ROW}])[{_ROW}]*+(?:(?<![0-9A-Za-z])(?:{_ANY_RULE})(?![0-9A-Za-z])|\(\)|\[\]|\{{\}})"
    r"|_(?<=raysubmit_)[0-9A-Za-z]{16}(?![0-9A-Za-z])"
    # Glued to a word: exp20260114. A single letter before it makes a version: v20260114.
    rf"|20(?<=[A-Za-z]{{2}}20)[0-3][0-9]{_MONTH}{_DAY}{_TIME}(?![0-9A-Za-z])"
)
_MAYBE = re.compile("[0-9=:]")


def _replacement(match: re.Match[str]) -> str:
    if match["array"] and is_size(int(match["array"])):
        return match[0]
    return match["job"] or ""


def family(job_name: str) -> str:
    """Return the family of a job name.

    Pure, idempotent and linear in the length of the name; defined for every string. A name that is nothing but
    identifiers is its own family: lumping such jobs together would mix what has nothing in common.

    Examples
    --------
    >>> family("ads_ctr_ranker.alice.run3")
    'ads_ctr_ranker'
    >>> family("llama-3-70b/2026-01-14T10:22:33Z-attempt-2")
    'llama-3-70b'
    >>> family("0b72aca0-102e-4421-8ff3-2902d8353ff0")
    '0b72aca0-102e-4421-8ff3-2902d8353ff0'
    """
    text = job_name.strip(_SEPARATORS)
    if not _MAYBE.search(text) and not text.startswith("raysubmit_"):
        return text or job_name
    shorter = _shorten(text)
    for _ in range(PASSES - 1):
        if shorter == text:
            return text or job_name
        text, shorter = shorter, _shorten_again(shorter)
    return text or job_name if shorter == text else job_name


def family_of(event: JobSubmitted | JobCompleted) -> str:
    """Family of an event's job: as it states it, else derived from the job name."""
    return family(event.job_name) if event.family is None else event.family


def family_repeats(names: Iterable[str]) -> tuple[int, int]:
    """Return how many different names there are, and how many families.

    As many families as names means that nothing repeats: the names say too little of what a job is.

    Examples
    --------
    >>> family_repeats(["bert-20260114", "bert-20260115", "bert-20260115", "dlrm"])
    (3, 2)
    """
    different = set(names)
    return len(different), len({family(name) for name in different})


def _shorten(text: str) -> str:
    return _RUN_SPECIFIC.sub(_replacement, text).strip(_SEPARATORS)


# A name comes once, what is left after the first pass again and again.
_shorten_again = lru_cache(16_384)(_shorten)
