"""The report: one file, sound HTML, right numbers."""

import struct
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
import resvg_py

from leap.predictor.artifacts import artifact as artifacts
from leap.predictor.features.batch import HardwareTable
from leap.retrainer.dataset.partitions import Partitions
from leap.retrainer.replay.lines import Line
from leap.retrainer.replay.replay import LINES, STATE, State
from leap.retrainer.report import png
from leap.retrainer.report import svg_charts as svg
from leap.retrainer.report.figures import calibration, figures, first_ranks, long_tail, measured
from leap.retrainer.report.first_choice import SAME, _of_job, choices
from leap.retrainer.report.html_page import page
from leap.retrainer.report.permutation_importance import CATEGORIES, by_category, by_feature, exchange
from leap.retrainer.report.png import pictures
from leap.retrainer.report.subject import COLUMNS, Subject, first_choices, of_night, of_replay
from leap.retrainer.report.tables import tables
from leap.retrainer.report.verdict import verdict
from leap.retrainer.savings.hindsight import hindsight
from leap.schemas.events import THROUGHPUT
from leap.schemas.hardware import Catalog, load_catalog
from tests.artifacts import NIGHT, night_over, past
from tests.commands import invoke

VOID = {"meta", "link", "br", "hr", "img", "input"}


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    root = tmp_path_factory.mktemp("report")
    attempts = past(12)
    night_over(root, attempts, NIGHT)
    store, _ = night_over(root, attempts, NIGHT + timedelta(days=1))
    return of_night(Partitions(root / "partitions"), store, THROUGHPUT, NIGHT + timedelta(days=1))


def by_hand(**columns: Sequence[object]) -> Subject:
    rows = pd.DataFrame(columns)
    constant = {"family": "f", "model_type": "m", "hardware_type": "h"}
    rows = rows.assign(**{name: constant.get(name, np.nan) for name in COLUMNS if name not in columns})
    return Subject("by hand", rows, pd.DataFrame({"model_type": [], "hardware_type": []}))


def written(subject: Subject) -> str:
    return page(subject, list(figures(subject)))


