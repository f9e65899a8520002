"""Pages that no file holds: the README as the first one, and the reference of `leap`'s public names."""

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

import leap

ROOT = Path(__file__).resolve().parents[2]
#: Links to files of the repository that are no pages: their text stays.
ELSEWHERE = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(?!\.\./|https?:|#|[\w-]+\.md|[\w/-]+\.(?:png|ipynb))[^)]*\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    files.append(File.generated(config, "python.md", content=reference()))
    return files


def on_page_markdown(text: str, **context: Any) -> str:
    """Links as they are in the repository, turned to those of the site."""
    text = text.replace("](docs/", "](").replace("](../README.md", "](index.md")
    return ELSEWHERE.sub(r"\1", text)


def reference() -> str:
    """Every public name, by its docstring."""
    modules = {name: module for module, names in leap._IMPORTS.items() for name in names}
    entries = [f"## {name}\n\n::: {modules[name]}.{name}\n" for name in leap.__all__]
    return "# Python\n\nAll that a launcher needs: `from leap import ...`.\n\n" + "\n".join(entries)


class Doctests(griffe.Extension):
    """Examples that stand in the text of a docstring are code; those under a heading are already."""

    def on_object(self, *, obj: griffe.Object, **context: Any) -> None:
        if obj.docstring is not None:
            text, heading, examples = obj.docstring.value.partition("\nExamples\n")
            obj.docstring.value = re.sub(r"(?m)(^>>> (?:.+\n?)+)", r"```pycon\n\1\n```\n", text) + heading + examples
