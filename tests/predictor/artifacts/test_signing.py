"""Whoever requires signatures serves nothing that a trusted key has not signed as it is."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.open import open_store
from leap.predictor.artifacts.signing import FILE, KeyFileError, SigningKey, TrustedKeys
from leap.predictor.artifacts.store import ArtifactStore, Pointer
from leap.predictor.routing.router import Router
from leap.schemas.events import THROUGHPUT
from tests.builders import submission
from tests.commands import invoke

Keys = Callable[[str], tuple[SigningKey, Path]]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Makes a key by name: the private one, and the file of its public half."""

    def make(name: str) -> tuple[SigningKey, Path]:
        key = ed25519.Ed25519PrivateKey.generate()
        private, public = tmp_path / f"{name}.pem", tmp_path / f"{name}.pub"
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        return SigningKey(private), public

    return make


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, artifact_store: LocalStore, tmp_path: Path) -> str:
    """A store with one artifact, unsigned, in production."""
    root = str(tmp_path / "artifacts") if request.param == "local" else f"memory://{tmp_path}"
    store = open_store(root, tmp_path / "maker")
    [version] = artifact_store.versions(THROUGHPUT)
    store.add(THROUGHPUT, artifact_store.folder(THROUGHPUT, version))
    produce(store, version)
    return root


def produce(store: ArtifactStore, version: str) -> None:
    found = store.pointer(THROUGHPUT)
    moved = Pointer(version=version, reason="test", moved_at=datetime.now(UTC))
    store.move(THROUGHPUT, moved, found)


def version_of(place: str) -> str:
    return open_store(place).versions(THROUGHPUT)[0]


def test_signed_by_a_trusted_key_is_served_and_unsigned_is_not(place: str, keys: Keys, tmp_path: Path) -> None:
    key, public = keys("night")
    version = version_of(place)
    router = Router(open_store(place, tmp_path / "cache", str(public)))
    assert not router.refresh() and router.counts == {"refresh failed": 1}
    with pytest.raises(ArtifactError, match=f"{version} is not signed; sign it with `leap artifact sign`"):
        open_store(place, tmp_path / "cache", str(public)).folder(THROUGHPUT, version)
    assert Router(open_store(place, tmp_path / "other")).refresh(), "without keys nothing need be signed"
    open_store(place).sign(THROUGHPUT, version, key)
    assert router.refresh()


def test_a_foreign_signature_is_refused_and_the_last_good_artifact_stays(
    place: str, keys: Keys, tmp_path: Path, artifact_store: LocalStore
) -> None:
    night, public = keys("night")
    stranger, _ = keys("stranger")
    first, second = version_of(place), "throughput-20990101T000000Z-aaaaaaaaaaaa"
    store = open_store(place, tmp_path / "maker")
    store.sign(THROUGHPUT, first, night)
    router = Router(open_store(place, tmp_path / "cache", str(public)))
    assert router.refresh()
    made = tmp_path / "made" / second
    shutil.copytree(artifact_store.folder(THROUGHPUT, first), made)
    store.add(THROUGHPUT, made)
    store.sign(THROUGHPUT, second, stranger)
    produce(store, second)
    assert not router.refresh()
    assert router.artifact is not None and router.artifact.manifest.version == first
    answer = router.rank(submission(candidates=("basic", "fast")))
    assert answer.artifact == first
    with pytest.raises(ArtifactError, match="none of the trusted keys"):
        open_store(place, tmp_path / "cache", str(public)).folder(THROUGHPUT, second)
    store.sign(THROUGHPUT, second, night)
    with pytest.raises(ArtifactError, match=f"holds the signed artifact throughput/{first}; put it in its place"):
        open_store(place, tmp_path / "cache", str(public)).folder(THROUGHPUT, second)


def test_keys_are_changed_while_artifacts_of_both_are_served(place: str, keys: Keys, tmp_path: Path) -> None:
    old, old_public = keys("old")
    new, new_public = keys("new")
    both = tmp_path / "both.pub"
    both.write_bytes(old_public.read_bytes() + b"\n" + new_public.read_bytes())
    version = version_of(place)
    store = open_store(place, tmp_path / "maker")
    for key, trusted, left_out in ((old, (old_public, both), new_public), (new, (old_public, new_public, both), None)):
        store.sign(THROUGHPUT, version, key)
        for path in trusted:
            assert open_store(place, tmp_path / path.stem, str(path)).folder(THROUGHPUT, version)
        if left_out:
            with pytest.raises(ArtifactError, match="none of the trusted keys"):
                open_store(place, tmp_path / "cache", str(left_out)).folder(THROUGHPUT, version)


