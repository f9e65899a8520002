"""Where fits run: processes of this machine, or a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from joblib import parallel_config


@contextmanager
def fits_on(backend: str) -> Iterator[None]:
    """Send every fit of the block to a joblib backend.

    Parameters
    ----------
    backend
        ``loky`` (processes here), ``dask``, or any backend that is registered with joblib. Dask's scheduler is
        the one that ``DASK_SCHEDULER_ADDRESS`` names.
    """
    if backend != "dask":
        with parallel_config(backend):
            yield
        return
    from distributed import Client  # nothing but Dask needs it

    with Client(), parallel_config("dask"):
        yield
