"""Everything that reads what others wrote: bytes in, and one kind of error out, whatever the bytes are."""

import gzip
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from leap.predictor.artifacts.manifest import ArtifactError
from leap.predictor.artifacts.manifest import decode as read_manifest
from leap.predictor.artifacts.signing import _decode as read_signatures
from leap.predictor.artifacts.store import read_pointer
from leap.predictor.history.definitions import Definitions
from leap.predictor.history.snapshot import HASHES_FILE, Snapshot
from leap.predictor.models.trees.model import Combination, Trees
from leap.predictor.models.trees.nodes import forest_of
from leap.predictor.models.trees.onnx_export import export_graph
from leap.predictor.models.trees.onnx_import import read_graph
from leap.retrainer.night.tree_arrays import constant
from leap.schemas import codec
from leap.schemas.backfill.expression import Expression
from leap.schemas.backfill.mapping import FOLDER as MAPPINGS
from leap.schemas.backfill.mapping import MappingError, load_mapping
from leap.schemas.codec import Rejected
from leap.schemas.events import JobSubmitted
from leap.schemas.hardware import Catalog, CatalogError, load_catalog
from leap.schemas.safe_yaml import YamlError, parse_yaml
from leap.schemas.topics import load_topics
from leap.streams.history.backup import read_backup
from leap.streams.history.updates import BUCKETS
from tests.builders import CATALOG

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "schemas" / "examples"


class Decoder(NamedTuple):
    """One door: what it takes, what it may raise, and examples of what it is meant for."""

    read: Callable[[bytes], object]
    error: type[Exception]
    seeds: Sequence[bytes]


def _file(read: Callable[[Path], object], name: str = "file") -> Callable[[bytes], object]:
    """Give a reader of files the bytes in one."""
    folder = Path(tempfile.mkdtemp(prefix="leap-fuzz-"))

    def call(data: bytes) -> object:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return call


def _expression(data: bytes) -> object:
    expression = Expression(data.decode("utf-8", "surrogateescape"))
    return expression.evaluate(dict.fromkeys(expression.columns, 2.0))


def _snapshot(data: bytes) -> object:
    folder = Path(tempfile.mkdtemp(prefix="leap-fuzz-"))
    Snapshot.of(np.array([1, 2], np.uint64), np.ones((2, 5), np.float32)).save(folder)
    (folder / HASHES_FILE).write_bytes(data)
    try:
        return Snapshot.load(folder).lookup(np.array([1], np.uint64))
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _npy() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", np.array([1, 2], np.uint64), allow_pickle=False)
        return (Path(folder) / "x.npy").read_bytes()


def _backup() -> bytes:
    lines = [{"format": 1, "buckets": BUCKETS}]
    fields = {'["family","a"]': "2 1.5 0.25 1.5 1770000000 abcdefghijkl", "@topic/3": "17"}
    return b"\n".join(msgspec.json.encode(line) for line in [*lines, {"target": "t", "number": 3, "fields": fields}])


def _graph() -> bytes:
    return export_graph(Trees(forest_of(3, [constant()]), Combination.single))


def _event(topic: str) -> Decoder:
    event_type = load_topics()[topic].event_type
    seeds = [path.read_bytes() for path in sorted((EXAMPLES / topic / "v1").glob("*.json"))]
    return Decoder(lambda data: codec.decode(data, event_type), Rejected, seeds)


def _model(data: bytes) -> object:
    head = b'{"attempt_id":"a","job_name":"j","model_type":"m","submitted_at":"2026-01-01T00:00:00Z",'
    tail = b'"config":{"num_trainers":1,"accelerators_per_trainer":1},"candidates":[],"model":'
    return codec.decode(head + tail + data + b"}", JobSubmitted)


MODEL = b'{"operators":[{"kind":"matmul","shape":[4],"flops":8.0},{"kind":"relu"}],"edges":[[0,1]],"precision":"bf16"}'
TOTALS = b'{"totals":{"parameters":7e9,"training_flops":1.9e14,"matmul_flop_share":0.9}}'
POINTER = b'{"version":"v","previous":null,"reason":"r","moved_at":"2026-01-01T00:00:00Z","pinned":false}'
DECODERS: dict[str, Decoder] = {
    **{f"event {topic}": _event(topic) for topic in load_topics()},
    "model definition": Decoder(_model, Rejected, [MODEL, TOTALS]),
    "kept definitions": Decoder(Definitions.from_json, ValueError, [b'{"bert":{"flops":8.5e9,"depth":12}}']),
    "yaml": Decoder(parse_yaml, YamlError, [b"- {a: [1, 2.5, true, null, 2026-01-01, 1:30]}\n- !!set {a}\n"]),
    "mapping": Decoder(
        _file(load_mapping), MappingError, [path.read_bytes() for path in sorted(MAPPINGS.glob("*.yaml"))]
    ),
    "expression": Decoder(_expression, ValueError, [b"batch / max(nodes, 1) - 2 * -(a + 3.5e2)"]),
    "catalog": Decoder(
        _file(load_catalog), CatalogError, [b"- {name: X, vendor: V, memory_gb: 80}\n- name: Y\n  vendor: W\n"]
    ),
    "catalog of an artifact": Decoder(Catalog.from_json, CatalogError, [CATALOG.to_json()]),
    "manifest": Decoder(read_manifest, ArtifactError, [(ROOT / "tests" / "fuzz" / "manifest.json").read_bytes()]),
    "pointer": Decoder(read_pointer, ArtifactError, [POINTER]),
    "signatures": Decoder(read_signatures, ArtifactError, [b'{"%s":"QUFB"}' % (b"a" * 64)]),
    "graph": Decoder(read_graph, ValueError, [_graph()]),
    "snapshot": Decoder(_snapshot, ValueError, [_npy()]),
    "history backup": Decoder(_file(lambda path: list(read_backup(path))), ValueError, [gzip.compress(_backup())]),
    "history backup unpacked": Decoder(
        lambda data: _file(lambda path: list(read_backup(path)))(gzip.compress(data, 1)), ValueError, [_backup()]
    ),
}


def run(name: str, data: bytes) -> bool:
    """Whether a decoder takes bytes; any other error than its own comes through."""
    decoder = DECODERS[name]
    try:
        decoder.read(data)
    except decoder.error:
        return False
    return True
