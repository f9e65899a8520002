"""Fits on a cluster give the model that fits in this process give."""

from collections.abc import Iterator

import numpy as np
import pytest
from distributed import Client, LocalCluster

from leap.predictor.models.cascade import BinnedCascade
from leap.retrainer.night.joblib_backend import joblib_backend
from leap.retrainer.night.tree_arrays import serving_form


def fitted(n_jobs: int) -> dict[str, list[object]]:
    """The serving form of a small cascade."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 5)).astype(np.float32)
    y = x[:, 0] * 2 + np.abs(x[:, 1]) + rng.normal(0, 0.1, 600)
    model = BinnedCascade(n_bins=3, max_iter=20, max_leaf_nodes=7, n_jobs=n_jobs).fit(x, y)
    return {name: array.tolist() for name, array in serving_form(model).arrays().items()}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a Dask scheduler with two worker processes."""
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as started:
        yield started.scheduler_address


def test_a_dask_cluster_of_two_processes_gives_the_same_model(cluster: str) -> None:
    with joblib_backend(f"dask@{cluster}"):
        on_cluster = fitted(n_jobs=2)
    with Client(cluster) as client:
        busy = client.run(lambda dask_worker: bool(dask_worker.state.log))
    assert list(busy.values()) == [True, True]
    with joblib_backend("loky"):
        assert on_cluster == fitted(n_jobs=1)
