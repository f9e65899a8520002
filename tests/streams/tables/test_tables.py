"""One table in every format gives the same rows; what is not one is refused with the reason and the remedy."""

import bz2
import contextlib
import gzip
import importlib
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.schemas.backfill.mapping import TableFormat, load_mapping
from leap.schemas.hardware import load_catalog
from leap.streams.backfill.sender import Table, read_table
from leap.streams.tables import table as limits
from leap.streams.tables.table import TableError
from leap.streams.tables.table_reader import open_table, table_columns, table_rows

pa: Any = importlib.import_module("pyarrow")
pq: Any = importlib.import_module("pyarrow.parquet")

NAMES = ["job_id", "name", "gpu", "ok", "started", "minutes", "samples_per_s"]
VALUES: list[list[Any]] = [
    [1, "bert – Größe|1, klein", "A100-SXM-80GB", True, "2026-10-20 08:00:00", 90.0, 4000.5],
    [2, "resnet; 50", "H100-SXM-80GB", False, "2026-10-20 09:00:00", 30.0, None],
]
FRAME = pd.DataFrame(VALUES, columns=NAMES)
TIMED = FRAME.assign(started=pd.to_datetime(FRAME["started"]))
MAPPING = """
attempt_id: {template: "t/{job_id}/{ok}"}
job_name: name
model_type: {column: name, pattern: "^([a-z]+)"}
hardware_type: gpu
submitted_at: started
run_seconds: {column: minutes, scale: 60}
status: {column: ok, values: {"true": succeeded, "false": failed}}
config: {num_trainers: 1, accelerators_per_trainer: 8}
extra: {ok: ok}
measurements: {throughput: samples_per_s}
"""
CSV = FRAME.to_csv(index=False)
LINES = "\n".join(json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False) for row in VALUES)


