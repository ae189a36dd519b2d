"""pytest's plugin ``inviso``: its options, its mark and its fixture.

pytest imports this module at every run of every project. Nothing of the package is imported before an option, a mark or the
fixture asks for it. PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

MEASURES = ("calls", "time", "memory")
MARK = (
    "inviso(calls={function: number or range}, max_calls={function: number}, words=most, ms=most): "
    "fail the test where functions are called more or less often, allocate more, or take longer"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options. ``inviso._pytest`` checks their values."""
    group = parser.getgroup("inviso", "inviso: what the functions of the project do")
    group.addoption(
        "--inviso",
        dest="inviso_measures",
        metavar="WHAT",
        type=_measures,
        default=(),
        help="measure calls, time or memory, or several of them with commas: a table at the end, properties of each test in junit",
    )
    group.addoption(
        "--inviso-on-fail",
        action="store_true",
        help="show the last calls of a test that fails, and keep them in a log",
    )
    group.addoption(
        "--inviso-returns",
        action="store_const",
        const=True,
        help="also what they returned and raised, which makes tests slower (default: the setting returns, no)",
    )
    group.addoption(
        "--inviso-events",
        metavar="N",
        type=_number,
        help="how many of these events are shown (default: the setting events, 200)",
    )
    group.addoption(
        "--inviso-pattern",
        dest="inviso_patterns",
        metavar="PATTERN",
        action="append",
        help="these functions: MODULE, MODULE:FUNCTION, MODULE:FUNCTION:ARITY or PACKAGE.**; may be given several times "
        "(default: the setting patterns, else the packages and modules of the project)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark, and begins what the options ask for."""
    config.addinivalue_line("markers", MARK)
    if config.getoption("inviso_measures") or config.getoption("inviso_on_fail"):
        _package(config).begin(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Checks the marks."""
    marked = [item for item in items if item.get_closest_marker("inviso") is not None]
    if marked:
        _package(config).limit(config, marked)


@pytest.fixture
def tracer(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A trace session of the test's own (inviso.trace.Session), which ends with the test."""
    _package(request.config)
    from inviso import trace

    with trace.session_create(f"test {request.node.name}"[:100], None) as session:
        yield session


def _package(config: pytest.Config) -> Any:
    """Imports ``inviso._pytest``. pytest marks all modules of a plugin's distribution for its rewriting of asserts.
    That takes time and changes nothing here.
    """
    getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set()).discard("inviso")
    from inviso import _pytest

    return _pytest


def _measures(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    wrong = [name for name in names if name not in MEASURES]
    if wrong:
        raise argparse.ArgumentTypeError(
            f"{wrong[0]!r} can't be measured; give {', '.join(MEASURES)}, or several with commas"
        )
    return names


def _number(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of events; give a number from 1")
    return int(text)
