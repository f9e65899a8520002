"""``leap`` and ``python -m leap``: the command, where what it needs is installed."""

import sys

from leap.schemas.distribution import install_command


def main() -> None:
    """Run the command."""
    try:
        from leap.cli import main as run
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit(f"{error.name} is not installed; run: {install_command('cli')}")
    run()


if __name__ == "__main__":
    main()
