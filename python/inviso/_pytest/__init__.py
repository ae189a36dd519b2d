"""The work of pytest's plugin, for an option or a mark. Pytest itself loads ``_inviso_pytest``."""

from __future__ import annotations

import pytest

from inviso._pattern import Pattern
from inviso.errors import BadArg

__all__ = ["begin", "limit"]


def begin(config: pytest.Config) -> None:
    """Measures the run, or records its failed tests, by the options. ``UsageError`` if an option is wrong."""
    from ._settings import of_run

    is_worker = hasattr(config, "workerinput")
    if not is_worker and config.getoption("dist", "no") != "no":
        from ._merged import Merged  # the tests run in workers of pytest-xdist

        if config.getoption("inviso_measures") and not config.getoption("collectonly"):
            config.pluginmanager.register(Merged(of_run(config)), "inviso-merged")
        return
    settings = of_run(config)
    if config.getoption("collectonly"):
        return
    if settings.measures:
        from ._measured import Measured

        config.pluginmanager.register(Measured(settings), "inviso-measured")
    if config.getoption("inviso_on_fail"):
        from ._recorder import Recorder

        config.pluginmanager.register(Recorder(settings), "inviso-recorder")


def limit(config: pytest.Config, marked: list[pytest.Item]) -> None:
    """Checks the marked tests. ``UsageError`` names each wrong mark.

    A worker of pytest-xdist can't refuse a run; there the tests with wrong marks fail.
    """
    from ._limits import LIMITS, Limits, OfTest, limits_of
    from ._settings import of_run

    found: dict[pytest.Item, OfTest] = {}
    wrong: dict[pytest.Item, str] = {}
    for item in marked:
        try:
            found[item] = item.stash[LIMITS] = limits_of(item)
        except BadArg as error:
            wrong[item] = f"@pytest.mark.inviso, {error.argument}: {error.why}"
    own = [item for item, limits in found.items() if limits.words is not None or limits.ms is not None]
    patterns: list[Pattern] = []
    without: list[Pattern] = []
    if own:
        try:
            settings = of_run(config)
            patterns, without = settings.patterns, settings.without()
        except pytest.UsageError as error:
            wrong |= dict.fromkeys(own, str(error))
    if wrong and not hasattr(config, "workerinput"):
        raise pytest.UsageError(*dict.fromkeys(f"{item.nodeid}: {why}" for item, why in wrong.items()))
    for item, why in wrong.items():
        item.stash[LIMITS] = why
    if not config.pluginmanager.has_plugin("inviso-limits"):
        config.pluginmanager.register(Limits(patterns, without), "inviso-limits")
