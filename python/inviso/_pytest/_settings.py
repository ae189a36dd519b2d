"""The settings of a run: options, then settings, then the project's own modules if neither names functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from inviso._config import Setting, effective
from inviso._pattern import ANY, Pattern, covers, parse
from inviso.errors import BadArg

__all__ = ["Settings", "of_run", "own_modules"]

ROWS = 10
"""The default number of rows of a table at the end of a run."""

TESTS = {"test", "testing", "tests"}
NOT_OWN = {"build", "conftest", "dist", "doc", "docs", "examples", "noxfile", "setup", "venv"}
"""Names beside a project's packages that are not its packages."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force for a run."""

    patterns: list[Pattern]
    measures: tuple[str, ...]
    rows: int
    events: int
    returns: bool
    ring_bytes: int
    has_own: bool = False
    """Whether the patterns are the project's own modules, as neither options nor settings name functions."""

    def without(self) -> list[Pattern]:
        """Imported tests among the project's own modules: ``shop.tests``, ``shop.cart.test_order``."""
        if not self.has_own:
            return []
        found = {".".join(parts[:n]) for name in list(sys.modules) if (n := _tests_at(parts := name.split(".")))}
        return [
            (f"{name}.**", ANY, ANY)
            for name in sorted(found)
            if any(covers(p, (name, ANY, ANY)) for p in self.patterns)
        ]


def of_run(config: pytest.Config) -> Settings:
    """The options of a run, with settings as defaults. ``UsageError`` if one is wrong."""
    given = {name: config.getoption(f"inviso_{name}") for name in ("patterns", "events", "returns")}
    try:
        found = effective(given, folder=str(config.rootpath))
        patterns = [p for text in found["patterns"].value for p in parse(text, "pytest, --inviso-pattern")]
    except BadArg as wrong:
        option = {"patterns": "--inviso-pattern", "events": "--inviso-events"}.get(wrong.argument, wrong.argument)
        on_line = given.get(wrong.argument) is not None and "(command line)" in wrong.why
        raise pytest.UsageError(f"inviso: {option if on_line else wrong.argument}: {wrong.why}") from None
    has_own = not patterns
    patterns = patterns or own_modules(config.rootpath)
    if not patterns:
        raise pytest.UsageError(
            f"inviso: there is no package and no module in {config.rootpath}, nor in its folder src; name functions "
            "with --inviso-pattern, or by patterns in [tool.inviso]"
        )
    return Settings(
        patterns=patterns,
        measures=config.getoption("inviso_measures"),
        rows=found["limit"].value or ROWS,
        events=found["events"].value,
        returns=found["returns"].value,
        ring_bytes=_ring(found["events"].value, found["ring_bytes"]),
        has_own=has_own,
    )


def own_modules(root: Path) -> list[Pattern]:
    """The packages and modules in a project's folder, and in its folder ``src``, without tests and build files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("shop.py", "setup.py", "test_shop.py"):
    ...         _ = (Path(folder) / name).write_text("")
    ...     own_modules(Path(folder))
    [('shop', '_', '_')]
    """
    return sorted({pattern for folder in (root, root / "src") for pattern in _modules_in(folder)})


def _modules_in(folder: Path) -> Iterator[Pattern]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        name, ending = os.path.splitext(entry.name)
        if not name.isidentifier() or name in NOT_OWN or _is_test(name):
            continue
        if ending == ".py":
            yield name, "_", "_"
        elif not ending and os.path.isfile(os.path.join(entry.path, "__init__.py")):
            yield f"{name}.**", "_", "_"


def _is_test(name: str) -> bool:
    return name in TESTS or name.startswith("test_") or name.endswith("_test")


def _tests_at(parts: list[str]) -> int:
    """The number of parts of a module's name up to tests, or a conftest, inside a package; 0 if it is not a test.

    >>> _tests_at(["shop", "tests", "test_order"]), _tests_at(["shop", "orders"])
    (2, 0)
    """
    return next((n + 1 for n, part in enumerate(parts) if n and (part == "conftest" or _is_test(part))), 0)


def _ring(events: int, setting: Setting) -> int:
    """Bytes of a thread's ring for so many events. Half a kilobyte is enough for most events."""
    return max(int(setting.value), events * 512) if setting.source == "default" else int(setting.value)
