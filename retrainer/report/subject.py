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
from leap.predictor.features.batch import Floats, HardwareTable
from leap.predictor.features.configuration import shape_text
from leap.predictor.features.history import STATISTICS
from leap.predictor.models.serving import StructuredModel
from leap.predictor.models.structured.estimator import with_refreshed_history
from leap.predictor.routing.placement import FREE_PRICE, RANKED, Goal, place
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
from leap.schemas.hardware import Catalog

#: Columns of `Subject.rows`: `table` is what the lookup table says, NaN where it has no such key; `configuration` the
#: shape as text; `price` USD per accelerator-hour, NaN where it is not known.
COLUMNS: tuple[str, ...] = (
    "attempt_id", "family", "model_type", "hardware_type", "submitted_at", "accelerator_hours",
    "measured", "predicted", "lower", "upper", "basis", "table", "configuration", "price",
)  # fmt: skip
#: Jobs of a night that are ranked for the share of first choices.
RANKED_JOBS = 400
SHAPE = ["num_trainers", "accelerators_per_trainer", "batch_size"]


@dataclass(frozen=True)
class Subject:
    """A night or a replay.

    Attributes
    ----------
    title
        What and when.
    rows
        Attempts with a measurement, columns `COLUMNS`, that the model had not learned from.
    learned
        As `rows`, those of a replay that it had learned from: what it says of them is no prediction.
    first
        Model type and hardware type that is ranked first among a job's candidates, one row a ranked job.
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
    learned: pd.DataFrame | None = None
    report: Report | None = None
    nights: tuple[Report, ...] = ()
    held_out: TrainingSet | None = None
    window: pd.DataFrame | None = None
    artifact: Artifact | None = None
    summary: Summary | None = None
    saving: Saving | None = None


def of_night(
    partitions: Partitions, store: ArtifactStore, target: str, night: date, premium_efficiency: float = 1.0
) -> Subject:
    """Rows of a night: those that it held out, as its artifact predicts them.

    Parameters
    ----------
    premium_efficiency
        As the workers that rank have it.

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
            configuration=list(map(shape_text, *(held_out.table[name] for name in SHAPE))),
            price=prices(held_out.table["hardware_type"], artifact.table),
        )[list(COLUMNS)],
        first=first_choices(artifact, held_out, premium_efficiency),
        report=report,
        nights=tuple(earlier for name in names if (earlier := _report(partitions, name)).night <= report.night),
        held_out=held_out,
        window=pd.concat([window.training.table, window.unseen.table]).sort_values("submitted_at", ignore_index=True),
        artifact=artifact,
    )


def of_replay(folder: Path, catalog: Catalog) -> Subject:
    """Rows of a replay, by the first of its artifacts; prices are those of the catalog.

    Raises
    ------
    FileNotFoundError
        If there is no replay in the folder.
    """
    state = read_state(folder)
    if state is None:
        raise FileNotFoundError(f"{folder} holds no replay; make one with `leap replay --folder {folder}`")
    lines = read_frame(folder)
    return subject_of(summarise(state, lines), lines, catalog)


def subject_of(summary: Summary, lines: pd.DataFrame, catalog: Catalog) -> Subject:
    """As `of_replay`, of a replay that has been read and summed up."""
    lines = lines[lines["artifact"] == summary.sides[0].artifact]
    scored = lines[lines["measured"].notna() & lines["predicted"].notna()]
    scored = scored.assign(table=np.nan, price=prices(scored["hardware_type"], HardwareTable(catalog)))
    learned = scored["learned"].eq(True)
    first = lines.loc[lines["first"].notna(), ["model_type", "first"]]
    return Subject(
        title=f"Replay of {summary.start[:16]} to {summary.end[:16]}",
        rows=scored.loc[~learned, list(COLUMNS)].reset_index(drop=True),
        learned=scored.loc[learned, list(COLUMNS)].reset_index(drop=True),
        first=first.rename(columns={"first": "hardware_type"}),
        summary=summary,
    )


def prices(hardware_types: "pd.Series[str]", table: HardwareTable) -> Floats:
    """(n,) USD per accelerator-hour, NaN where it is not known; hardware that costs nothing at `FREE_PRICE`."""
    return np.maximum(table.price[table.index(hardware_types.tolist())], FREE_PRICE)


def observations(attempts: TrainingSet, kind: str) -> Floats:
    """(n,) finished attempts known at launch under a kind of key; 0 is none."""
    count: Floats = np.nan_to_num(attempts.pairs.history[kind][:, STATISTICS.index("count")].astype(np.float64))
    return count


def _report(partitions: Partitions, name: str) -> Report:
    return msgspec.json.decode(partitions.files.read(name), type=Report)


def first_choices(artifact: Artifact, attempts: TrainingSet, premium_efficiency: float) -> pd.DataFrame:
    """The first ranks of evenly chosen jobs among the candidates that each had, by throughput per cost.

    A job whose candidates are not known (partitions before this release) is left out.
    """
    asked = np.flatnonzero(attempts.table["candidates"].notna())
    asked = asked[np.unique(np.linspace(0, len(asked) - 1, min(RANKED_JOBS, len(asked))).astype(int))]
    if not len(asked):
        return pd.DataFrame({"model_type": [], "hardware_type": []})
    candidates = [msgspec.json.decode(text, type=list[str]) for text in attempts.table["candidates"].iloc[asked]]
    jobs = attempts.pairs.jobs.take(asked)
    job = np.repeat(np.arange(len(asked)), list(map(len, candidates)))
    pairs = artifact.candidate_rows(jobs, job, [name for names in candidates for name in names])
    throughput = np.exp(artifact.predict(artifact.features(pairs)).mean)
    goals = [Goal()] * len(asked)
    placed = place(jobs, artifact.table, job, pairs.hardware, throughput, goals, premium_efficiency)
    ranked = pd.DataFrame(
        {"job": job, "hardware_type": pairs.hardware_type, "model_type": jobs.model_type[job], "score": placed.score}
    )[placed.reason == RANKED]
    ranked = ranked.sort_values(["score", "hardware_type"], ascending=[False, True])
    best: pd.DataFrame = ranked.drop_duplicates("job")[["model_type", "hardware_type"]].reset_index(drop=True)
    return best
