"""What a report is made of: attempts with prediction and measurement, of a night or of a replay, in one shape."""

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.artifact import Artifact
from leap.predictor.artifacts.store import ArtifactStore
from leap.predictor.features.batch import Floats
from leap.predictor.features.history import STATISTICS
from leap.predictor.models.serving import StructuredModel
from leap.predictor.models.structured.estimator import with_refreshed_history
from leap.predictor.routing.placement import FREE_PRICE
from leap.predictor.routing.provenance import basis
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.dataset.training_set import TrainingSet
from leap.retrainer.evaluation.lookup_table import LookupTable
from leap.retrainer.night.plan import Report, report_name
from leap.retrainer.night.publish import attempts
from leap.retrainer.night.window import open_window
from leap.retrainer.replay.replay import read_state
from leap.retrainer.replay.summary import Summary, read_frame, summarise
from leap.retrainer.savings.estimate import Saving

#: Columns of `Subject.rows`; `table` is what the lookup table says, NaN where it has no such key.
COLUMNS: tuple[str, ...] = (
    "attempt_id", "family", "model_type", "hardware_type", "submitted_at", "accelerator_hours",
    "measured", "predicted", "lower", "upper", "basis", "table",
)  # fmt: skip
#: Jobs of a night that are ranked for the share of first choices.
RANKED_JOBS = 400


@dataclass(frozen=True)
class Subject:
    """A night or a replay.

    Attributes
    ----------
    title
        What and when.
    rows
        Attempts with a measurement, columns `COLUMNS`.
    first
        Model type and hardware type that is ranked first, one row a ranked job.
    report, nights
        Of a night: its report, and those of all nights so far, oldest first.
    held_out, window, artifact
        Of a night: the rows as data, all rows of its window, and what it published, with the history that it was
        judged with.
    summary
        Of a replay.
    saving
        What routing has saved, where it is known since when.
    """

    title: str
    rows: pd.DataFrame
    first: pd.DataFrame
    report: Report | None = None
    nights: tuple[Report, ...] = ()
    held_out: TrainingSet | None = None
    window: pd.DataFrame | None = None
    artifact: Artifact | None = None
    summary: Summary | None = None
    saving: Saving | None = None


def of_night(partitions: Partitions, store: ArtifactStore, target: str, night: date) -> Subject:
    """Rows of a night: those that it held out, as its artifact predicts them.

    Raises
    ------
    FileNotFoundError
        If there was no such night.
    ArtifactError
        If its artifact is gone.
    """
    report = _report(partitions, report_name(target, night))
    artifact = artifacts.load(store.folder(target, report.artifact))
    days = (date.fromisoformat(report.window_to) - date.fromisoformat(report.window_from)).days + 1
    window = open_window(partitions, night, days, artifact.catalog, target)
    held_out = window.held_out
    if isinstance(artifact.model, StructuredModel):  # what was published has taken in the outcomes; judge as the night
        judged = with_refreshed_history(artifact.model.structured, *attempts(window.training))
        artifact = replace(artifact, model=StructuredModel(judged))
    prediction = artifact.predict(artifact.features(held_out.pairs))
    group = basis(held_out.pairs)
    lower, upper = artifact.manifest.interval.bounds(prediction.mean, prediction.spread, group)
    table = LookupTable.learn(window.training.table, np.exp(window.training.y))
    names = partitions.files.names(f"reports/{target}-*.json")
    return Subject(
        title=f"Night of {night:%d %B %Y}, {target}",
        rows=held_out.table.assign(
            measured=np.exp(held_out.y),
            predicted=np.exp(prediction.mean),
            lower=np.exp(lower),
            upper=np.exp(upper),
            basis=group,
            table=table.predict(held_out.table),
        )[list(COLUMNS)],
        first=_first_choices(artifact, held_out),
        report=report,
        nights=tuple(earlier for name in names if (earlier := _report(partitions, name)).night <= report.night),
        held_out=held_out,
        window=pd.concat([window.training.table, window.unseen.table]).sort_values("submitted_at", ignore_index=True),
        artifact=artifact,
    )


def of_replay(folder: Path) -> Subject:
    """Rows of a replay, by the first of its artifacts.

    Raises
    ------
    FileNotFoundError
        If there is no replay in the folder.
    """
    state = read_state(folder)
    if state is None:
        raise FileNotFoundError(f"{folder} holds no replay; make one with `leap replay --folder {folder}`")
    lines = read_frame(folder)
    summary = summarise(state, lines)
    lines = lines[lines["artifact"] == summary.sides[0].artifact]
    scored = lines[lines["measured"].notna() & lines["predicted"].notna()].assign(table=np.nan)
    first = lines.loc[lines["first"].notna(), ["model_type", "first"]]
    return Subject(
        title=f"Replay of {summary.start[:16]} to {summary.end[:16]}",
        rows=scored[list(COLUMNS)].reset_index(drop=True),
        first=first.rename(columns={"first": "hardware_type"}),
        summary=summary,
    )


def observations(attempts: TrainingSet, kind: str) -> Floats:
    """(n,) finished attempts known at launch under a kind of key; 0 is none."""
    count: Floats = np.nan_to_num(attempts.pairs.history[kind][:, STATISTICS.index("count")].astype(np.float64))
    return count


def _report(partitions: Partitions, name: str) -> Report:
    return msgspec.json.decode(partitions.files.read(name), type=Report)


def _first_choices(artifact: Artifact, attempts: TrainingSet) -> pd.DataFrame:
    """The best throughput per cost of evenly chosen jobs, among the types that the rows ran on.

    A partition does not keep candidates, so these are all the types in use, whether or not a job could run there.
    """
    chosen = np.unique(np.linspace(0, len(attempts) - 1, min(RANKED_JOBS, len(attempts))).astype(int))
    names = sorted({name for name in attempts.table["hardware_type"] if name in artifact.catalog})
    names = [name for name in names if artifact.catalog[name].price_per_hour is not None]
    if not names:
        return pd.DataFrame({"model_type": [], "hardware_type": []})
    job = np.repeat(chosen, len(names))
    pairs = artifact.candidate_rows(attempts.pairs.jobs, job, names * len(chosen))
    price = np.array([artifact.catalog[name].price_per_hour for name in names], dtype=np.float64)
    ln_price = np.log(np.maximum(price, FREE_PRICE))
    worth = artifact.predict(artifact.features(pairs)).mean.reshape(len(chosen), len(names)) - ln_price
    best = [names[position] for position in worth.argmax(axis=1)]
    return pd.DataFrame({"model_type": attempts.table["model_type"].to_numpy()[chosen], "hardware_type": best})
