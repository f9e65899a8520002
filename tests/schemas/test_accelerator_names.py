"""Every spelling means one entry of the catalog, or none: never a wrong one."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.schemas.hardware import Catalog, CatalogError, Hardware, load_catalog
from leap.schemas.names.accelerators import AcceleratorNames, Named, parse

CATALOG = load_catalog()
SAYS = {
    "nvidia-smi": {
        "NVIDIA A100-SXM4-80GB": "A100-SXM-80GB",
        "NVIDIA A100-SXM4-40GB": "A100-SXM-40GB",
        "NVIDIA A100 80GB PCIe": "A100-PCIe-80GB",
        "NVIDIA A100-PCIE-40GB": "A100-PCIe-40GB",
        "Tesla V100-SXM2-32GB": "V100-SXM-32GB",
        "Tesla V100-SXM2-16GB": "V100-SXM-16GB",
        "Tesla V100-PCIE-16GB": "V100-PCIe-16GB",
        "NVIDIA H100 80GB HBM3": "H100-SXM-80GB",
        "NVIDIA H100 PCIe": "H100-PCIe-80GB",
        "NVIDIA H100 NVL": "H100-NVL-94GB",
        "NVIDIA H200": "H200-SXM-141GB",
        "NVIDIA H200 NVL": "H200-NVL",
        "NVIDIA GH200 480GB": "GH200-480GB",
        "NVIDIA B200": "B200",
        "NVIDIA A800-SXM4-80GB": "A800-SXM-80GB",
        "NVIDIA H800 PCIe": "H800-PCIe-80GB",
        "NVIDIA H20": "H20",
        "NVIDIA L4": "L4",
        "NVIDIA L40": "L40",
        "NVIDIA L40S": "L40S",
        "Tesla T4": "T4",
        "Tesla P40": "P40",
        "Tesla P100-PCIE-16GB": "P100",
        "NVIDIA GeForce RTX 3090": "RTX-3090",
        "NVIDIA GeForce RTX 3080 Laptop GPU": "RTX-3080-Laptop",
        "NVIDIA GeForce RTX 2080 Super with Max-Q Design": "RTX-2080-Super-MaxQ",
        "NVIDIA RTX A6000": "RTX-A6000",
        "NVIDIA RTX 6000 Ada Generation": "RTX-6000-Ada",
        "Quadro RTX 6000": "Quadro-RTX-6000",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX-PRO-6000-Blackwell",
    },
    "rocm-smi, hl-smi, lspci": {
        "AMD Instinct MI300X OAM": "MI300X",
        "AMD Instinct MI250X": "MI250X",
        "AMD INSTINCT MI250 (MCM) OAM AC MBA": "MI250",
        "Arcturus GL-XL [Instinct MI100]": "MI100",
        "HL-225": "Gaudi2",
        "Intel Gaudi 3 AI Accelerator": "Gaudi3",
    },
    "SkyPilot, Ray": {
        "A100-80GB": "A100-SXM-80GB",
        "A100": "A100-SXM-40GB",
        "H100": "H100-SXM-80GB",
        "V100-32GB": "V100-SXM-32GB",
        "RTXA6000": "RTX-A6000",
        "tpu-v5litepod-1": "TPU-v5e",
        "TPU-V6E": "TPU-v6e",
        "Intel-GAUDI": "Gaudi",
        "Trainium:16": "Trainium",
    },
    "Slurm": {
        "a100": "A100-SXM-40GB",
        "h100": "H100-SXM-80GB",
        "a100_80gb": "A100-SXM-80GB",
        "gres/gpu:a100_80gb:4": "A100-SXM-80GB",
        "nvidia_h100_80gb_hbm3": "H100-SXM-80GB",
        "rtx_2080_ti": "RTX-2080-Ti",
        "2080ti": "RTX-2080-Ti",
    },
    "labels of nodes": {
        "nvidia-tesla-t4": "T4",
        "nvidia-tesla-a100": "A100-SXM-40GB",
        "nvidia-h100-80gb": "H100-SXM-80GB",
        "nvidia-h100-mega-80gb": "H100-SXM-80GB",
        "nvidia-l4": "L4",
        "tpu-v5-lite-podslice": "TPU-v5e",
        "tpu-v5p-slice": "TPU-v5p",
        "a10g": "A10G",
        "trainium": "Trainium",
        "NVIDIA-A100-SXM4-80GB": "A100-SXM-80GB",
        "H100_NVLINK_80GB": "H100-SXM-80GB",
        "AMD_Instinct_MI300X_OAM": "MI300X",
    },
    "people": {
        "a100-sxm-80gb": "A100-SXM-80GB",
        "L4": "L4",
        "v5litepod": "TPU-v5e",
        "v5e": "TPU-v5e",
        "trn1": "Trainium",
        "trn2.48xlarge": "Trainium2",
        "H100SXM": "H100-SXM-80GB",
        "NVIDIA A100 (TM) 80 GB PCI-E": "A100-PCIe-80GB",
    },
}
SLICES = (
    "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
    "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
    "nvidia.com/mig-1g.5gb",
    "a100_3g.20gb",
    "GRID T4-16Q",
    "GRID A100-20C",
    "A100-20C",
    "NVIDIA A100-4-20C",
    "NVIDIA H200-141C",
    "NVIDIA-A100-SXM4-80GB-SHARED",
    "Tesla-T4.shared",
)
UNKNOWN = (
    "L400",
    "A1000",
    "NVIDIA A100X",
    "MI250X/MI250",
    "Quadro 6000",
    "NVIDIA Graphics Device",
    "gpu",
    "",
    "Ascend 910B",
)
WORDS = ("NVIDIA", "A100", "L4", "40GB", "80", "GB", "SXM4", "PCIe", "-", "_", " ", "MIG")
AMBIGUOUS = {"A100 PCIe": "A100-PCIe-40GB, A100-PCIe-80GB", "A100-SXM4": "A100-SXM-40GB, A100-SXM-80GB"}
SIBLINGS = {
    "NVIDIA GH200 96GB HBM3": ("GH200-96GB", "GH200-480GB", 96.0),
    "NVIDIA A100-SXM-64GB": ("A100-SXM-64GB", "A100-SXM-80GB", 64.0),
    "Tesla P100-SXM2-16GB": ("P100-SXM-16GB", "P100", 16.0),
    "RTX 4090 48GB": ("RTX-4090-48GB", "RTX-4090", 48.0),
}


@pytest.mark.parametrize(
    ("spelling", "name"), [pair for spellings in SAYS.values() for pair in spellings.items()], ids=str
)
def test_spelling_means_entry(spelling: str, name: str) -> None:
    assert CATALOG.resolve(spelling) == name
    assert CATALOG.canonical(spelling) == name


@pytest.mark.parametrize("spelling", SLICES)
def test_slice_is_unknown_and_said_to_be_one(spelling: str) -> None:
    assert CATALOG.resolve(spelling) is None
    assert CATALOG.specification(spelling) is None
    assert CATALOG.why_unlisted(spelling).startswith("a slice or share of an accelerator")


@pytest.mark.parametrize("spelling", UNKNOWN)
def test_unknown_name_means_nothing(spelling: str) -> None:
    assert CATALOG.resolve(spelling) is None
    assert CATALOG.canonical(spelling) == spelling
    assert CATALOG.why_unlisted(spelling).startswith("no specification in the catalog")


def test_near_names_are_said() -> None:
    assert CATALOG.why_unlisted("L400").endswith("; the nearest names are L40, L40S, L4")
    assert "RTX-PRO-6000-Blackwell" in CATALOG.why_unlisted("RTX PRO 6000 Blackwell Max-Q Workstation Edition")


@pytest.mark.parametrize(("spelling", "names"), AMBIGUOUS.items())
def test_ambiguous_name_means_nothing_and_says_which_it_may_be(spelling: str, names: str) -> None:
    assert CATALOG.resolve(spelling) is None
    assert CATALOG.specification(spelling) is None
    assert CATALOG.why_unlisted(spelling) == f"may be any of {names} of the catalog; say which"


@pytest.mark.parametrize(("spelling", "expected"), SIBLINGS.items())
def test_chip_in_another_form_or_memory_has_its_siblings_figures(
    spelling: str, expected: tuple[str, str, float]
) -> None:
    name, sibling, _ = expected
    assert CATALOG.resolve(spelling) is None
    entry = CATALOG.specification(spelling)
    assert entry is not None
    assert (entry.name, entry.like, entry.memory_gb) == expected
    assert entry.fp16_tflops == CATALOG[sibling].fp16_tflops
    assert CATALOG.canonical(spelling) == CATALOG.canonical(name) == name
    extended = CATALOG.with_siblings([spelling, name])
    assert extended.keys() - CATALOG.keys() == {name}
    assert extended[name] == entry
    # What was clear before stays so.
    assert all(extended.resolve(text) == CATALOG.resolve(text) for says in SAYS.values() for text in says)


def test_names_and_aliases_of_every_entry_mean_it() -> None:
    for name, entry in CATALOG.items():
        for text in (name, name.lower(), name.replace("-", "_"), f"NVIDIA {name}", *entry.aliases):
            assert CATALOG.resolve(text) == name, text


def test_no_two_entries_state_the_same() -> None:
    stated = {name: {parse(text) for text in (name, *entry.aliases)} for name, entry in CATALOG.items()}
    assert not [pair for pair in combinations(stated, 2) if stated[pair[0]] & stated[pair[1]]]


@given(st.text(max_size=140) | st.lists(st.sampled_from(WORDS)).map("".join))
def test_any_name_is_resolved_once_and_for_all(name: str) -> None:
    found = CATALOG.resolve(name)
    assert found is None or (found in CATALOG and CATALOG.resolve(found) == found)
    known = CATALOG.canonical(name)
    assert CATALOG.canonical(known) == known
    assert found in (None, known)


def test_shared_name_is_refused_where_a_catalog_is_written() -> None:
    pair = [Hardware(name="X1 PCIe", vendor="V"), Hardware(name="x1-pcie", vendor="V")]
    with pytest.raises(CatalogError, match="'x1-pcie' of entry 'x1-pcie' is also a name of 'X1 PCIe'"):
        Catalog(pair)
    with pytest.raises(ValueError, match="'A 1'"):
        AcceleratorNames([Named("A1"), Named("B", ("A 1",))])


def test_shared_name_of_an_earlier_catalog_means_neither() -> None:
    data = b'[{"name":"X1 PCIe","vendor":"V"},{"name":"x1-pcie","vendor":"V"}]'
    catalog = Catalog.from_json(data)
    assert [catalog.resolve(name) for name in ("X1 PCIe", "x1-pcie", "X1_PCIE")] == ["X1 PCIe", "x1-pcie", None]
