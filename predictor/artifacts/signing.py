"""Ed25519 signatures over the manifest of an artifact, and with it over the digest of every other file.

Keys are PEM files as ``openssl genpkey -algorithm ed25519`` makes them. Signatures stand beside the manifest,
one for each key that signed, so that keys can be changed while artifacts of both are served.
"""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from leap.predictor.artifacts.manifest import FILE as MANIFEST
from leap.predictor.artifacts.manifest import MAX_MANIFEST_BYTES, ArtifactError, decode
from leap.predictor.storage.bounded import bounded_read
from leap.predictor.storage.whole_file import write_whole
from leap.schemas.distribution import install_command
from leap.schemas.errors import LeapError

FILE = "signatures.json"
MAX_SIGNATURES_BYTES = 16 * 1024
MAX_KEYS = 16
MAX_KEY_FILE = 64 * 1024
# What else a key may be used for must not be taken for an artifact.
CONTEXT = b"leap artifact manifest 1\n"

Signatures = Annotated[dict[str, bytes], Meta(max_length=MAX_KEYS)]
"""Fingerprint of a public key (SHA-256 of its 32 bytes, hexadecimal) to a signature of 64 bytes, in base64."""


class KeyFileError(LeapError, ValueError):
    """A file that is not the key that it should be; the text names it and says what to do."""


class SigningKey:
    """A private key.

    Parameters
    ----------
    path
        PEM file of an unencrypted Ed25519 private key.

    Raises
    ------
    KeyFileError
        If it is not one, or the extra ``signing`` is not installed.
    """

    def __init__(self, path: Path) -> None:
        _need()
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519

        data = _read(path)
        try:
            key = serialization.load_pem_private_key(data, None)
        except (ValueError, TypeError) as error:
            raise KeyFileError(f"{path}: no unencrypted private key in PEM form") from error
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise KeyFileError(f"{path}: not an Ed25519 key; make one with openssl genpkey -algorithm ed25519")
        self._key = key
        self.fingerprint = _fingerprint(key.public_key().public_bytes_raw())

    def sign(self, manifest: bytes, present: bytes | None = None) -> bytes:
        """What belongs in `FILE` for a manifest; signatures that are `present` stay."""
        signatures = _decode(present) if present else {}
        return msgspec.json.encode(signatures | {self.fingerprint: self._key.sign(_message(manifest))})

    def sign_folder(self, folder: Path) -> None:
        """Sign an artifact in its folder, beside the signatures that it has."""
        location = folder / FILE
        present = bounded_read(location, MAX_SIGNATURES_BYTES) if location.exists() else None
        write_whole(location, self.sign(bounded_read(folder / MANIFEST, MAX_MANIFEST_BYTES), present))


class TrustedKeys:
    """Public keys, of which one must have signed.

    Parameters
    ----------
    path
        File with one or more Ed25519 public keys in PEM form, one after the other.

    Raises
    ------
    KeyFileError
        If there is none in it, or the extra ``signing`` is not installed.
    """

    def __init__(self, path: Path) -> None:
        _need()
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519

        end = b"-----END PUBLIC KEY-----"
        self._keys: dict[str, ed25519.Ed25519PublicKey] = {}
        for block in _read(path).split(end)[:-1]:
            try:
                key = serialization.load_pem_public_key(block.lstrip() + end)
            except ValueError as error:
                raise KeyFileError(f"{path}: not a public key in PEM form: {error}") from error
            if not isinstance(key, ed25519.Ed25519PublicKey):
                raise KeyFileError(f"{path}: holds a key that is not Ed25519")
            self._keys[_fingerprint(key.public_bytes_raw())] = key
        if not self._keys:
            raise KeyFileError(f"{path}: no public key in PEM form (-----BEGIN PUBLIC KEY-----)")

    def check(self, manifest: bytes, signatures: bytes | None, target: str, version: str) -> None:
        """Return if a trusted key has signed this manifest, and it is of this target and version.

        Raises
        ------
        ArtifactError
            If not; nothing else of the artifact should be looked at then.
        """
        if signatures is None:
            raise ArtifactError(f"{version} is not signed; sign it with `leap artifact sign`, or promote another one")
        decoded = _decode(signatures)
        trusted = decoded.keys() & self._keys.keys()
        if not trusted:
            known = ", ".join(sorted(name[:12] for name in self._keys))
            raise ArtifactError(f"{version} is signed by none of the trusted keys ({known}); do not trust its source")
        for fingerprint in trusted:
            try:
                self._keys[fingerprint].verify(decoded[fingerprint], _message(manifest))
            except Exception as error:  # InvalidSignature, of a package that is imported when it is needed
                raise ArtifactError(
                    f"{version}: its manifest is not what {fingerprint[:12]} signed; do not trust its source"
                ) from error
        signed = decode(manifest)
        if (signed.target, signed.version) != (target, version):
            raise ArtifactError(
                f"{target}/{version} holds the signed artifact {signed.target}/{signed.version}; put it in its place"
            )


def _decode(data: bytes) -> dict[str, bytes]:
    if len(data) > MAX_SIGNATURES_BYTES:
        raise ArtifactError(f"{FILE}: {len(data)} bytes, over the limit of {MAX_SIGNATURES_BYTES}")
    try:
        return msgspec.json.decode(data, type=Signatures)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(f"{FILE}: {error}; sign the artifact again") from error


def _message(manifest: bytes) -> bytes:
    return CONTEXT + hashlib.sha256(manifest).digest()


def _fingerprint(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_FILE + 1)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}; name a readable PEM file") from error
    if len(data) > MAX_KEY_FILE:
        raise KeyFileError(f"{path}: over {MAX_KEY_FILE} bytes; is it a key?")
    return data


def _need() -> None:
    """Fail with what to install; whoever asks for signatures must not get along without them."""
    if find_spec("cryptography") is None:
        raise KeyFileError(f"signatures need the package cryptography; run: {install_command('signing')}")
