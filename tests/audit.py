"""Ask the package index whether a locked version has a known vulnerability: ``python -m tests.audit [--strict]``.

pip-audit asks, in an environment of its own. An index that tells no advisories, as some mirrors do, is no pass: it is
said in capitals, and with ``--strict`` it is a failure.
"""

import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-dev.lock"
PLACE = ROOT / ".leap" / "audit"
TOOL = "pip-audit==2.10.1"


class Unreachable(RuntimeError):
    """Nobody tells what is known of the packages."""


def ask(requirements: str) -> list[dict[str, Any]]:
    """What pip-audit finds: name, version and `vulns`, or a `skip_reason`, of each package."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(requirements)
        command = [str(PLACE / "bin" / "pip-audit"), "--disable-pip", "--no-deps", "-f", "json", "-r", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except ValueError:
        raise Unreachable(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no answer") from None
    return found


def audit() -> list[str]:
    """One line for each known vulnerability of what is locked.

    Raises
    ------
    Unreachable
        If a package could not be asked about.
    """
    locked = re.findall(r"(?m)^[A-Za-z0-9_.\-]+==[^\s\\;]+", LOCK.read_text())
    if not (PLACE / "bin" / "pip-audit").exists():
        venv.create(PLACE, with_pip=True)
        subprocess.run([PLACE / "bin" / "pip", "install", "-q", TOOL], check=True)
    for part in locked[:1], locked[1:]:  # the first alone, so that an index without advisories is asked only once
        answers = ask("\n".join(part))
        skipped = [answer["name"] for answer in answers if "skip_reason" in answer]
        if skipped or len(answers) != len(part):
            raise Unreachable(f"the index tells nothing of {', '.join(skipped) or 'some packages'}")
        found = [
            f"{answer['name']} {answer['version']}: {known['id']}, fixed in {known['fix_versions'] or 'no version'}"
            for answer in answers
            for known in answer["vulns"]
        ]
        if found:
            return found
    return []


def main(strict: bool) -> int:
    """Print the outcome; the status of the process."""
    try:
        found = audit()
    except (Unreachable, subprocess.CalledProcessError) as error:
        print(f"\nNOT AUDITED FOR KNOWN VULNERABILITIES: {error}\nRun `make audit` where it can be.\n", file=sys.stderr)
        return int(strict)
    print("\n".join(found) or "no known vulnerability in what is locked")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main("--strict" in sys.argv))
