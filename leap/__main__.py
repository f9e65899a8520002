"""``python -m leap``: the command."""

from leap.cli import main

main()
