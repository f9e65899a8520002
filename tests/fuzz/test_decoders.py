"""No bytes at any door end in anything but its own error; `python -m tests.fuzz` goes on for as long as one likes."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leap.schemas.backfill.mapping import MappingError, load_mapping
from leap.schemas.hardware import CatalogError, load_catalog
from leap.streams.history import backup as history_backup
from leap.streams.history.backup import read_backup
from tests.fuzz.decoders import DECODERS, run

#: What breaks readers of JSON, YAML, arithmetic and archives.
TOKENS = [
    b'"', b"{", b"}", b"[", b"]", b":", b",", b"null", b"NaN", b"1e999", b"-0", b"9" * 400, b"\x00", b"\xff",
    b"\xed\xa0\x80", b"[" * 300, b'{"a":' * 300, b"\\ud800", b"2026-99-99", b"0o8", b"!!int x", b"!!timestamp [1]",
    b"? ", b"- ", b"&a [*a]", b"*a", b"1:1:1:1", b"<<: [1]", b"a.b.c", b"not ", b"-" * 300, b"(" * 150, b"9**9", b"1j",
    b"x if y else z", b"%", b"\n", b"\r\x85",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """An example of what a decoder is meant for, with a few places cut out, copied or overwritten."""
    data = bytearray(draw(st.sampled_from(list(DECODERS[name].seeds))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.integers(0, 12))
        data[at:end] = draw(
            st.one_of(st.sampled_from(TOKENS), st.binary(max_size=6), st.just(bytes(data[at : at + 40])))
        )
    return bytes(data)


@pytest.mark.parametrize("name", DECODERS)
def test_an_example_is_taken(name: str) -> None:
    assert all(run(name, seed) for seed in DECODERS[name].seeds)


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damage_ends_in_the_decoders_own_error(name: str, data: st.DataObject) -> None:
    run(name, data.draw(st.one_of(damaged(name), damaged(name), st.binary(max_size=200))))


def bomb(levels: int = 30) -> str:
    """Some hundred bytes of YAML that stand for 9 ** 30 elements."""
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join(9 * [f'*a{n - 1}'])}]" for n in range(1, levels)]
    return "\n".join(rows)


def test_aliases_that_unfold_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(bomb())
    with pytest.raises(CatalogError, match="an alias near line 2; write out what it stands for"):
        load_catalog(path)
    with pytest.raises(MappingError, match="an alias near line 2"):
        load_mapping(path)


def test_a_backup_that_unpacks_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_backup, "MAX_LINE", 1 << 20)
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"format":1,"buckets":64}\n')
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    assert path.stat().st_size < 1 << 19
    tracemalloc.start()
    with pytest.raises(ValueError, match="a bucket is larger than 1048576 bytes"):
        list(read_backup(path))
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ({"target": "t", "number": 64, "fields": {}}, "number"),
        ({"target": "t", "number": -1, "fields": {}}, "number"),
        ({"target": "t", "number": 0, "fields": {"@x/0": "seven"}}, "invalid literal"),
        ({"target": "t", "number": 0, "fields": {'["a"]': "1 1 1 1 1 "}}, "two or three parts"),
        ({"target": "t", "number": 0, "fields": {'["family","a"]': "1 nan 0 0 0 "}}, "are not finite"),
        ({"target": "t", "number": 0, "fields": {'["family","a"]': "1 2"}}, "not enough values"),
    ],
)
def test_a_backup_that_would_stop_the_workers_is_refused(tmp_path: Path, line: dict[str, object], match: str) -> None:
    path = tmp_path / "backup.gz"
    path.write_bytes(gzip.compress(b'{"format":1,"buckets":64}\n' + json.dumps(line).encode()))
    with pytest.raises(ValueError, match=match):
        list(read_backup(path))


def test_limits_hold_before_memory_is_spent() -> None:
    """A message under 1 MiB, whatever it holds, costs some tens of MiB at most to refuse."""
    shapes = {
        "operators": b'{"operators":[' + b'{"kind":"a"},' * 20_000 + b'{"kind":"a"}]}',
        "names": b"{" + b",".join(b'"%d":0' % number for number in range(50_000)) + b"}",
    }
    for what, body in shapes.items():
        message = b'{"attempt_id":"a","unknown":' + body + b"}"
        assert len(message) < 1 << 20, what
        tracemalloc.start()
        assert not run("event job-submitted", message)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20, what
        tracemalloc.stop()
