"""What is in the wheel: all that a user needs, under one name, and none of a developer's tools."""

import ast
import re
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

import leap
from leap.schemas.distribution import DISTRIBUTION
from tests.package.wheel import LAYERS, TOOLS, packaged_files
from tests.services import ROOT

#: A module, or an attribute of one, in text: what is imported by name or stands in a table of commands.
_BY_NAME = re.compile(r"leap(\.\w+)+(:\w+)?")


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, str]:
    """File of the wheel to its text."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist() if not name.endswith("/")}


def modules(contents: dict[str, str]) -> dict[str, str]:
    """Module to its text."""
    return {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): text
        for name, text in contents.items()
        if name.endswith(".py")
    }


def imported(source: str) -> Iterator[tuple[str, ...]]:
    """Modules of Leap that a module names; any of a tuple may be the one."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=aliases):
                yield from ((alias.name,) for alias in aliases if alias.name.partition(".")[0] == "leap")
            case ast.ImportFrom(module=str(module), names=aliases) if module.partition(".")[0] == "leap":
                yield from ((module, f"{module}.{alias.name}") for alias in aliases)
            case ast.Constant(value=str(text)) if _BY_NAME.fullmatch(text):
                yield (text.partition(":")[0],)


def test_it_holds_every_module_and_data_file_under_one_name(contents: dict[str, str]) -> None:
    metadata = f"{DISTRIBUTION.replace('-', '_')}-{leap.__version__}.dist-info/"
    assert {name for name in contents if not name.startswith(metadata)} == packaged_files()
    kinds = {Path(name).suffix for name in contents}
    assert {".py", ".typed", ".yaml", ".json", ".lua", ".html", ".css"} <= kinds


def test_it_holds_no_tool_of_a_developer(contents: dict[str, str]) -> None:
    words = {word for name in contents for word in Path(name).with_suffix("").parts}
    assert not words & {"ablation", "bench", "tests"}
    assert all((ROOT / tool / "cli.py").exists() for tool in TOOLS[:2]), "they are in the repository"


def test_its_modules_import_only_what_it_holds(contents: dict[str, str]) -> None:
    there = modules(contents)
    in_repository = {
        ".".join(("leap", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*.py")
    }
    absent = {
        (module.count("."), name)
        for module, source in there.items()
        for names in imported(source)
        for name in names
        if name not in there and (name in in_repository or len(names) == 1 or names[0] not in there)
    }
    tools = {(1, "leap.retrainer.ablation.cli"), (1, "leap.retrainer.bench.cli")}
    assert absent == tools, "leap.commands alone may name what is not there"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import leap.a.b, os", [("leap.a.b",)]),
        ("def f():\n    from leap.a import b", [("leap.a", "leap.a.b")]),
        ("COMMANDS = {'x': 'leap.a.cli:app', 'y': 'not leap.a'}", [("leap.a.cli",)]),
        ("from leapfrog import a", []),
    ],
)
def test_every_way_to_name_a_module_is_seen(source: str, names: list[tuple[str, ...]]) -> None:
    assert [*imported(source)] == names


def test_its_metadata_say_name_licence_and_nobody(contents: dict[str, str]) -> None:
    [text] = (text for name, text in contents.items() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(text)
    assert (metadata["Name"], metadata["Version"]) == (DISTRIBUTION, leap.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert not {"Author", "Author-email", "Maintainer", "Maintainer-email"} & {*metadata}
    assert not {"dev", "ablation", "build"} & {*metadata.get_all("Provides-Extra", [])}
    [licence] = (text for name, text in contents.items() if name.endswith(".dist-info/licenses/LICENSE"))
    assert "Apache License" in licence and "Version 2.0, January 2004" in licence
