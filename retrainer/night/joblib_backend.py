"""Where fits run: processes of this machine, or a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from joblib import parallel_config

DASK = "dask@"


@contextmanager
def joblib_backend(backend: str) -> Iterator[None]:
    """Send every fit of the block to a joblib backend.

    Parameters
    ----------
    backend
        ``loky`` (processes here), ``dask@tcp://scheduler:8786`` with the address of a Dask scheduler, or any
        other backend that is registered with joblib.
    """
    if not backend.startswith(DASK):
        with parallel_config(backend):
            yield
        return
    from distributed import Client  # nothing else needs Dask

    with Client(backend.removeprefix(DASK)), parallel_config("dask"):
        yield
