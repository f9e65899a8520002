"""Commands as users call them: with what makes sentences of errors."""

from collections.abc import Mapping

from typer.testing import CliRunner, Result

from leap import cli


def invoke(*arguments: str, env: Mapping[str, str] | None = None) -> Result:
    """Run ``leap`` in this process."""
    return CliRunner().invoke(cli.app, arguments, env=env)