def test_production_does_not_move_to_what_no_launcher_would_load(place: str, keys: Keys, tmp_path: Path) -> None:
    key, public = keys("night")
    store = open_store(place, tmp_path / "cache", str(public))
    with pytest.raises(ArtifactError, match="is not signed"):
        produce(store, version_of(place))
    store.sign(THROUGHPUT, version_of(place), key)
    produce(store, version_of(place))


TAMPER: dict[str, tuple[Callable[[Path], object], str]] = {
    "manifest": (lambda folder: (folder / "manifest.json").write_bytes(reworded(folder)), "is not what .* signed"),
    "model": (lambda folder: (folder / "trees.json").write_bytes(b"x" * 9), "bytes that the manifest names"),
    "another model": (
        lambda folder: (folder / "structured.json").write_bytes(b"[]"),
        "structured.json is not in the manifest",
    ),
    "signature": (lambda folder: (folder / FILE).write_bytes(shortened(folder)), "is not what .* signed"),
    "no signatures": (lambda folder: (folder / FILE).unlink(), "is not signed"),
    "torn signatures": (lambda folder: (folder / FILE).write_bytes(b'{"'), f"{FILE}: .*sign the artifact again"),
    "endless signatures": (lambda folder: (folder / FILE).write_bytes(b"{" * 20_000_000), f"{FILE}: .*over the limit"),
    "deep signatures": (lambda folder: (folder / FILE).write_bytes(b"[" * 10_000), FILE),
}


def reworded(folder: Path) -> bytes:
    manifest = json.loads((folder / "manifest.json").read_text())
    return json.dumps(manifest | {"rows": 7}).encode()


def shortened(folder: Path) -> bytes:
    signatures = json.loads((folder / FILE).read_text())
    return json.dumps(dict.fromkeys(signatures, "AAAA")).encode()


@pytest.mark.parametrize(("damage", "match"), TAMPER.values(), ids=TAMPER)
def test_whatever_is_changed_after_signing_is_refused(
    artifact_store: LocalStore, keys: Keys, tmp_path: Path, damage: Callable[[Path], object], match: str
) -> None:
    store = LocalStore(Path(shutil.copytree(artifact_store.root, tmp_path / "artifacts")))
    [version] = store.versions(THROUGHPUT)
    key, public = keys("night")
    store.sign(THROUGHPUT, version, key)
    damage(store.root / THROUGHPUT / version)
    with pytest.raises(ArtifactError, match=match):
        artifacts.load(LocalStore(store.root, TrustedKeys(public)).folder(THROUGHPUT, version))


def test_key_files_that_are_none(tmp_path: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    file = tmp_path / "key"
    for content, match in (
        (b"", "no unencrypted private key"),
        (pem, "not an Ed25519 key"),
        (b"x" * 99_999, "is it a"),
    ):
        file.write_bytes(content)
        with pytest.raises(KeyFileError, match=match):
            SigningKey(file)
    for content, match in (
        (b"", "no public key"),
        (public, "is not Ed25519"),
        (public[:60] + public[90:], "not a public"),
    ):
        file.write_bytes(content)
        with pytest.raises(KeyFileError, match=match):
            TrustedKeys(file)
    with pytest.raises(KeyFileError, match="No such file"):
        TrustedKeys(tmp_path / "none")


def test_without_the_package_it_says_what_to_install(keys: Keys) -> None:
    _, public = keys("night")
    program = (
        "import sys; sys.modules['cryptography'] = None; import importlib.util as u; u.find_spec = lambda name: None\n"
        "from leap.predictor.artifacts.open import open_store\n"
        f"open_store('x', trusted_keys={str(public)!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'leap-launch[signing]'" in done.stderr


def test_commands(artifact_store: LocalStore, keys: Keys, tmp_path: Path) -> None:
    root = Path(shutil.copytree(artifact_store.root, tmp_path / "artifacts"))
    [version] = artifact_store.versions(THROUGHPUT)
    key, public = keys("night")

    def run(*arguments: str, **environment: str) -> tuple[int, str]:
        given = {"LEAP_ARTIFACTS": str(root), "LEAP_TRUSTED_KEYS": str(public)} | environment
        done = invoke("artifact", *arguments, env=given)
        return done.exit_code, done.output

    for command in ("verify", "promote", "pin"):
        code, said = run(command, version)
        assert code == 1 and "is not signed" in said
    assert run("sign", version, LEAP_SIGNING_KEY=str(tmp_path / "night.pem")) == (
        0, f"{version} is signed by {key.fingerprint}\n",
    )  # fmt: skip
    assert run("verify", version)[1].endswith("rows, signed\n")
    assert run("promote", version)[0] == 0
    code, said = run("verify", version, LEAP_TRUSTED_KEYS=str(tmp_path / "none"))
    assert code == 1 and "No such file" in said
