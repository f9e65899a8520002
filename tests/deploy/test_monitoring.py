"""Alerts, dashboard and runbook speak of metrics that exist, and of one another."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from leap.streams.runtime.metrics import TABLE
from tests.deploy.compose import services
from tests.deploy.faults import ALERTS
from tests.services import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
RULES: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((GRAFANA / "dashboards" / "leap.json").read_text())
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
LABELS = {metric.name: {*metric.labels} for metric in TABLE}
#: Labels that Prometheus adds.
ADDED = {"job", "instance", "le"}
#: Of the Python client, of Prometheus itself.
OTHERS = {"process_resident_memory_bytes", "process_cpu_seconds_total", "ALERTS"}


def expressions() -> Iterator[tuple[str, str]]:
    """Where each expression stands, and the expression."""
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m")


def metric_of(series: str) -> str:
    """The declared metric that a series belongs to."""
    for suffix in ("_bucket", "_sum", "_count"):
        if series.removesuffix(suffix) in LABELS:
            return series.removesuffix(suffix)
    return series


def unknown(expression: str) -> set[str]:
    """Metrics and labels of an expression that nothing exports.

    Examples
    --------
    >>> sorted(unknown('sum by (hue) (rate(leap_lag_massages{worker="a"}[5m])) / leap_lag_messages{colour="red"}'))
    ['hue', 'leap_lag_massages', 'leap_lag_messages{colour}']
    """
    found = set()
    labels = set(ADDED)
    for series, matchers in re.findall(r"\b([a-zA-Z_]\w*_\w+|ALERTS)\b(?!\s*\()(?:\{([^}]*)\})?", expression):
        name = metric_of(series)
        if name in LABELS:
            wrong = set(re.findall(r"(\w+)\s*[=!]", matchers)) - LABELS[name] - ADDED
            found |= {f"{name}{{{label}}}" for label in wrong}
            labels |= LABELS[name]
        elif name not in OTHERS:
            found.add(name)
    grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in re.split(r",\s*", group)}
    return found | (grouped - labels)


@pytest.mark.parametrize(("place", "expression"), list(expressions()))
def test_every_expression_is_of_metrics_and_labels_that_exist(place: str, expression: str) -> None:
    assert unknown(expression) == set()


def test_a_misspelt_metric_or_label_is_found() -> None:
    assert unknown('sum by (hue) (rate(leap_lag_massages[5m])) / leap_lag_messages{colour="red"}') == {
        "hue",
        "leap_lag_massages",
        "leap_lag_messages{colour}",
    }


def test_every_alert_has_its_entry_in_the_runbook_and_every_entry_its_alert() -> None:
    entries = dict(re.findall(r"(?ms)^## (Leap\w+)\n(.*?)(?=^## )", RUNBOOK))
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in RULES}
    assert entries.keys() == severities.keys()
    for alert, text in entries.items():
        assert re.findall(r"(?m)^\*\*(\w+)\*\*", text) == ["Means", "Likely", "Do", "Confirm"], alert
        assert text.strip().startswith(f"**Means** ({severities[alert]}): "), alert


def test_every_alert_says_what_is_wrong_and_where_to_read_on() -> None:
    for rule in RULES:
        assert rule["annotations"]["runbook_url"].endswith(f'"docs/runbook.md" }}}}#{rule["alert"].lower()}')
        assert rule["annotations"]["summary"].endswith(".")


def test_every_alert_is_fired_by_its_fault() -> None:
    assert {rule["alert"] for rule in RULES} == ALERTS


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    table = RUNBOOK.split("<!-- metrics -->")[1].split("<!-- /metrics -->")[0]
    rows = [f"| `{one.name}` | {', '.join(one.labels)} | {one.meaning} | {one.remedy} |" for one in TABLE]
    assert table.strip().splitlines()[2:] == rows


def test_remedies_name_metrics_that_exist() -> None:
    for metric in TABLE:
        assert {metric_of(name) for name in re.findall(r"\bleap_\w+", metric.remedy)} <= LABELS.keys()


def test_grafana_finds_its_data_source_and_its_dashboard() -> None:
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    [provider] = yaml.safe_load((GRAFANA / "provisioning/dashboards/leap.yml").read_text())["providers"]
    [variable] = DASHBOARD["templating"]["list"]
    assert (source["type"], source["uid"]) == (variable["query"], variable["current"]["value"])
    found = services("everything")
    assert source["url"] == "http://prometheus:9090" and "prometheus" in found
    mounts = {one["target"]: Path(one["source"]) for one in found["grafana"]["volumes"]}
    assert mounts[provider["options"]["path"]] == GRAFANA / "dashboards"
    home = found["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == provider["options"]["path"] + "/leap.json"


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


def test_prometheus_scrapes_every_service_with_metrics() -> None:
    [job] = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    [names] = [one["names"] for one in job["dns_sd_configs"]]
    image = services("everything")["ranking"]["image"]
    assert {*names, "topics"} == {name for name, one in services("everything").items() if one.get("image") == image}
