"""What the columns of a table may be, by their names and contents."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from leap.schemas.backfill.status import StatusError, status_of
from leap.schemas.hardware import Catalog
from leap.streams.backfill.cell_times import Times
from leap.streams.backfill.cell_values import Numbers, Unusable, text

#: Share of a column's values that must be what the role asks for; words of an own kind are known by half of them.
MOST, HALF = 0.9, 0.5

#: Role to the names that columns of it have, the likeliest first; regular expressions of the end of a name.
NAMES: dict[str, tuple[str, ...]] = {
    "hardware_type": ("hardware_type", "(gpu|accelerator|device)_(type|name|model)", "accelerator", "hardware", "gpu",
                      "device", "hardware_raw", "instance_type", "node_type", "machine"),
    "status": ("status", "state", "outcome", "result"),
    "throughput": ("throughput", "(samples|sequences|examples|images|img|seqs?)_?per_?s(ec|econd)?",
                   "samples_s", "sps"),
    "step_time": ("(step|iteration|iter|batch)_time(_m?s(ec)?)?", "time_per_(step|iter|iteration)",
                  "sec(onds)?_per_step"),
    "submitted_at": ("submit(ted)?(_?(at|time|date))?", "submission_?time", "(created|queued)(_?at)?",
                     "creation_?time(stamp)?", "start(ed)?(_?(at|time|date))?", "date", "time(stamp)?", "day"),
    "started_at": ("start(ed)?(_?(at|time|date))?",),
    "finished_at": ("(end|ended|finish|finished|complet(ed|ion))(_?(at|time|date))?",),
    "run_seconds": ("(run_?(seconds|time)|elapsed(_?raw)?|duration|wall_?(clock_?)?time)(_[a-z]+)?",
                    "(total_|run_)?(seconds|minutes|hours|mins|hrs)"),
    "per_node": ("(gpus?|accelerators?|devices?)_?per_?(node|host|trainer|worker|machine)", "per_node",
                 "nproc_per_node"),
    "nodes": ("(num_?|n_?)(nodes|hosts|trainers|machines|workers)", "nodes|hosts|trainers|machines", "replicas",
              "workers"),
    "gpus": ("(num_?|n_?|total_)(gpus?|accelerators|devices)", "(gpu|accelerator|device)_?(count|num)", "gpus",
             "accelerators", "world_size", "plan_gpu", "gpu"),
    "per_device_batch": ("per_(device|gpu)(_train)?_batch(_?size)?",),
    "batch": ("global_batch(_?size)?", "gbs", "(train_|total_)?batch(_?size)?"),
    "model_type": ("model(_?(type|name))?", "arch(itecture)?", "network", "net", "benchmark", "model_name_or_path"),
    "job_name": ("job_?name", "(run|task|display)_?name", "name"),
    "attempt_id": ("attempt_?id", "(run|job|trial|task|submission)_?id", "uu?id", "id"),
    "precision": ("precision", "dtype", "mixed_precision"),
    "optimizer": ("optimizer", "optim"),
    "sequence_length": ("(max_)?seq(uence)?_?len(gth)?", "seq"),
    "gradient_accumulation": ("grad(ient)?_?accum(ulation)?(_steps)?",),
    "tensor_parallel": ("tensor(_model)?_parallel(_size)?", "tp"),
    "pipeline_parallel": ("pipeline(_model)?_parallel(_size)?", "pp"),
    "expert_parallel": ("expert(_model)?_parallel(_size)?", "ep"),
    "data_readers": ("(data_)?readers", "(num_)?dataloader_workers"),
}  # fmt: skip

_NUMBERS = frozenset({"throughput", "step_time", "per_node", "nodes", "gpus", "per_device_batch", "batch",
                      "sequence_length", "gradient_accumulation", "tensor_parallel", "pipeline_parallel",
                      "expert_parallel", "data_readers"})  # fmt: skip
#: Formats of times that are tried, the likeliest first; a day before a month, as all but one country writes it.
TIME_FORMATS = ("iso", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M",
                "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y", "%m/%d/%Y %I:%M %p", "%d-%m-%Y %H:%M",
                "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%a %b %d %H:%M:%S %Y", "%d %b %Y %H:%M")  # fmt: skip


def plain(name: str) -> str:
    """A name in lower case, its words joined by underscores.

    >>> plain("train/samples per second"), plain("NNodes"), plain("submitTime")
    ('train_samples_per_second', 'nnodes', 'submit_time')
    """
    return re.sub("[^a-z0-9]+", "_", re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()).strip("_")


def column_of(role: str, columns: dict[str, list[Any]], numbers: Numbers, catalog: Catalog) -> str | None:
    """The likeliest column of a role, whose values are what it asks for; None if there is none.

    Parameters
    ----------
    role
        One of ``NAMES``.
    columns
        Name to the values that are there, of columns without another role.
    numbers
        How numbers are written.
    catalog
        Hardware types that are known.
    """
    if role == "hardware_type":  # by what it holds, whatever its name
        known = {
            name: share(values, lambda value: catalog.resolve(text(value)) is not None)
            for name, values in columns.items()
        }
        best = max(known, key=lambda name: known[name], default=None)
        if best is not None and known[best] >= HALF:
            return best
    fits, least = _check(role, numbers), HALF if role == "status" else MOST
    for pattern in NAMES[role]:
        for name, values in columns.items():
            if re.search(rf"(^|_)({pattern})$", plain(name)) and share(values, fits) >= least:
                return name
    if role == "submitted_at":  # whatever its name, unless a number could be an id
        times = (name for name, values in columns.items() if share(values, fits) >= MOST)
        return next((name for name in times if share(columns[name], _works(numbers.number)) < HALF), None)
    return None


def unknown_statuses(values: Sequence[Any]) -> list[str]:
    """Words of a column of statuses that say of no attempt how it ended."""
    known = _works(lambda value: status_of(text(value)))
    return list(dict.fromkeys(text(value) for value in values if not known(value)))


def time_format(values: Sequence[Any]) -> str | None:
    """The first format in which the times of a column are."""
    return next((form for form in TIME_FORMATS if share(values, _works(Times(form).moment)) >= MOST), None)


def share(values: Sequence[Any], fits: Callable[[Any], bool]) -> float:
    """Share of values that fit; 0 of none."""
    return sum(map(fits, values)) / len(values) if values else 0.0


def _check(role: str, numbers: Numbers) -> Callable[[Any], bool]:
    if role in _NUMBERS:
        return _works(numbers.number)
    if role == "run_seconds":
        return _works(numbers.duration)
    if role.endswith("_at"):
        return lambda value: any(_works(Times(form).moment)(value) for form in TIME_FORMATS)
    if role == "status":
        return _works(lambda value: status_of(text(value)))
    if role == "attempt_id":
        return lambda value: True
    number = _works(numbers.number)
    return lambda value: not number(value)


def _works(convert: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def works(value: Any) -> bool:
        try:
            convert(value)
        except (Unusable, StatusError):
            return False
        return True

    return works
