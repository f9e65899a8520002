"""The overlays as kubectl renders them: of the API's schema, hardened, and of parts that fit one another."""

import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from leap.schemas.topics import load_topics
from leap.streams.cli.worker import app as workers
from leap.streams.runtime.metrics import TABLE
from leap.streams.runtime.settings import Settings
from tests.deploy.compose import image_environment
from tests.services import ROOT

OVERLAYS = ROOT / "deploy" / "kubernetes" / "overlays"
KUBECTL = Path(sys.executable).with_name("kubectl")
VERSION = "1.30"  # the oldest that all fields are in

Resource = dict[str, Any]


@functools.cache
def rendered(overlay: str) -> tuple[Resource, ...]:
    """What ``kubectl apply -k`` would send."""
    done = subprocess.run([KUBECTL, "kustomize", OVERLAYS / overlay], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "kustomize warns of what will cease to work"
    return tuple(yaml.safe_load_all(done.stdout))


@pytest.fixture(params=["minimum", "production"])
def overlay(request: pytest.FixtureRequest) -> tuple[Resource, ...]:
    return rendered(request.param)


def of(resources: tuple[Resource, ...], kind: str) -> dict[str, Resource]:
    return {one["metadata"]["name"]: one for one in resources if one["kind"] == kind}


def templates(resources: tuple[Resource, ...]) -> Iterator[tuple[str, Resource]]:
    """Name and pod template of whatever runs."""
    for one in resources:
        if one["kind"] in ("Deployment", "Job"):
            yield one["metadata"]["name"], one["spec"]["template"]
        if one["kind"] == "CronJob":
            yield one["metadata"]["name"], one["spec"]["jobTemplate"]["spec"]["template"]


def matches(selector: dict[str, str], template: Resource) -> bool:
    labels: dict[str, str] = template["metadata"]["labels"]
    return selector.items() <= labels.items()


def test_every_resource_is_of_the_schema(overlay: tuple[Resource, ...]) -> None:
    for resource in overlay:
        kubernetes_validate.validate(resource, VERSION, strict=True)


def test_a_misspelt_field_is_refused() -> None:
    broken = yaml.safe_load(yaml.safe_dump(of(rendered("minimum"), "Deployment")["leap-ranking"]))
    broken["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenesProbe"):
        kubernetes_validate.validate(broken, VERSION, strict=True)


def test_every_pod_runs_with_least_rights_and_bounded_memory(overlay: tuple[Resource, ...]) -> None:
    accounts = of(overlay, "ServiceAccount")
    for name, template in templates(overlay):
        pod = template["spec"]
        assert pod["automountServiceAccountToken"] is False, name
        assert accounts[pod["serviceAccountName"]]["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 1000, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"} and container["resources"]["limits"]
        mounts = {one["mountPath"] for one in container.get("volumeMounts", ())}
        assert mounts in (set(), {"/var/lib/leap", "/tmp"}), "what is written, and temporary files"
    assert not {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"} & {one["kind"] for one in overlay}
    assert dict(templates(overlay))["leap-night"]["spec"]["serviceAccountName"] != "leap-worker"


def test_every_worker_there_is_is_run_and_probed(overlay: tuple[Resource, ...]) -> None:
    known = {command.callback.__name__ for command in workers.registered_commands if command.callback}
    run = {}
    for name, deployment in of(overlay, "Deployment").items():
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        command, worker = container["args"]
        assert (command, name) == ("worker", f"leap-{worker}")
        run[worker] = container
        [port] = container["ports"]
        assert str(port["containerPort"]) == image_environment()["LEAP_METRICS_PORT"]
        probes = {kind: container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
        assert {probe["port"] for probe in probes.values()} == {port["name"]}
        assert [probe["path"] for probe in probes.values()] == ["/livez", "/livez", "/readyz"]
    assert run.keys() in (known, known - {"monitor"})
    pods = {name: template["spec"]["containers"][0]["args"] for name, template in templates(overlay)}
    assert (pods["leap-topics"], pods["leap-night"]) == (["topics", "ensure"], ["retrain"])


def test_the_variables_are_settings_and_reach_every_pod(overlay: tuple[Resource, ...]) -> None:
    [(name, config)] = [(name, one) for name, one in of(overlay, "ConfigMap").items() if name != "leap-alerts"]
    Settings.from_environment(config["data"])
    for name_of_pod, template in templates(overlay):
        assert template["spec"]["enableServiceLinks"] is False, f"Services leap-… would set variables of {name_of_pod}"
        [container] = template["spec"]["containers"]
        assert container["envFrom"] == [
            {"configMapRef": {"name": name}},
            {"secretRef": {"name": "leap", "optional": True}},
        ]


def test_the_network_policy_holds_for_every_pod_and_lets_their_ports_through(overlay: tuple[Resource, ...]) -> None:
    [policy] = of(overlay, "NetworkPolicy").values()
    for name, template in templates(overlay):
        assert matches(policy["spec"]["podSelector"]["matchLabels"], template), name
    out = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    [config] = [one for name, one in of(overlay, "ConfigMap").items() if name != "leap-alerts"]
    addresses = config["data"]["LEAP_KAFKA_BOOTSTRAP_SERVERS"].split(",")
    assert {int(address.rpartition(":")[2]) for address in addresses} | {6379, 443, 53} <= out


def test_selectors_and_volumes_lead_somewhere(overlay: tuple[Resource, ...]) -> None:
    deployments = of(overlay, "Deployment")
    for one in deployments.values():
        assert matches(one["spec"]["selector"]["matchLabels"], one["spec"]["template"])
    for kind in ("PodDisruptionBudget", "Service"):
        for one in of(overlay, kind).values():
            selector = one["spec"]["selector"]
            selector = selector.get("matchLabels", selector)
            assert sum(matches(selector, each["spec"]["template"]) for each in deployments.values()) == 1
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for _, template in templates(overlay)
        for volume in template["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    }
    assert claims == of(overlay, "PersistentVolumeClaim").keys()


def test_autoscaling_follows_the_lag_and_stays_within_the_partitions() -> None:
    production = rendered("production")
    deployments, budgets = of(production, "Deployment"), of(production, "PodDisruptionBudget")
    partitions = min(topic.partitions for topic in load_topics().values() if topic.name.startswith("job-"))
    scaled = of(production, "HorizontalPodAutoscaler")
    assert scaled.keys() == deployments.keys() - {"leap-monitor"} == budgets.keys()
    labels = {metric.name: metric.labels for metric in TABLE}
    for name, scaler in scaled.items():
        spec = scaler["spec"]
        assert spec["scaleTargetRef"]["name"] == name and 2 <= spec["minReplicas"] <= spec["maxReplicas"] <= partitions
        assert "replicas" not in deployments[name]["spec"], "each apply would undo what was scaled"
        [metric] = [one["external"]["metric"] for one in spec["metrics"]]
        assert metric["selector"]["matchLabels"] == {"worker": name.removeprefix("leap-")}
        assert "worker" in labels[metric["name"]]
    adapter = yaml.safe_load((OVERLAYS / "production" / "adapter.yaml").read_text())
    [rule] = adapter["rules"]["external"]
    assert rule["name"]["as"] in labels


def test_the_alerts_come_with_production() -> None:
    alerts = of(rendered("production"), "ConfigMap")["leap-alerts"]
    assert alerts["data"]["alerts.yml"] == (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()
