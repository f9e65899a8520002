"""The store of artifacts at a URL."""

from pathlib import Path

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.signing import TrustedKeys
from leap.predictor.artifacts.store import ArtifactStore


def open_store(url: str, cache: Path | None = None, trusted_keys: str = "") -> ArtifactStore:
    """The store at a path or at any fsspec URL (``s3://bucket/prefix``).

    Parameters
    ----------
    cache
        Where artifacts of remote stores are kept, each store's apart; a directory of this user by default.
    trusted_keys
        File of public keys (:class:`~leap.predictor.artifacts.signing.TrustedKeys`), of which one must have signed
        what is served; empty takes all.

    Raises
    ------
    leap.predictor.artifacts.signing.KeyFileError
        If the file of keys cannot be used.
    leap.predictor.storage.urls.StorageUrlError
        If the URL cannot be used.
    """
    trusted = TrustedKeys(Path(trusted_keys)) if trusted_keys else None
    if "://" not in url:
        return LocalStore(Path(url), trusted)
    from leap.predictor.artifacts.fsspec_store import (
        RemoteStore,  # fsspec is not paid for by a launcher with local artifacts
    )

    return RemoteStore(url, cache or Path.home() / ".cache" / "leap", trusted)
