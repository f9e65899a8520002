"""What is installed is what is locked, for users and developers alike, under licences that allow it to be passed on."""

import re
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import audit

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]


def pinned(lock: str) -> dict[str, str]:
    """Name to version."""
    return dict(re.findall(r"(?m)^([a-z0-9\-.]+)==([^\s\\;]+)", lock))


USERS, DEVELOPERS = ((ROOT / name).read_text() for name in ("requirements.lock", "requirements-dev.lock"))
LOCKED = pinned(DEVELOPERS)
INSTALLED = {re.sub(r"[-_.]+", "-", found.name).lower(): found for found in distributions()}
#: Permissive, or as MPL weak about files that we do not change.
ALLOWED = re.compile(
    r"(?i)^((the )?(mit|mit-0|mit-cmu|mit no attribution|apache|bsd|isc|psf|python software foundation|zlib|0bsd|cc0|"
    r"mpl|mozilla public|unlicense|repoze|dfsg approved|zpl|hpnd|historical permission)\b|[23]-clause bsd)"
)
#: Their metadata name none; read in the texts that come with them.
READ = {"atheris": "Apache-2.0", "resvg-py": "MIT"}


def licences(found: Distribution) -> list[str]:
    """Names of licences, by the expression, else the classifiers, else the first line of the text."""

    def told(field: str) -> list[str]:
        return found.metadata.get_all(field) or []

    if expression := told("License-Expression"):
        return re.split(r" (?:AND|OR|WITH) |[()]", expression[0])
    classifiers = [text.rpartition(" :: ")[2] for text in told("Classifier") if text.startswith("License ::")]
    return classifiers or [text.strip().partition("\n")[0] for text in told("License")]


@pytest.mark.parametrize("name", LOCKED)
def test_a_dependency_may_be_passed_on(name: str) -> None:
    found = INSTALLED.get(name)
    if found is None:  # locked for another platform
        return
    assert found.version == LOCKED[name]
    named = [licence.strip() for licence in licences(found) if licence.strip()] or [READ.get(name, "none named")]
    assert all(map(ALLOWED.match, named)), named


def blocks(lock: str) -> set[str]:
    """A name, its version and its digests, each."""
    return set(re.split(r"(?m)^(?=[a-z])", lock)[1:])


def test_every_dependency_is_pinned_by_digest() -> None:
    assert len(blocks(DEVELOPERS)) == len(LOCKED) > 50
    assert all("--hash=sha256:" in block for block in blocks(DEVELOPERS))
    assert "://" not in DEVELOPERS


def test_users_have_a_part_of_what_developers_have() -> None:
    assert blocks(USERS) < blocks(DEVELOPERS)
    assert len(blocks(USERS)) < len(LOCKED) / 2


def needed(requirements: list[str]) -> dict[str, str]:
    """What requirements bring, and what that needs in turn, to the version locked for developers."""
    seen: set[tuple[str, str]] = set()
    queue = [(text, "") for text in requirements]
    while queue:
        text, wanted_by = queue.pop()
        need = Requirement(text)
        name = canonicalize_name(need.name)
        if name == PROJECT["project"]["name"] or (need.marker and not need.marker.evaluate({"extra": wanted_by})):
            continue
        assert need.specifier.contains(LOCKED[name]), need
        new = {(name, extra) for extra in ("", *need.extras)} - seen
        queue += [(text, extra) for _, extra in new for text in INSTALLED[name].requires or ()]
        seen |= new
    return {name: LOCKED[name] for name, _ in seen}


def test_a_lock_is_what_is_declared_and_what_that_needs() -> None:
    of_users = [*PROJECT["project"]["dependencies"], *(text for extra in EXTRAS.values() for text in extra)]
    of_users += GROUPS["build"]
    assert needed(of_users) == pinned(USERS)
    of_developers = [text for group in GROUPS.values() for text in group if isinstance(text, str)]
    assert needed(of_users + of_developers) == LOCKED
    included = {entry["include-group"] for entry in GROUPS["dev"] if isinstance(entry, dict)}
    assert included | {"dev"} == set(GROUPS)


def test_licences_that_bind_others_are_not_allowed() -> None:
    for name in ("GPL-3.0-or-later", "GNU Affero General Public License v3", "LGPL", "SSPL-1.0", "none named", "Other"):
        assert not ALLOWED.match(name)


def answer(name: str, **rest: object) -> dict[str, object]:
    return {"name": name, "version": "1", "vulns": []} | rest


KNOWN = {"id": "X-1", "fix_versions": ["2"]}


@pytest.mark.parametrize(
    ("answers", "strict", "status"),
    [
        (lambda name: answer(name), False, 0),
        (lambda name: answer(name, vulns=[KNOWN]), False, 1),
        (lambda name: {"name": name, "skip_reason": "not found"}, False, 0),
        (lambda name: {"name": name, "skip_reason": "not found"}, True, 1),
    ],
)
def test_what_is_known_fails_and_what_is_not_known_is_no_pass(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: Callable[[str], dict[str, object]],
    strict: bool,
    status: int,
) -> None:
    monkeypatch.setattr(audit, "PLACE", Path(sys.prefix))
    monkeypatch.setattr(Path, "exists", lambda self: True)
    asked: list[str] = []

    def ask(requirements: str) -> list[dict[str, object]]:
        asked.extend(requirements.splitlines())
        return [answers(line.partition("==")[0]) for line in requirements.splitlines()]

    monkeypatch.setattr(audit, "ask", ask)
    assert audit.main(strict) == status
    out, err = capsys.readouterr()
    skipped = "skip_reason" in answers("x")
    assert ("NOT AUDITED" in err) is skipped and ("no known vulnerability" in out) is (status == 0 and not skipped)
    assert len(asked) == (1 if skipped or status else len(LOCKED))
