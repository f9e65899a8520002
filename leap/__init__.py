"""Look before you launch: predicted training throughput per hardware type, as a ranked preference list.

All that a launcher needs. A name is imported when it is first asked for, so ``import leap`` costs nothing;
`Launcher` alone needs an extra, ``streams``.

Examples
--------
Rank in process::

    from leap import JobSubmitted, LaunchConfig, Router, open_store

    router = Router(open_store("s3://models/leap"))
    router.refresh()
    answer = router.rank(JobSubmitted(...))
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leap.predictor.artifacts.open import open_store
    from leap.predictor.routing import schedulers
    from leap.predictor.routing.ranking import Policy
    from leap.predictor.routing.router import Router
    from leap.schemas.errors import LeapError
    from leap.schemas.events import JobAllocated, JobCompleted, JobSubmitted, PreferenceList
    from leap.schemas.hardware import Catalog, Hardware, load_catalog
    from leap.schemas.launch import LaunchConfig, ModelDefinition, ModelTotals, Operator
    from leap.schemas.preference_candidates import ExcludedCandidate, RankedCandidate
    from leap.streams.launcher.launcher import Launcher
    from leap.streams.runtime.settings import Settings

__version__ = "0.1.0"
__all__ = [
    "Catalog",
    "ExcludedCandidate",
    "Hardware",
    "JobAllocated",
    "JobCompleted",
    "JobSubmitted",
    "LaunchConfig",
    "Launcher",
    "LeapError",
    "ModelDefinition",
    "ModelTotals",
    "Operator",
    "Policy",
    "PreferenceList",
    "RankedCandidate",
    "Router",
    "Settings",
    "load_catalog",
    "open_store",
    "schedulers",
]

#: Module to the names that are imported from it, as above.
_IMPORTS = {
    "leap.predictor.artifacts.open": ("open_store",),
    "leap.predictor.routing": ("schedulers",),
    "leap.predictor.routing.ranking": ("Policy",),
    "leap.predictor.routing.router": ("Router",),
    "leap.schemas.errors": ("LeapError",),
    "leap.schemas.events": ("JobAllocated", "JobCompleted", "JobSubmitted", "PreferenceList"),
    "leap.schemas.hardware": ("Catalog", "Hardware", "load_catalog"),
    "leap.schemas.launch": ("LaunchConfig", "ModelDefinition", "ModelTotals", "Operator"),
    "leap.schemas.preference_candidates": ("ExcludedCandidate", "RankedCandidate"),
    "leap.streams.launcher.launcher": ("Launcher",),
    "leap.streams.runtime.settings": ("Settings",),
}
_MODULES = {name: module for module, names in _IMPORTS.items() for name in names}


if not TYPE_CHECKING:  # which would take every name for one that is there

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value: object = getattr(__import__(_MODULES[name], fromlist=[name]), name)  # from module import name
        except ModuleNotFoundError as error:
            if name != "Launcher" or str(error.name).startswith(__name__):
                raise
            from leap.schemas.distribution import install_command

            reason = f"{name} needs the package {error.name}; run: {install_command('streams')}"
            raise ModuleNotFoundError(reason, name=error.name) from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
