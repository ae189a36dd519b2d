"""Fixtures of all tests, and the option that runs the slow ones."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import dbg, trace
from inviso_tools import Place, at_most
from node_tools import Node, started

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts its background jobs in this way, and the tests' programs would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also the tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="takes minutes; --slow runs it"))


@pytest.fixture(autouse=True, scope="module")
def empty_mailbox_of_earlier_files() -> None:
    empty_mailbox()


def empty_mailbox() -> None:
    """Takes messages that earlier tests have left to the caller, such as answers of `delivered`."""
    while inviso.peek():
        inviso.receive(timeout=0)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    """Two prepared processes, in a folder that is the working directory."""
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    monkeypatch.chdir(tmp_path)
    with started(tmp_path, "shop-1", "shop-2") as found:
        yield found


@pytest.fixture
def make() -> Iterator[Callable[..., trace.Session]]:
    """Makes sessions and ends them after the test; before and afterwards the caller's mailbox is empty."""
    made: list[trace.Session] = []
    empty_mailbox()

    def create(name: str = "test", tracer: Any = None, **opts: Any) -> trace.Session:
        made.append(trace.session_create(name, tracer, opts))
        return made[-1]

    yield create
    for session in made:
        session.destroy()
    empty_mailbox()


@pytest.fixture
def session(make: Callable[..., trace.Session]) -> trace.Session:
    """A session that is its own tracer."""
    return make()


@pytest.fixture
def dbg_over() -> Iterator[None]:
    """dbg ends after the test, and leaves no session."""
    before = trace.session_info("all")
    yield
    dbg.stop()
    assert trace.session_info("all") == before


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A folder for prepared processes. This process finds their sockets. They end with the test, after 3 minutes at
    most.
    """
    made = Place(tmp_path)
    monkeypatch.setenv("INVISO_DIR", str(made.sockets))
    monkeypatch.chdir(tmp_path)
    try:
        with at_most(180):
            yield made
    finally:
        made.end()
