"""``leap artifact``: what an operator does to production by hand."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from leap.predictor.artifacts.artifact import load
from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.artifacts.manifest import decode
from leap.predictor.models.serving import TreesModel
from leap.schemas.events import THROUGHPUT
from tests.artifacts import night_over, past
from tests.commands import invoke
from tests.onnx_graph import run_graph

Run = Callable[..., Result]


@pytest.fixture
def store(artifact_store: LocalStore, tmp_path: Path) -> LocalStore:
    """Three versions of one artifact, the second in production."""
    copy = LocalStore(shutil.copytree(artifact_store.root, tmp_path / "artifacts"))
    [version] = copy.versions(THROUGHPUT)
    line = copy.root / THROUGHPUT
    for name in ("v1", "v2"):
        shutil.copytree(line / version, line / name)
    (line / version).rename(line / "v0")
    for name in ("v0", "v1", "v2"):
        manifest = line / name / "manifest.json"
        manifest.write_text(manifest.read_text().replace(version, name))
    (line / "production.json").unlink()
    return copy


@pytest.fixture
def run(store: LocalStore) -> Run:
    def artifact(*arguments: str, fails: bool = False) -> Result:
        result = invoke("artifact", *arguments, env={"LEAP_ARTIFACTS": str(store.root)})
        assert (result.exit_code != 0) is fails, result.output
        return result

    return artifact


def production(store: LocalStore) -> str | None:
    pointer = store.pointer(THROUGHPUT)
    return pointer.version if pointer else None


def test_promote_and_roll_back(store: LocalStore, run: Run) -> None:
    run("promote", "v0")
    run("promote", "v1", "--reason", "a try")
    pointer = store.pointer(THROUGHPUT)
    assert pointer is not None
    assert (pointer.version, pointer.previous, pointer.reason) == ("v1", "v0", "a try")
    assert "v0 (was v1)" in run("rollback").output
    assert production(store) == "v0"


def test_list_and_show(store: LocalStore, run: Run) -> None:
    run("promote", "v1")
    about = decode(store.manifest(THROUGHPUT, "v1"))
    line = f"{about.created_at:%Y-%m-%d}  boosted  w20 {about.metrics['w20']:.1f}  {about.rows} rows"
    (store.root / THROUGHPUT / "v2" / "manifest.json").write_bytes(b"torn")
    reports = store.root.parent / "partitions" / "reports"
    reports.mkdir(parents=True)
    decision = {"artifact": "v0", "promoted": False, "reason": "4 days are missing", "night": "2026-01-08"}
    (reports / f"{THROUGHPUT}-2026-01-08.json").write_text(json.dumps(decision))
    assert run("list", "--partitions", str(reports.parent)).output.splitlines()[:4] == [
        f"v0  {line}",
        "    not promoted: 4 days are missing",
        f"v1  {line}  in production",
        "v2",
    ]
    run("pin", "v1")
    listed = json.loads(run("list", "--json").output)
    assert (listed["production"]["version"], listed["versions"]) == ("v1", ["v0", "v1", "v2"])
    assert [(row["version"], row["pinned"]) for row in listed["artifacts"]][1] == ("v1", True)
    store.remove(THROUGHPUT, "v2")
    run("list")


def test_a_shell_completes_versions_and_types(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(words: str) -> list[str]:
        asked = {"_ROOT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
        return invoke(env=asked | {"LEAP_ARTIFACTS": str(store.root)}).stdout.split()

    assert completed("root artifact promote ") == ["v2", "v1", "v0"]
    assert completed("root rank --version v1") == ["v1"]
    assert "H100-SXM-80GB" in completed("root catalog show H100")
    monkeypatch.setenv("LEAP_REDIS_URL", "redis://127.0.0.1:1/0")
    assert completed("root history show r") == []


def test_show(run: Run) -> None:
    assert json.loads(run("show", "v2").output)["target"] == THROUGHPUT


def test_an_artifact_that_does_not_load_is_not_promoted(store: LocalStore, run: Run) -> None:
    run("promote", "v0")
    (store.root / THROUGHPUT / "v1" / "trees.json").write_bytes(b"torn")
    assert "not the" in run("promote", "v1", fails=True).output
    assert "no artifact 'v9'" in run("promote", "v9", fails=True).output
    assert production(store) == "v0"


def test_there_is_nothing_to_roll_back_to(run: Run) -> None:
    assert "no version before it" in run("rollback", fails=True).output
    run("promote", "v0")
    assert "no version before it" in run("rollback", fails=True).output


@pytest.mark.parametrize("torn", [b"", b'{"version":', b"\xff"])
def test_to_promote_mends_a_torn_pointer(store: LocalStore, run: Run, torn: bytes) -> None:
    (store.root / THROUGHPUT / "production.json").write_bytes(torn)
    listed = run("list")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["v0", "v1", "v2"]
    assert "in production" not in listed.stdout and "promote an artifact again" in listed.stderr
    run("prune", "--keep", "1", fails=True)  # what serves is not known, so nothing is removed
    assert "v1 (was nothing)" in run("promote", "v1").output
    assert production(store) == "v1"


def test_to_promote_mends_a_pointer_to_what_is_gone(store: LocalStore, run: Run) -> None:
    run("promote", "v0")
    shutil.rmtree(store.root / THROUGHPUT / "v0")
    run("promote", "v1")
    assert production(store) == "v1"


def test_nights_do_not_move_what_is_pinned_until_it_is_promoted(tmp_path: Path) -> None:
    store, first = night_over(tmp_path, past())
    environment = {"LEAP_ARTIFACTS": str(store.root)}
    assert invoke("artifact", "pin", first.artifact, env=environment).exit_code == 0
    _, second = night_over(tmp_path, past())
    assert (second.promoted, second.reason) == (False, f"production is pinned to {first.artifact}")
    assert production(store) == first.artifact
    assert invoke("artifact", "promote", first.artifact, env=environment).exit_code == 0
    _, third = night_over(tmp_path, past())
    assert "pinned" not in third.reason


def test_trees_are_exported_as_a_graph(store: LocalStore, run: Run, tmp_path: Path) -> None:
    graph = tmp_path / "model.onnx"
    assert "boosted, 111 features" in run("export", "--onnx", str(graph), "v1").output
    model = load(store.folder(THROUGHPUT, "v1")).model
    assert isinstance(model, TreesModel)
    rows = np.random.default_rng(0).normal(size=(50, 111)).astype(np.float32)
    [predicted] = run_graph(graph.read_bytes(), rows, "log_throughput")
    np.testing.assert_allclose(predicted, model.trees.predict(rows), rtol=0, atol=1e-5)


def test_what_has_no_trees_is_not_exported(tmp_path: Path) -> None:
    store, night = night_over(tmp_path, past(), recipe="structured")
    environment = {"LEAP_ARTIFACTS": str(store.root)}
    failed = invoke("artifact", "export", "--onnx", str(tmp_path / "x.onnx"), str(night.artifact), env=environment)
    assert failed.exit_code == 1
    assert "the recipe structured has no trees, and no ONNX graph" in failed.output
    assert not (tmp_path / "x.onnx").exists()


def test_to_hold_production_does_not_lose_the_way_back(store: LocalStore, run: Run) -> None:
    run("promote", "v0")
    run("promote", "v1")
    run("pin", "v1")
    run("rollback")
    assert production(store) == "v0"


def test_prune_says_what_it_removed(store: LocalStore, run: Run) -> None:
    run("promote", "v0")
    assert run("prune", "--keep", "1").output == "removed v1\n"
    assert store.versions(THROUGHPUT) == ["v0", "v2"]
