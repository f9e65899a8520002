"""The saving of a fleet from its partitions: shadow before a day, routed since, each row as it was served.

A partition keeps the prediction for the hardware type that an attempt ran on, and the artifact that made it; that
artifact predicts again what it would have said of the types of the family's habit.
"""

from datetime import date

import numpy as np
import pandas as pd
import structlog

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.store import ArtifactStore
from leap.predictor.features.batch import Floats
from leap.predictor.features.history import SECONDS_PER_DAY
from leap.retrainer.dataset.feature_table import jobs, log_target
from leap.retrainer.dataset.partitions import Partitions, day_number
from leap.retrainer.savings.estimate import Saving, saving
from leap.schemas.events import THROUGHPUT
from leap.schemas.hardware import Catalog

log = structlog.get_logger(__name__)


def saving_since(partitions: Partitions, store: ArtifactStore, catalog: Catalog, since: date, until: date) -> Saving:
    """Estimate what routing has saved since the day on which it began.

    Parameters
    ----------
    since
        First routed day; before it lists were made in shadow.
    until
        Last day, inclusive.

    Raises
    ------
    ValueError
        If there are no attempts with a prediction before or since.
    """
    rows = partitions.read(day for day in partitions.days() if day <= until)
    rows = rows.assign(measured=np.exp(log_target(rows, THROUGHPUT)))
    rows = rows[rows["measured"].notna() & rows["predicted"].notna() & rows["accelerator_hours"].notna()]
    routed_rows = (rows["submitted_at"] >= day_number(since) * SECONDS_PER_DAY).to_numpy()
    before, routed = rows[~routed_rows], rows[routed_rows].reset_index(drop=True)
    names = sorted({name for name in before["hardware_type"] if name in catalog} | set(routed["hardware_type"]))
    price = np.array([_price(catalog, name) for name in names], dtype=np.float64)
    predicted = _predicted(routed, names, store)
    return saving(before, before["predicted"].to_numpy(np.float64), routed, predicted, names, price)


def _price(catalog: Catalog, name: str) -> float:
    price = catalog[name].price_per_hour if name in catalog else None
    return np.nan if price is None else price


def _predicted(rows: pd.DataFrame, names: list[str], store: ArtifactStore) -> Floats:
    """(n, types) by the artifact that served each row; NaN where it is gone."""
    predicted = np.full((len(rows), len(names)), np.nan)
    for version, group in rows.groupby("artifact"):
        try:
            artifact = artifacts.load(store.folder(THROUGHPUT, str(version)))
        except ArtifactError as error:
            log.warning("attempts left out of the saving", attempts=len(group), error=str(error))
            continue
        job = np.repeat(np.arange(len(group)), len(names))
        pairs = artifact.candidate_rows(jobs(group), job, names * len(group))
        mean = artifact.predict(artifact.features(pairs)).mean
        predicted[group.index.to_numpy()] = np.exp(mean).reshape(len(group), len(names))
    return predicted
