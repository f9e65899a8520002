"""The catalog: what ships is right, what is wrong is refused where it is wrong."""

import contextlib
import csv
import hashlib
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.schemas.hardware import (
    MAX_BYTES,
    MAX_ENTRIES,
    SPECIFICATIONS,
    Catalog,
    CatalogError,
    Hardware,
    load_catalog,
)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "catalog.yaml"
    path.write_text(text)
    return path


def test_shipped_catalog_covers_several_vendors_with_prices() -> None:
    catalog = load_catalog()
    priced = [hardware for hardware in catalog.values() if hardware.price_per_hour is not None]
    assert len(catalog) == 90
    assert len(priced) >= 30 and len({hardware.vendor for hardware in priced}) >= 5
    assert any(hardware.premium for hardware in priced)
    assert len(SPECIFICATIONS) == 12


def test_every_price_is_sourced_and_general_knowledge_is_marked() -> None:
    for hardware in load_catalog().values():
        if hardware.price_per_hour is not None:
            assert hardware.price_source and hardware.price_date
            assert ("general knowledge" in hardware.price_source) == ("price_per_hour" in hardware.unverified)


def test_catalog_has_known_specifications() -> None:
    # NVIDIA's data sheet of the H100 SXM: 989 TFLOP/s dense BF16, 80 GB at 3.35 TB/s, NVLink 900 GB/s both ways.
    h100 = load_catalog()["H100-SXM-80GB"]
    assert h100.specifications() == (66.91, 494.5, 989, 989, 1979, 80, 3360, 450, 63, 700, 132, 1980)
    assert load_catalog()["T4"].interconnect_gb_s is None


def test_figures_equal_the_source_table(shared_data: Path) -> None:
    columns = {
        "bf16_tensor_tflops": "bf16_tflops",
        "memory_bandwidth_gb_s": "memory_bandwidth_gb_s",
        "tdp_w": "tdp_w",
    }
    catalog = load_catalog()
    rows = list(csv.DictReader((shared_data / "hardware-specs" / "accelerators.csv").read_text().splitlines()))
    assert {row["hardware_type"] for row in rows} < set(catalog)
    for row in rows:
        for column, field in columns.items():
            expected = float(row[column]) if row[column] else None
            assert getattr(catalog[row["hardware_type"]], field) == expected
        if row["cloud_usd_per_gpu_hour"]:
            assert catalog[row["hardware_type"]].price_per_hour == float(row["cloud_usd_per_gpu_hour"])


def test_digest_is_of_the_canonical_json_and_sees_every_change() -> None:
    first, second = Hardware(name="A", vendor="V", tdp_w=300), Hardware(name="B", vendor="V")
    catalog = Catalog([second, first])
    assert list(catalog) == ["A", "B"]
    assert json.loads(catalog.to_json())[0] == {"name": "A", "tdp_w": 300, "vendor": "V"}
    assert catalog.digest == hashlib.sha256(catalog.to_json()).hexdigest() == Catalog([first, second]).digest
    assert catalog.digest != Catalog([first]).digest


def test_json_round_trip() -> None:
    catalog = load_catalog()
    assert Catalog.from_json(catalog.to_json()) == catalog


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- {name: X, vendor: V, memory_gb: 80000}", ["entry 1 (X)", "memory_gb", "80000", "check its unit"]),
        ("- {name: X, vendor: V, tdp_w: .nan}", ["tdp_w", "nan"]),
        ("- {name: X, vendor: V, tdp_w: -3}", ["tdp_w", "-3"]),
        ("- {name: X, vendor: V, tdp_w: fast}", ["entry 1 (X)", "tdp_w", "float"]),
        ("- {name: X, vendor: V, tdp_w: true}", ["tdp_w", "bool"]),
        ("- {name: X, vendor: V, memory: 80}", ["unknown field `memory`"]),
        ("- {name: X}", ["entry 1 (X)", "vendor"]),
        ("- {name: '', vendor: V}", ["entry 1", "`name`"]),
        ("- {name: X, vendor: V, price_per_hour: 2}", ["price_per_hour", "price_source"]),
        ("- {name: X, vendor: V, unverified: [speed]}", ["unverified", "speed"]),
        ("- {name: X, vendor: V}\n- {name: X, vendor: V}", ["'X' is duplicated"]),
        ("- 7", ["entry 1 (without a name)"]),
        ("X: {vendor: V}", ["expected a list"]),
        ("", ["expected a list"]),
        ("- {name: X", ["not YAML"]),
        ("- !!python/object/apply:os.system [true]", ["not YAML"]),
        ("[" * 5000, ["nested deeper than 64"]),
    ],
)
def test_error_names_file_entry_field_and_remedy(tmp_path: Path, text: str, expected: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(CatalogError) as caught:
        load_catalog(path)
    for part in (str(path), *expected):
        assert part in str(caught.value)


def test_missing_oversized_and_overlong_catalogs_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"absent\.yaml: cannot be read"):
        load_catalog(tmp_path / "absent.yaml")
    with pytest.raises(CatalogError, match=str(MAX_BYTES)):
        load_catalog(write(tmp_path, "#" * (MAX_BYTES + 1)))
    with pytest.raises(CatalogError, match=str(MAX_ENTRIES)):
        Catalog(Hardware(name=str(i), vendor="V") for i in range(MAX_ENTRIES + 1))


@pytest.mark.parametrize("field", SPECIFICATIONS)
def test_hardware_is_frozen(field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(load_catalog()["T4"], field, 1.0)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(msgspec.json.encode))
def test_any_bytes_give_a_catalog_or_a_catalog_error(data: bytes) -> None:
    with contextlib.suppress(CatalogError):
        Catalog.from_json(data)
