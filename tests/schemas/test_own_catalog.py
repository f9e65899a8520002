"""An own catalog adds to the built-in one, or changes what it states of an entry."""

import pickle
from pathlib import Path

import pytest

from leap.schemas.hardware import Catalog, CatalogError, load_catalog

BUILT_IN = load_catalog()


def own(tmp_path: Path, text: str) -> Catalog:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return load_catalog(path)


def test_no_file_is_the_built_in_catalog() -> None:
    assert load_catalog("") == BUILT_IN == load_catalog(None)


def test_new_entry_is_added(tmp_path: Path) -> None:
    catalog = own(tmp_path, "- {name: X1, vendor: V, memory_gb: 48, aliases: [x-one]}")
    assert catalog.keys() - BUILT_IN.keys() == {"X1"}
    assert catalog.resolve("X_ONE") == "X1"


@pytest.mark.parametrize("name", ["H100-SXM-80GB", "H100", "NVIDIA H100 80GB HBM3"])
def test_entry_changes_only_what_it_states(tmp_path: Path, name: str) -> None:
    catalog = own(tmp_path, f"- {{name: {name}, price_per_hour: 1.5, tdp_w: 650, aliases: [big]}}")
    before, after = BUILT_IN["H100-SXM-80GB"], catalog["H100-SXM-80GB"]
    assert catalog.keys() == BUILT_IN.keys()
    assert (after.price_per_hour, after.tdp_w, after.bf16_tflops) == (1.5, 650.0, before.bf16_tflops)
    assert after.price_source == "own catalog", "not the source of another price"
    assert after.aliases == (*before.aliases, "big")


def test_stated_figure_is_verified(tmp_path: Path) -> None:
    assert "price_per_hour" in BUILT_IN["T4"].unverified
    assert own(tmp_path, "- {name: T4, price_per_hour: 0.2}")["T4"].unverified == ()


def test_own_alias_is_taken_from_a_built_in_entry(tmp_path: Path) -> None:
    catalog = own(tmp_path, "- {name: A100-SXM-80GB, aliases: [a100]}")
    assert catalog.resolve("A100") == catalog.resolve("NVIDIA A100") == "A100-SXM-80GB"
    assert catalog.resolve("A100-40GB") == "A100-SXM-40GB"


def test_entry_may_be_like_another(tmp_path: Path) -> None:
    catalog = own(tmp_path, "- {name: A100-SXM-64GB, like: A100-80GB, memory_gb: 64, price_per_hour: 0}")
    entry, listed = catalog["A100-SXM-64GB"], BUILT_IN["A100-SXM-80GB"]
    assert (entry.like, entry.memory_gb, entry.price_per_hour) == ("A100-SXM-80GB", 64.0, 0.0)
    assert (entry.bf16_tflops, entry.aliases) == (listed.bf16_tflops, ())


def test_replace_starts_from_nothing(tmp_path: Path) -> None:
    catalog = own(tmp_path, "replace: true\nentries:\n- {name: X1, vendor: V}\n- {name: T4, vendor: V}")
    assert list(catalog) == ["T4", "X1"]
    assert catalog["T4"].memory_gb is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("replace: true", "expected a list"),
        ("{replace: false, entries: [{name: X, vendor: V}]}", "expected a list"),
        ("- {name: T4, tdp_w: 9e9}", r"entry 1 \(T4\).*tdp_w"),
        ("- {name: T4}\n- {name: Tesla T4}", "'T4' is duplicated"),
        ("- {name: X1, vendor: V, aliases: [T4]}", "'T4'.*leave it to one of them"),
        ("- {name: X1, vendor: V, aliases: [y]}\n- {name: Y, vendor: V}", "leave it to one of them"),
        ("- {name: X1, vendor: V, aliases: y}", r"entry 1 \(X1\).*aliases"),
        ("- {name: X1, vendor: V, aliases: ['']}", r"entry 1 \(X1\).*aliases"),
        ("- {name: X1, like: nothing}", r"entry 1 \(X1\).*vendor"),
    ],
)
def test_error_names_file_entry_and_remedy(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(CatalogError, match=rf"own\.yaml: .*{expected}"):
        own(tmp_path, text)


def test_catalog_goes_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(BUILT_IN)).resolve("a100") == "A100-SXM-40GB"