def parquet(frame: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()


def workbook(rows: list[list[Any]]) -> bytes:
    """A workbook as small as the format allows: strings in the cells themselves."""

    def cell(value: Any) -> str:
        if value is None:
            return "<c/>"
        if isinstance(value, bool):
            return f'<c t="b"><v>{int(value)}</v></c>'
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value.replace("&", "&amp;")}</t></is></c>'
        return f"<c><v>{value}</v></c>"

    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    link = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = 'xmlns="http://schemas.openxmlformats.org/package/2006'
    body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    parts = {
        "[Content_Types].xml": f'<Types {package}/content-types"><Default Extension="xml" ContentType="a/b"/></Types>',
        "_rels/.rels": f'<Relationships {package}/relationships"><Relationship Id="r1" Type="{link}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{link}"><sheets><sheet name="Read me" sheetId="1" r:id="r1"/>'
        '<sheet name="Jobs" sheetId="2" r:id="r2"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships {package}/relationships">'
        f'<Relationship Id="r1" Type="{link}/worksheet" Target="worksheets/a.xml"/>'
        f'<Relationship Id="r2" Type="{link}/worksheet" Target="worksheets/b.xml"/></Relationships>',
        "xl/worksheets/a.xml": f"<worksheet {main}><sheetData><row><c><v>1</v></c></row></sheetData></worksheet>",
        "xl/worksheets/b.xml": f"<worksheet {main}><sheetData>{body}</sheetData></worksheet>",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def read(path: Path, mapping: str = MAPPING) -> Table:
    (path.parent / "map.yaml").write_text(mapping)
    return read_table(path, load_mapping(path.parent / "map.yaml"), load_catalog())


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


FORMATS: dict[str, bytes] = {
    "comma.csv": CSV.encode(),
    "semicolon.csv": FRAME.to_csv(index=False, sep=";").encode("utf-8-sig"),
    "pipe.txt": FRAME.to_csv(index=False, sep="|").encode(),
    "tab.tsv": FRAME.to_csv(index=False, sep="\t").encode("utf-16"),
    "no mark.csv": CSV.encode("utf-16-le"),
    "utf-32.csv": CSV.encode("utf-32"),
    "windows.csv": CSV.encode("cp1252"),
    "index.csv": FRAME.to_csv().encode(),
    "quoted.csv": FRAME.to_csv(index=False, quoting=1).replace("\n", "\r\n").encode(),
    "preamble.csv": f"Report, of 2026; all | jobs\nname: x\n\n{CSV}".encode(),
    "trailing.txt": FRAME.to_csv(index=False, sep="|").replace("\n", "|\n").encode(),
    "jobs.csv.gz": gzip.compress(CSV.encode()),
    "jobs.csv.bz2": bz2.compress(CSV.encode()),
    "jobs.csv.xz": lzma.compress(CSV.encode("cp1252")),
    "jobs.csv.zst": zstd(CSV.encode()),
    "named.wrongly": gzip.compress(LINES.encode()),
    "lines.jsonl": LINES.encode("utf-8-sig"),
    "list.json": FRAME.to_json(orient="records", indent=1).encode(),
    "object.json": f'{{"kind": "List", "items": {FRAME.to_json(orient="records")}}}'.encode(),
    "jobs.parquet": parquet(FRAME),
    "timed.parquet": parquet(TIMED),
    "words.parquet": parquet(FRAME.astype({"gpu": "category", "name": "category"})),
    "jobs.xlsx": workbook([["Report of"], [], NAMES, *VALUES]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_events(tmp_path: Path, name: str) -> None:
    (tmp_path / "plain.csv").write_text(CSV)
    expected = read(tmp_path / "plain.csv").jobs
    (tmp_path / name).write_bytes(FORMATS[name])
    found = read(tmp_path / name)
    assert (found.jobs, found.bad) == (expected, [])
    (submitted, _, completed), (_, _, other) = found.jobs
    assert (submitted.attempt_id, submitted.model_type, submitted.config.extra) == ("t/1/true", "bert", {"ok": "true"})
    assert (completed.measurements, other.measurements, other.status) == ({"throughput": 4000.5}, {}, "failed")
    said = {"windows.csv": "cp1252", "jobs.csv.xz": "cp1252", "preamble.csv": "line 4", "jobs.xlsx": "sheet 'Jobs'"}
    assert said.get(name, "") in " ".join(found.notes) and bool(found.notes) == (name in said)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_folder_is_one_table_with_the_keys_of_its_paths(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "jobs"
    for gpu, row in FRAME.groupby("gpu"):
        part = folder / f"gpu={gpu}" / f"part-0.{suffix}"
        part.parent.mkdir(parents=True)
        part.write_bytes(parquet(row.drop(columns="gpu")) if suffix == "parquet" else row.to_csv(index=False).encode())
    (folder / "_SUCCESS").touch()
    found = read(folder)
    assert [(job[0].attempt_id, job[1].hardware_type) for job in found.jobs] == [
        ("t/1/true", "A100-SXM-80GB"),
        ("t/2/false", "H100-SXM-80GB"),
    ]
    (tmp_path / "none").mkdir()
    with pytest.raises(TableError, match="no files"):
        open_table(tmp_path / "none")


def packed(table: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("two.csv", b"a,b, a\n1,2,3\n", "duplicate column names; rename one of each 'a'"),
        ("two.jsonl", b'{"a": 1, "a": 2}\n{"a": 1}\n', "line 1: duplicate names in an object: 'a'"),
        ("two.json", b'[{"a": 1, "a": 2}]', "duplicate names in an object: 'a'"),
        ("two.xlsx", workbook([["a", "a"], [1, 2]]), "duplicate column names"),
        ("two.parquet", packed(pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"])), "duplicate column names"),
        ("cut.gz", gzip.compress(CSV.encode() * 99)[:-20], "damaged: .*; make or fetch it again"),
        ("archive.zip", gzip.compress(parquet(FRAME)), "unpack it first"),
        ("scalar.json", b"[1, 2]", "no list of objects"),
        ("empty.json", b"[]", "no list of objects|empty"),
        ("nothing.csv", b"\n\n", "empty"),
        ("binary.csv", b"a,b\n\xff\x81,1\n", "neither UTF-8 nor cp1252"),
        ("long.csv", b"a,b\n" + b"x" * 1_100_000, "field larger"),
        ("named.parquet", b"a,b\n", "not Parquet"),
        ("sheet.xlsx", b"PK\x03\x04 and no more", "not a workbook"),
    ],
)
def test_no_table(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=problem) as error:
        list(open_table(tmp_path / name, wanted=frozenset({"a"}) if name == "two.xlsx" else frozenset()).rows())
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.parquet", lambda: packed(pa.table({"a": pa.array([0] * 2_000_000)}))),
        ("words.parquet", lambda: packed(pa.table({"a": pa.array(["x" * 1000] * 20_000)}))),
        ("text.gz", lambda: gzip.compress(b"a,b\n" + b"1,2\n" * 2_000_000)),
        ("text.zst", lambda: zstd(b"a,b\n" + b"1,2\n" * 2_000_000)),
        ("lines.xz", lambda: lzma.compress(b'{"a": 1}\n' * 2_000_000)),
        ("book.xlsx", lambda: workbook([["a" * 4_000_000]])),
    ],
)
def test_a_small_file_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, name: str, content: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FREE_BYTES", 1 << 20)
    (tmp_path / name).write_bytes(content())
    with pytest.raises(TableError, match="over 500 times as many"):
        list(table_rows(tmp_path / name))


def test_a_long_value_of_parquet_is_refused_before_it_is_repeated(tmp_path: Path) -> None:
    words = pa.array(["x" * 2_000_000]).dictionary_encode().take(pa.array([0] * 10_000))
    (tmp_path / "long.parquet").write_bytes(packed(pa.table({"a": words})))
    with pytest.raises(TableError, match=r"a value of over 1,048,576 bytes"):
        list(table_rows(tmp_path / "long.parquet"))


def test_rows_that_cannot_be_read_are_named_and_the_others_kept(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(CSV + "3,bert, 7,A100-SXM-80GB,True,2026-10-20 08:00:00,90,4000\n4,bert\n")
    found = read(tmp_path / "jobs.csv")
    assert [str(bad)[:25] for bad in found.bad] == ["row 3: row: 8 values for ", "row 4: attempt_id: missin"]
    (tmp_path / "jobs.jsonl").write_text(LINES + '\n{"job_id": 3, "na\n7\n')
    found = read(tmp_path / "jobs.jsonl")
    assert (len(found.jobs), [bad.problem[:7] for bad in found.bad]) == (2, ["not JSO", "no JSON"])


def test_what_is_stated_of_a_format_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("x\nnåme^b\n1,5^2\n".encode("latin-1"))
    form = TableFormat(delimiter="^", encoding="latin-1", header=2)
    opened = open_table(tmp_path / "a.txt", form)
    assert (opened.columns, list(opened.rows()), opened.notes) == (("nåme", "b"), [{"nåme": "1,5", "b": "2"}], ())
    (tmp_path / "b.xlsx").write_bytes(workbook([["a"], [1.0]]))
    assert list(open_table(tmp_path / "b.xlsx", TableFormat(sheet="Jobs")).rows()) == [{"a": 1.0}]
    with pytest.raises(TableError, match="no sheet 'Job'; it has Read me, Jobs"):
        open_table(tmp_path / "b.xlsx", TableFormat(sheet="Job"))
    with pytest.raises(TableError, match="cannot be read"):
        table_columns(tmp_path / "nowhere.csv")


def test_what_is_nested_gets_names_with_dots(tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text(
        '{"items": [{"a": {"b.c": 1}, "list": [1, 2], "conditions": [{"type": "Failed", "reason": "x"}], '
        '"params": [{"key": "model", "value": "bert"}], "none": {}}]}'
    )
    [(_, row)] = table_rows(tmp_path / "jobs.json")
    assert row == {
        "a.b.c": 1, "list": [1, 2], "conditions.0.type": "Failed", "conditions.0.reason": "x", "none": {},
        "conditions.Failed.type": "Failed", "conditions.Failed.reason": "x", "params.0": "bert", "params.model": "bert",
    }  # fmt: skip


@given(st.sampled_from(sorted(FORMATS)), st.integers(0, 4000), st.binary(max_size=12), st.booleans())
def test_damaged_files_are_tables_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, patch: bytes, cut: bool
) -> None:
    content = FORMATS[name]
    damaged = content[:place] + patch + (b"" if cut else content[place + len(patch) :])
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(damaged)
    with contextlib.suppress(TableError):
        for _, row in table_rows(path):
            assert all(isinstance(column, str) for column in row)
