"""``leap rank``: one job against the artifact in production."""

import os
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from leap.predictor.cli.completion import versions
from leap.predictor.cli.errors import fail
from leap.predictor.cli.options import STORE, Artifacts, Json, TrustedKeys


class Output(StrEnum):
    """Who is to read a preference list."""

    json = "json"
    list = "list"
    kubernetes = "kubernetes"
    skypilot = "skypilot"
    ray = "ray"


def rank(
    job: Annotated[Path, typer.Argument(help="A JobSubmitted event as JSON.", exists=True, dir_okay=False)],
    artifacts: Artifacts = STORE,
    version: Annotated[
        str | None, typer.Option(help="Rank with this artifact, not the one in production.", autocompletion=versions)
    ] = None,
    trusted_keys: TrustedKeys = "",
    as_json: Json = False,
    output: Annotated[Output | None, typer.Option("--as", help="Output format for a scheduler.")] = None,
    names: Annotated[
        Path | None, typer.Option(help="YAML: hardware type to its name in that scheduler.", exists=True)
    ] = None,
    explained: Annotated[bool, typer.Option("--explain", help="Say in words how every score comes about.")] = False,
) -> None:
    """Rank the hardware types of one job and show every candidate.

    Examples:
      leap rank examples/job.json
      leap rank examples/job.json --as skypilot --names names.yaml
    """
    from leap.predictor.artifacts.open import open_store
    from leap.predictor.cli.ranking import as_table, console, in_format, notes, read_names
    from leap.predictor.cli.terminal import printable
    from leap.predictor.routing.explain import explain
    from leap.predictor.routing.physics import rates_of, work_in_words
    from leap.predictor.routing.ranking import Policy
    from leap.predictor.routing.rollout import premium_efficiency
    from leap.predictor.routing.router import Router
    from leap.schemas import codec
    from leap.schemas.events import THROUGHPUT, JobSubmitted

    try:
        submission = codec.decode(job.read_bytes(), JobSubmitted)
    except codec.Rejected as rejected:
        raise fail(f"{job}: {rejected}. `leap schemas show job-submitted` tells what is expected") from None
    if not submission.candidates:
        raise fail(f"{job}: no candidates; list hardware types under `candidates`, as `leap catalog list` names them")
    if sum((as_json, output is not None, explained)) > 1:
        raise fail("--json, --as and --explain are three ways to answer; name one")
    share = premium_efficiency(os.environ)
    policy = partial(Policy, premium_efficiency=share)
    router = Router(open_store(artifacts, trusted_keys=trusted_keys), policy=policy, version=version)
    router.load()
    if router.artifact is None:
        remedy = "`leap learn` or `leap retrain` makes an artifact"
        raise fail(f"nothing of {THROUGHPUT} is in production under {artifacts}; {remedy}")
    [answer] = router.rank_many([submission])
    if as_json or output is Output.json:
        print(codec.encode(answer).decode())
    elif output:
        print(in_format(output, answer, submission, read_names(names)), end="")
    elif explained:
        print(printable(explain(answer, submission, router.artifact.catalog, None, share)))
    else:
        console.print(as_table(answer, rates_of(answer, submission, router.artifact.catalog)))
        if told := notes(answer, router.artifact.catalog):
            console.print(printable(told))
        console.print(work_in_words(answer, submission))
