"""Fuzz the decoders guided by coverage: ``python -m tests.fuzz SECONDS [NAME ...]``, each in a process of its own.

What breaks one is kept under ``.leap/fuzz/<name>/``, and is a test to be written; what led further is kept there too,
and the next run begins with it.
"""

import re
import subprocess
import sys
from pathlib import Path

import atheris

FOLDER = Path(".leap/fuzz")


def fuzz(name: str, seconds: str) -> None:
    """Fuzz one decoder in this process, which ends with it."""
    with atheris.instrument_imports(include=["schemas", "predictor", "streams", "yaml"]):
        from tests.fuzz.decoders import DECODERS, run
    corpus = FOLDER / name.replace(" ", "-")
    (corpus / "found").mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(DECODERS[name].seeds):
        (corpus / "found" / f"seed-{number}").write_bytes(seed)
    options = [f"-max_total_time={seconds}", "-max_len=8192", "-timeout=20", "-rss_limit_mb=1024"]
    options += [f"-artifact_prefix={corpus}/", "-print_final_stats=1", "-verbosity=0", str(corpus / "found")]

    def once(data: bytes) -> None:
        run(name, data)

    atheris.Setup([sys.argv[0], *options], once)
    atheris.Fuzz()


def main(seconds: str, *names: str) -> int:
    """Fuzz decoders one after the other, print what each did, and return how many broke."""
    from tests.fuzz.decoders import DECODERS

    broken = 0
    for name in names or DECODERS:
        command = [sys.executable, "-m", "tests.fuzz", "--one", name, seconds]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        ran = re.search(r"number_of_executed_units: (\d+)", done.stderr)
        print(f"{name:28} {int(ran[1]) if ran else 0:>10,} runs  {'BROKEN' if done.returncode else 'held'}", flush=True)
        if done.returncode:
            broken += 1
            print(done.stdout[-1500:] + done.stderr[-1500:])
    return broken


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        fuzz(*sys.argv[2:])
    else:
        sys.exit(main(*sys.argv[1:]))
