"""Configuration, rules and every panel's expression by Prometheus's own tools."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.stack import Stack
from tests.deploy.test_monitoring import PROMETHEUS, RULES, expressions

pytestmark = pytest.mark.real("needs prometheus")


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False, cwd=PROMETHEUS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_configuration_and_rules_are_valid(stack: Stack) -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "config", "prometheus.yml")


def test_rules_hold_on_series_made_up_at_their_bounds(stack: Stack) -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")


def test_every_expression_of_the_dashboard_parses(stack: Stack, tmp_path: Path) -> None:
    records = [{"record": f"a{number}", "expr": expression} for number, (_, expression) in enumerate(expressions())]
    rules = tmp_path / "panels.yml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    assert f"{len(records)} rules found" in promtool("check", "rules", rules)
