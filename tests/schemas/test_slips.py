"""A name that looks like a known one is said with the right one, wherever names come in; none is an error by that."""

import logging
from pathlib import Path

import msgspec
import pytest

from leap.predictor.artifacts.local_store import LocalStore
from leap.predictor.routing.router import Router
from leap.schemas.backfill.mapping import MappingError, load_mapping
from leap.schemas.codec import decode, encode
from leap.schemas.events import JobSubmitted
from leap.schemas.hardware import CatalogError, load_catalog
from leap.schemas.names import slips
from leap.streams.runtime.settings import Settings
from tests.builders import submission
from tests.commands import invoke
from tests.services import ROOT

SLIPS = {"num_trainer": "num_trainers", "batchsize": "batch_size", "numTrainers": "num_trainers"}


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slips, "_asked", set())


def fields(**config: object) -> dict[str, object]:
    made = msgspec.json.decode(encode(submission()))
    made["config"] |= config
    return {**made, "of_a_newer_launcher": 1}


@pytest.mark.parametrize(("slip", "right"), SLIPS.items())
def test_an_unknown_field_of_an_event_is_kept_and_said_once(
    slip: str, right: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        job = decode(msgspec.json.encode(fields(**{slip: 2})), JobSubmitted)
        assert (job.config.unknown, job.unknown) == ({slip: 2}, {"of_a_newer_launcher": 1})
    Router(LocalStore(tmp_path), deadline=None).rank(fields(**{slip: 2}))
    assert caplog.messages == [f"LaunchConfig: `{slip}` is not known, and is ignored; is `{right}` meant?"]


def test_a_stranger_cannot_make_it_long(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slips, "MAX_NAMES", 20)
    for n in range(40):
        sent = {f"num_trainers{n}{k}": 1 for k in range(9)} | {"num_trainers" * 99: 1, "num_trainer\n": 1}
        decode(msgspec.json.encode(fields(**sent)), JobSubmitted)
    assert 0 < len(caplog.messages) <= 20
    assert not any("\n" in message for message in caplog.messages)


def test_variables(caplog: pytest.LogCaptureFixture) -> None:
    Settings.from_environment({"LEAP_ARTIFCATS": "x", "LEAP_CATALOGUE": "x", "LEAP_JOBLIB_BACKEND": "loky"})
    Settings.from_environment({"LEAP_ARTIFCATS": "x"})
    assert [message.rpartition("; ")[2] for message in caplog.messages] == [
        "is `LEAP_ARTIFACTS` meant?",
        "is `LEAP_CATALOG` meant?",
    ]


def test_a_command_says_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = tmp_path / "job.json"
    job.write_bytes(msgspec.json.encode(fields(batchsize=8)))
    with caplog.at_level(logging.WARNING):
        invoke("rank", str(job), "--artifacts", str(tmp_path), env={"LEAP_ARTIFCATS": "x"})
    assert ["batch_size" in caplog.text, "LEAP_ARTIFACTS" in caplog.text] == [True, True]


@pytest.mark.parametrize(
    ("change", "meant"),
    [
        (("submitted_at:", "submited_at:"), "is `submitted_at` meant"),
        (("num_trainers:", "num_trainer: 1\n  num_trainers:"), "is `num_trainers` meant"),
        (("{column: state,", "{colum: state,"), "is `column` meant"),
    ],
)
def test_keys_of_a_mapping(change: tuple[str, str], meant: str, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.yaml"
    text = (ROOT / "examples/jobs.yaml").read_text()
    assert change[0] in text
    mapping.write_text(text.replace(*change))
    with pytest.raises(MappingError, match=meant):
        load_mapping(mapping)


def test_keys_of_an_own_catalog(tmp_path: Path) -> None:
    own = tmp_path / "catalog.yaml"
    own.write_text("- {name: X1, vendor: V, memory_gbs: 80}")
    with pytest.raises(CatalogError, match=r"unknown field `memory_gbs`.*is `memory_gb` meant"):
        load_catalog(own)
