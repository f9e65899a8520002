"""What else an accelerator is called: spellings of drivers, schedulers and clouds as chip, form and memory.

A spelling that states less than a name fits it where only one entry does; one that states something else fits none. A
slice of an accelerator (MIG, vGPU, a shared one) is not that accelerator.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

NEAREST = 3
#: Dice coefficient of neighbouring letters from which two names are near.
_ALIKE = 0.4
_LONGEST = 128  # a name beyond it is no spelling of anything, and is not searched for

_PREFIX = re.compile(r"^(?:gres/)?(?:gpu|accelerator(?:[_-]type)?)[:=]")
_SUFFIX = re.compile(r":\d+$|\.(?:\d+x)?large$|\.metal$|\(tm\)|\(r\)|[™®]")
_BRACKETS = re.compile(r"^[^\[]*\[([^\]]+)\].*$")  # as lspci: the chip, then [what it is sold as]
_SLICE = re.compile(
    r"\b(?:mig|grid|vgpu|mps|cpx|qpx|dpx)\b|\b\d+g[. ]?\d+gb|[. ]shared\b|\btime.?slic"
    r"|^(?!ascend|.*\bmi ).* (?:\d+ )?\d{1,3}[abcq]\d?$"
)
_ATTACHED = re.compile(r"(?<=\d)(sxm|pcie|nvl)")
_MEMORY = re.compile(r"(?<![a-z0-9])(\d+) ?(?:gb|gib|g)(?![a-z0-9])")
_TPU = re.compile(
    r"(?:tpu ?)?v([2-9]) ?(e|p|x|lite ?pod|lite)? ?(?:(?:pod ?)?slice|pod|device)?(?: \d+)?"  # v5litepod-16
)
_FORMS = {
    **dict.fromkeys(("sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "nvlink", "hgx"), "sxm"),
    **dict.fromkeys(("pcie", "pci", "pcie3", "pcie4", "pcie5"), "pcie"),
    "nvl": "nvl",
}
_WRITTEN = {"sxm": "SXM", "pcie": "PCIe", "nvl": "NVL"}
_VARIANT = re.compile(r"-(?:SXM\d?|PCIe|NVL|\d+GB)\b", re.IGNORECASE)
#: Vendors and what else says nothing of chip, form or memory; memory is told by its size.
_WORDS = frozenset(
    re.findall(
        r"\S+",
        "nvidia amd intel habana labs google cloud aws huawei graphcore tesla geforce instinct radeon "
        "gpu gpus graphics accelerator ai tensor core processor generation edition design with corporation inc "
        "grace hopper superchip oam mcm ac mba vf hbm hbm2 hbm2e hbm3 hbm3e",
    )
)


class Spelling(NamedTuple):
    """What a name states.

    Attributes
    ----------
    chip
        Letters and digits of what remains; of a slice all of it.
    form
        ``sxm``, ``pcie`` or ``nvl``; empty where it is not stated.
    memory_gb
        0 where it is not stated.
    is_slice
        Whether it is a part of an accelerator, or one that jobs share.
    """

    chip: str
    form: str = ""
    memory_gb: int = 0
    is_slice: bool = False


@lru_cache(4096)
def parse(name: str) -> Spelling:
    """What a name states, whoever wrote it.

    >>> parse("NVIDIA A100-SXM4-80GB") == parse("a100_80gb_nvlink")
    True
    >>> parse("AMD Instinct MI300X OAM").chip, parse("tpu-v5-lite-podslice").chip
    ('mi300x', 'tpuv5e')
    >>> parse("NVIDIA A100-SXM4-80GB MIG 3g.40gb").is_slice
    True
    """
    if len(name) > _LONGEST:
        return Spelling(name)
    text = _SUFFIX.sub("", _PREFIX.sub("", _BRACKETS.sub(r"\1", name.strip().lower())))
    text = re.sub(r"[\s_\-,()]+", " ", text.replace("pci-e", "pcie")).strip()
    if _SLICE.search(text):
        return Spelling(text.replace(" ", ""), is_slice=True)
    memory = _MEMORY.findall(_ATTACHED.sub(r" \1", text))
    words = [word for word in _MEMORY.sub(" ", _ATTACHED.sub(r" \1", text)).split() if word not in _WORDS]
    words = [word for word in words if not re.fullmatch(r"nvl\d+", word)]
    if found := _TPU.fullmatch(" ".join(words)):
        kind = found[2] or ""
        return Spelling(f"tpuv{found[1]}{'e' if kind.startswith('lite') else kind}")
    forms = [_FORMS[word] for word in words if word in _FORMS]
    chip = "".join(word for word in words if word not in _FORMS) or text.replace(" ", "")
    return Spelling(chip, forms[0] if forms else "", int(memory[0][:9]) if memory else 0)


class Named(NamedTuple):
    """An entry as its names see it.

    Attributes
    ----------
    memory_gb
        Stands for the memory that the name does not state; 0 is not known.
    linked
        Whether accelerators of one host are linked, which stands for the form that the name does not state.
    is_sibling
        Whether its figures are another's: it is meant only by who states its form and memory in full.
    """

    name: str
    aliases: tuple[str, ...] = ()
    memory_gb: float = 0.0
    linked: bool = False
    is_sibling: bool = False


class Sibling(NamedTuple):
    """A chip that is listed in another form or memory size.

    Attributes
    ----------
    name
        What the catalog would call it.
    entry
        What is listed.
    memory_gb
        As stated; 0 where it is not.
    """

    name: str
    entry: str
    memory_gb: int


class AcceleratorNames:
    """Finds the entry that a spelling means.

    >>> names = AcceleratorNames([Named("T4", memory_gb=16), Named("A100-SXM-80GB", ("A100",)), Named("L40")])
    >>> names.resolve("nvidia-tesla-t4"), names.resolve("a100"), names.resolve("L4")
    ('T4', 'A100-SXM-80GB', None)
    >>> names.sibling("NVIDIA A100-PCIE-40GB"), names.nearest("L4")
    (Sibling(name='A100-PCIe-40GB', entry='A100-SXM-80GB', memory_gb=40), ['L40'])

    Parameters
    ----------
    strict
        Whether two entries may not share a name; else a shared one means neither.

    Raises
    ------
    ValueError
        If a name or alias of one entry is also another's.
    """

    def __init__(self, entries: Iterable[Named], strict: bool = True) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._meant: dict[Spelling, str] = {}
        self._of_chip: dict[str, list[str]] = {}
        shared = set()
        for name, entry in self._entries.items():
            if not parse(name).is_slice and not entry.is_sibling:
                self._of_chip.setdefault(parse(name).chip, []).append(name)
            for text in (name, *entry.aliases):
                other = self._meant.setdefault(parse(text), name)
                if other != name and strict:
                    raise ValueError(f"{text!r} of entry {name!r} is also a name of {other!r}; leave it to one of them")
                if other != name:
                    shared.add(parse(text))
        for spelling in shared:
            del self._meant[spelling]
        self._sizes = {name: len(_pairs(name)) for name in self._entries}
        self._with_pair: dict[str, list[str]] = {}
        for name in self._entries:
            for pair in _pairs(name):
                self._with_pair.setdefault(pair, []).append(name)

    def resolve(self, name: str) -> str | None:
        """Name of the entry; None where none, or more than one, is meant."""
        if name in self._entries:
            return name
        spelling = parse(name)
        if spelling in self._meant:
            return self._meant[spelling]
        fitting = self._fitting(spelling)
        return fitting[0] if len(fitting) == 1 else None

    def sibling(self, name: str) -> "Sibling | None":
        """Entry of the same chip in another form or memory size than is stated: same form first, then like memory."""
        spelling = parse(name)
        same_chip = [] if spelling.is_slice else self._of_chip.get(spelling.chip, [])
        if not same_chip or spelling in self._meant or self._fitting(spelling):
            return None
        entry = min(same_chip, key=lambda entry: (not self._has_form(spelling, entry), self._apart(spelling, entry)))
        stated = (_WRITTEN.get(spelling.form), f"{spelling.memory_gb}GB" if spelling.memory_gb else None)
        return Sibling("-".join(filter(None, (_VARIANT.sub("", entry), *stated))), entry, spelling.memory_gb)

    def ambiguous(self, name: str) -> list[str]:
        """Entries that a name may mean, where it does not say which."""
        fitting = self._fitting(parse(name))
        return fitting if len(fitting) > 1 and self.resolve(name) is None else []

    def nearest(self, name: str) -> list[str]:
        """Names that are spelled alike, those of the same chip first."""
        pairs = _pairs(name)
        common = Counter(entry for pair in pairs for entry in self._with_pair.get(pair, ()))
        alike = {entry: 2 * count / (len(pairs) + self._sizes[entry]) for entry, count in common.items()}
        near = sorted((entry for entry in alike if alike[entry] >= _ALIKE), key=lambda entry: (-alike[entry], entry))
        return list(dict.fromkeys((*self._of_chip.get(parse(name).chip, ()), *near)))[:NEAREST]

    def _fitting(self, spelling: Spelling) -> list[str]:
        if spelling.is_slice:
            return []
        return [
            entry
            for entry in self._of_chip.get(spelling.chip, [])
            if self._has_form(spelling, entry) and spelling.memory_gb in (0, self._memory(entry))
        ]

    def _has_form(self, spelling: Spelling, entry: str) -> bool:
        own = parse(entry).form or ("sxm" if self._entries[entry].linked else "pcie")
        return spelling.form in ("", own)

    def _memory(self, entry: str) -> float:
        return parse(entry).memory_gb or self._entries[entry].memory_gb

    def _apart(self, spelling: Spelling, entry: str) -> float:
        memory = self._memory(entry)
        return abs(math.log(spelling.memory_gb / memory)) if spelling.memory_gb and memory else 0.0


def _pairs(name: str) -> frozenset[str]:
    """Neighbouring letters, with the first one alone: what two spellings have in common."""
    spelling = parse(name)
    text = f"{spelling.chip[:_LONGEST]}{spelling.form}{spelling.memory_gb or ''}"
    return frozenset(f" {text}"[at : at + 2] for at in range(len(text)))