class Checked(HTMLParser):
    """Collects what a reader without eyes or without a network would miss."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.named_by: list[str] = []
        self.links: list[str] = []
        self.elements: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.named_by += [found["aria-labelledby"] or ""] if "aria-labelledby" in found else []
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        assert tag != "svg" or ("role", "img") in attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1


def checked(text: str) -> Checked:
    parser = Checked()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    assert set(parser.named_by) <= set(parser.ids)
    assert all(link == "data:," or link[1:] in parser.ids for link in parser.links)  # nothing from elsewhere
    assert "script" not in parser.elements and "url(" not in text and "@import" not in text
    return parser


def test_the_report_of_a_night(subject: Subject) -> None:
    text = written(subject)
    found = checked(text)
    assert found.elements["figure"] == found.elements["svg"] == found.elements["figcaption"] >= 8
    titles = {figure.title.replace(";", ":").split(":")[0] for figure in figures(subject)}
    assert {"Predicted against measured throughput", "w20 per night", "Importance by category"} <= titles
    captions = [table.caption for table in tables(subject)]
    assert captions[:2] == ["Leap and the lookup table", "Recipes, on the same attempts"]
    assert subject.report is not None and subject.report.artifact in text


def test_its_rows_are_those_that_the_night_judged(subject: Subject) -> None:
    assert subject.report is not None and subject.report.lookup is not None
    beside, recipes, *_ = tables(subject)
    [champion] = [row.all for row in subject.report.recipes if row.recipe == subject.report.champion]
    assert champion is not None
    for row, scores in ((beside.rows[0], champion), (beside.rows[2], subject.report.lookup)):
        assert row[1] == f"{scores.n:,}" and row[2].startswith(f"{scores.w20:.1f} (")
    assert recipes.rows[0][2] == f"{champion.w20:.1f}"


def test_names_from_outside_are_text(subject: Subject) -> None:
    hostile = "<script>alert(1)</script>&\"'"
    rows = subject.rows.assign(family=hostile, model_type=hostile, hardware_type=hostile)
    text = written(replace(subject, rows=rows, first=rows[["model_type", "hardware_type"]]))
    checked(text)
    assert "&lt;script&gt;" in text


def test_what_the_figures_say() -> None:
    made = measured(by_hand(measured=[100.0] * 4, predicted=[100.0, 119.0, 121.0, 79.0]))
    assert made is not None and made.says.startswith("50.0% of 4 attempts")
    made = calibration(
        by_hand(
            measured=[100.0] * 4,
            lower=[90.0, 90.0, 101.0, 50.0],
            upper=[110.0, 99.0, 110.0, 200.0],
            basis=["family history", "family history", "similar jobs", "similar jobs"],
        )
    )
    assert made is not None and made.says.startswith("50.0% lie inside where 80%")
    made = long_tail(by_hand(model_type=["a"] * 6 + ["b"] * 3 + ["c"] * 1, measured=[1.0] * 10))
    assert made is not None and made.says.startswith("1 of 3 model types make half")
    first = pd.DataFrame({"model_type": ["a", "a", "a", "b"], "hardware_type": ["x", "x", "y", "x"]})
    made = first_ranks(replace(by_hand(measured=[1.0]), first=first))
    assert made is not None and made.says.startswith("x is first for 75% of 4 jobs")


def test_a_report_of_little(subject: Subject) -> None:
    assert checked(written(by_hand(measured=[1.0], predicted=[1.0]))).elements["figure"] == 1


def test_a_report_without_any_price(subject: Subject) -> None:
    """Hardware that the catalog does not have is learned of all the same."""
    assert subject.artifact is not None and subject.held_out is not None
    artifact = replace(subject.artifact, catalog=Catalog([]), table=HardwareTable(Catalog([])))
    first = first_choices(artifact, subject.held_out, 1.0)
    assert first.empty
    titles = [figure.title for figure in figures(replace(subject, artifact=artifact, first=first))]
    assert len(titles) == len(list(figures(subject))) - 1 and not any("First ranks" in title for title in titles)


def test_why_a_family_is_predicted_badly() -> None:
    rng = np.random.default_rng(0)
    wild = np.exp(rng.normal(5, 1, 8))
    subject = by_hand(measured=wild.tolist(), predicted=[np.exp(5.0)] * 8, basis=["similar jobs"] * 8)
    [worst] = [table for table in tables(subject) if table.caption.startswith("Families")]
    [(family, count, *_, why)] = worst.rows
    assert (family, count) == ("f", "8")
    assert why.startswith("no history of the family; its own attempts spread")


def test_the_choice_on_a_job_that_ran_on_three_types() -> None:
    # The best is the first; the prediction prefers the second, and puts the third last as it should.
    found = _of_job(np.array([100.0, 90.0, 50.0]), np.array([80.0, 95.0, 40.0]), np.array([1.0, 1.0, 0.9]))
    assert {name: round(value, 3) for name, value in found.items()} == {
        "types": 3, "tau": 0.333, "regret": 10.0, "at_random": 18.148, "cheapest": 44.444,
    }  # fmt: skip


def test_choices_are_of_jobs_that_ran_on_several_types(subject: Subject) -> None:
    found = dict(choices(subject))
    assert set(found) == set(SAME)
    assert subject.held_out is not None
    rows = subject.held_out.table
    several = [
        group["hardware_type"].nunique() > 1
        for _, group in rows.groupby(["family", "num_trainers", "accelerators_per_trainer", "batch_size"])
    ]
    assert found["family and configuration"].jobs == sum(several)
    one = found["family and configuration"]
    assert one.regret < one.at_random and one.tau > 0.9, "the types differ by 4 to 7 times, noise is 3%"


def test_importance_exchanges_inputs_before_features_are_made(subject: Subject) -> None:
    assert subject.held_out is not None and subject.artifact is not None
    pairs = subject.held_out.pairs
    every = [name for names in CATEGORIES.values() for name in names]
    order = np.random.default_rng(0).permutation(len(pairs))
    moved, still = (subject.artifact.features(exchange(pairs, names, order)).matrix for names in (every, ()))
    whole = subject.artifact.features(pairs).matrix
    np.testing.assert_array_equal(still, whole)
    # All but the time of submission has moved, on which only ages depend.
    ages = [name.endswith("age_days") for name in subject.artifact.manifest.features]
    np.testing.assert_array_equal(moved[:, ~np.array(ages)], whole[order][:, ~np.array(ages)])
    assert dict(by_category(subject))["hardware"] > 30, "the hardware type decides by 4 to 7 times"


def test_a_structured_model_is_asked_for_what_it_rests_on(tmp_path: Path) -> None:
    store, report = night_over(tmp_path, past(4, 40), NIGHT - timedelta(days=6), recipe="structured")
    asked = of_night(Partitions(tmp_path / "partitions"), store, THROUGHPUT, NIGHT - timedelta(days=6))
    [champion] = [row.all for row in report.recipes]
    assert champion is not None
    beside, *_ = tables(asked)
    # As judged, although what was published has seen these attempts.
    shares = [cell.partition(" (")[0] for cell in beside.rows[0][2:5]]
    assert shares == [f"{share:.1f}" for share in (champion.w20, champion.w10, champion.w5)]
    published = artifacts.load(store.folder(THROUGHPUT, report.artifact)).model
    assert asked.held_out is not None and asked.artifact is not None
    pairs = asked.held_out.pairs
    seen = published.predict(pairs, asked.artifact.features(pairs).matrix).mean
    assert np.abs(seen - asked.held_out.y).mean() < np.abs(np.log(asked.rows["predicted"]) - asked.held_out.y).mean()
    assert {"hardware type", "num trainers"} <= {name for name, loss in by_feature(asked)[:4] if loss > 10}


def test_figures_as_png(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = list(figures(subject))
    made = dict(pictures(drawn))
    assert len(made) == len(drawn) and {"w20-per-night.png", "calibration-of-the-interval.png"} <= set(made)
    for figure, data in zip(drawn, made.values(), strict=True):
        assert data.startswith(b"\x89PNG")
        assert struct.unpack(">II", data[16:24]) == (2 * svg.WIDTH, round(2 * (figure.drawing.height + png.HEAD)))
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(png.NoRenderer, match="pip install"):
        list(pictures(drawn))
    monkeypatch.undo()
    # As on a machine without fonts: a name that none has would be drawn in another where some fonts are installed.
    monkeypatch.setattr(resvg_py, "svg_to_bytes", partial(resvg_py.svg_to_bytes, skip_system_fonts=True))
    with pytest.raises(png.NoRenderer, match="one of the fonts 'DejaVu Sans'"):
        list(pictures(drawn))


def test_scales() -> None:
    even, log = svg.Scale(0, 10, 100, 200), svg.Scale(1, 10_000, 0, 40, log=True)
    assert (even(5), even(-3), even(99)) == (150, 100, 200)
    assert [round(log(value), 6) for value in (1, 10, 100, 10_000)] == [0, 10, 20, 40]
    assert log.ticks() == [1, 10, 100, 1000, 10_000]
    assert even.ticks() == [0, 2, 4, 6, 8, 10]
    assert svg.Scale(3, 3, 0, 1).ticks()


def test_the_verdict_by_hand() -> None:
    """Ten families on `dear` (2 USD) and `cheap` (1 USD), equally fast but for the last, which is slow on `cheap`."""
    families = [f"f{number}" for number in range(10)]
    rows: dict[str, Sequence[object]] = {
        "family": families * 2,
        "hardware_type": ["dear"] * 10 + ["cheap"] * 10,
        "configuration": ["1 x 8"] * 20,
        "price": [2.0] * 10 + [1.0] * 10,
        "accelerator_hours": [8.0] * 20,
        "measured": [100.0] * 19 + [25.0],
        "predicted": [100.0] * 20,
        "basis": ["similar jobs"] * 20,
    }
    pays, wrong, sure, _, then = verdict(by_hand(**rows))
    # Spent 10 * 16 + 10 * 8 = 240; on `cheap` 19 * 8 + 8 * 100 / 25 - 8 + 8 = 184 (the slow one's own 8 stay 8).
    assert "On the 20 attempts of 10 families" in pays[1] and "23.3%" in pays[1] and "56 USD of 240" in pays[1]
    assert wrong[1].startswith("No hardware type")
    assert sure[1].startswith("95.0% of 20 attempts within 20%")
    assert "leap switch" in then[1] or "leap bootstrap plan" in then[1]
    one_type = {name: column[:10] for name, column in rows.items()}
    assert verdict(by_hand(**one_type))[0][1].startswith("Not known: no job")


@pytest.mark.parametrize(
    ("hours_there", "share", "unsure"), [((1.5, 0.4), 2.5, True), ((1.5, 1.0), -12.5, False), ((0.5, 0.5), 25.0, False)]
)
def test_families_needed_to_be_sure(hours_there: tuple[float, float], share: float, unsure: bool) -> None:
    """Twenty families on `a` and `b`, for an hour each; every other one would take so long on `b`, the first choice."""
    rows = pd.DataFrame(
        {
            "family": [f"f{number}" for number in range(20)] * 2,
            "hardware_type": ["a"] * 20 + ["b"] * 20,
            "configuration": "1 x 1", "price": 1.0, "accelerator_hours": 1.0,
            "measured": [*hours_there * 10, *[1.0] * 20], "predicted": [1.0] * 20 + [2.0] * 20,
        }
    )  # fmt: skip
    found = hindsight(rows)
    assert found is not None and found.share == pytest.approx(share) and found.low <= share <= found.high
    assert ((found.families_needed or 0) > found.families) == unsure


def write_replay(folder: Path) -> None:
    lines = [
        Line(
            f"a-{number}", "f", f"m{number % 3}", float(number), "v", "ranked", first="fast", hardware_type="fast",
            measured=100.0, accelerator_hours=8.0, predicted=100.0 + number, lower=95.0, upper=130.0,
            basis="similar jobs", learned=number < 10,
        )
        for number in range(40)
    ]  # fmt: skip
    lines.append(Line("none", "", "m", 0.0, "v", "switched off"))
    (folder / LINES).write_bytes(msgspec.json.Encoder().encode_lines(lines))
    state = State(what=("", "2026-03-01T00:00", "2026-03-02T00:00", "v"), submissions=41, seconds=1.0, done=True)
    (folder / STATE).write_bytes(msgspec.json.encode(state))


def test_the_report_of_a_replay(tmp_path: Path) -> None:
    write_replay(tmp_path)
    text = written(of_replay(tmp_path, load_catalog()))
    checked(text)
    assert "41 submissions ranked again with v" in text and "switched off" in text
    assert "36.7% of 30 attempts lie between" in text  # 10 to 20 of 10 to 39
    assert "10 of 40 had finished by the end of what the artifact has learned from: only the held out tell" in text
    assert ">36.7 (" in text and ">24.5<" in text and "no prediction: had finished before" in text


@pytest.mark.parametrize("lines", [[], [Line("a", "f", "m", 0.0, "v", "ranked", first="A")]])
def test_the_report_of_a_replay_of_which_nothing_has_finished(tmp_path: Path, lines: list[Line]) -> None:
    write_replay(tmp_path)
    (tmp_path / LINES).write_bytes(msgspec.json.Encoder().encode_lines(lines))
    text = written(of_replay(tmp_path, load_catalog()))
    checked(text)
    assert f"{len(lines)} submissions ranked again with v" in text and "0 of them finished and scored." in text
    assert "None" not in text


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAP_PARTITIONS", str(tmp_path / "partitions"))
    monkeypatch.setenv("LEAP_ARTIFACTS", str(tmp_path / "artifacts"))
    out = tmp_path / "report.html"
    other = invoke("report", str(out), "--target", "memory_gb", "--routed-since", "2026-03-01")
    assert other.exit_code == 1 and "--routed-since compares throughput" in other.stderr
    missing = invoke("report", str(out))
    assert missing.exit_code == 1 and "no night of throughput has a report" in missing.stderr
    night_over(tmp_path, past())
    assert invoke("report", str(out)).exit_code == 0
    checked(out.read_text())
    assert not out.with_suffix("").exists()
    assert invoke("report", str(out), "--png").exit_code == 0
    assert len(list(out.with_suffix("").glob("*.png"))) == out.read_text().count("<svg")
    assert invoke("report", str(out), "--replay", str(tmp_path)).exit_code == 1
