"""What a replay found: the scores of each artifact, and where two of them differ."""

from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from leap.predictor.models.accuracy import Accuracy, accuracy
from leap.predictor.routing.provenance import FAMILY_HISTORY
from leap.retrainer.replay.lines import Line
from leap.retrainer.replay.replay import State, read_lines

DIFFERENCES = 20


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact over the range.

    Attributes
    ----------
    submissions
        Attempts submitted, each once.
    outcomes
        Outcome of their lists to how many.
    finished
        Attempts that have a measured throughput: those that are scored.
    all
        Scores on the hardware type that each ran on.
    learned
        How many of the finished attempts had ended when what the artifact has learned from was taken: what it says of
        them is no prediction.
    held_out
        Scores of the others alone, as all that follows.
    known, first_seen
        Scores of families with and without history in the artifact.
    interval
        Share of the measured values, in percent, that lie in the interval.
    on_first
        Share of the attempts, in percent, that ran on the hardware type that is ranked first.
    """

    artifact: str
    submissions: int
    outcomes: dict[str, int]
    finished: int
    all: Accuracy | None
    learned: int
    held_out: Accuracy | None
    known: Accuracy | None
    first_seen: Accuracy | None
    interval: float | None
    on_first: float | None

    @property
    def doubt(self) -> str:
        """What makes `all` say less than it seems to; empty if nothing does."""
        if not self.learned:
            return ""
        return (
            f"{self.learned:,} of {self.finished:,} had finished by the end of what the artifact has learned "
            f"from: {'only the held out tell' if self.held_out else 'this does not tell'} how well it predicts"
        )


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt on which two artifacts differ: first choices, and predictions where it ran, in samples/s.

    Attributes
    ----------
    apart
        Greatest ratio of their predictions over the candidates.
    """

    attempt_id: str
    model_type: str
    apart: float
    first: tuple[str | None, str | None]
    hardware_type: str | None
    predicted: tuple[float | None, float | None]
    measured: float | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A replay in figures.

    Attributes
    ----------
    same_first
        Share of the attempts, in percent, whose first choice is the same; None for one artifact.
    differ_most
        Attempts on which two artifacts differ most.
    per_s
        Submissions a second, with ranking.
    """

    start: str
    end: str
    rejected: int
    sides: list[Side]
    same_first: float | None
    differ_most: list[Difference]
    per_s: float


def read_frame(folder: Path) -> pd.DataFrame:
    """The lines of a replay as a frame; of two lists of one attempt and artifact the last stays."""
    names = Line.__struct_fields__
    lines = pd.DataFrame.from_records((msgspec.structs.astuple(line) for line in read_lines(folder)), columns=names)
    numbers = ["submitted_at", "measured", "accelerator_hours", "predicted", "lower", "upper", "apart"]
    lines[numbers] = lines[numbers].astype(np.float64)
    return lines.drop_duplicates(["attempt_id", "artifact"], keep="last", ignore_index=True)


def summarise(state: State, lines: pd.DataFrame) -> Summary:
    """Sum up the lines of a replay."""
    _, start, end, *artifacts = state.what
    sides = [lines[lines["artifact"] == name].reset_index(drop=True) for name in artifacts]
    two = len(artifacts) == 2
    return Summary(
        start=start,
        end=end,
        rejected=state.rejected,
        sides=[_side(name, rows) for name, rows in zip(artifacts, sides, strict=True)],
        same_first=_percent(_same_first(*sides)) if two else None,
        differ_most=_differ_most(*sides) if two else [],
        per_s=round(state.submissions / max(state.seconds, 1e-9), 1),
    )


def _side(artifact: str, rows: pd.DataFrame) -> Side:
    done = rows[rows["measured"].notna()]
    held_out = done[~done["learned"].eq(True)]
    known = held_out["basis"] == FAMILY_HISTORY
    bounded = held_out[held_out["lower"].notna()]
    return Side(
        artifact=artifact,
        submissions=len(rows),
        outcomes=dict(Counter(rows["outcome"])),
        finished=len(done),
        all=_scores(done),
        learned=len(done) - len(held_out),
        held_out=_scores(held_out),
        known=_scores(held_out[known]),
        first_seen=_scores(held_out[~known & held_out["basis"].notna()]),
        interval=_percent(bounded["measured"].between(bounded["lower"], bounded["upper"])),
        on_first=_percent(held_out["hardware_type"] == held_out["first"]),
    )


def _scores(rows: pd.DataFrame) -> Accuracy | None:
    return accuracy(rows["predicted"].to_numpy(), rows["measured"].to_numpy())


def _percent(flags: "pd.Series[bool]") -> float | None:
    return round(100.0 * float(flags.mean()), 1) if len(flags) else None


def _same_first(left: pd.DataFrame, right: pd.DataFrame) -> "pd.Series[bool]":
    return left["first"].fillna("") == right["first"].fillna("")


def _differ_most(left: pd.DataFrame, right: pd.DataFrame) -> list[Difference]:
    most = right["apart"].nlargest(DIFFERENCES).index
    return [
        Difference(
            attempt_id=there["attempt_id"],
            model_type=there["model_type"],
            apart=round(float(np.exp(there["apart"])), 3),
            first=(_text(here["first"]), _text(there["first"])),
            hardware_type=_text(there["hardware_type"]),
            predicted=(_number(here["predicted"]), _number(there["predicted"])),
            measured=_number(there["measured"]),
        )
        for (_, here), (_, there) in zip(left.loc[most].iterrows(), right.loc[most].iterrows(), strict=True)
    ]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
