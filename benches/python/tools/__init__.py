"""The tools that are switched on and off around the subjects: inviso, the limits, and those of others.

A tool is one object in one worker process. It is started and stopped many times; After each time ``check`` tests
whether it saw all events.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from ..subjects import Census, Mfa, Subject, mfa_of


class Missing(Exception):
    """The tool can't run here; the message says what is missing and how to get it."""


class Wrong(Exception):
    """A tool saw other events than those that happened."""


@dataclass(frozen=True)
class Happened:
    """The events that a tool should see between its start and its stop: the small run, then ``runs`` whole ones."""

    subject: Subject
    small: Census
    whole: Census
    runs: int

    @property
    def calls(self) -> int:
        """Events of Python calls, resumes included."""
        return self.small.calls + self.runs * self.whole.calls

    @property
    def hot(self) -> int:
        """Calls of the hot function."""
        return self.exact[mfa_of(self.subject.hot)]

    @property
    def exact(self) -> dict[Mfa, int]:
        """Calls of each function that can be told exactly."""
        small, whole = self.small.exact, self.whole.exact
        return {mfa: small[mfa] + self.runs * whole[mfa] for mfa in small.keys() & whole.keys()}


@dataclass
class Tool:
    """A tool; the base does nothing, which is the row ``none``.

    Attributes:
        name: its name in commands and tables.
        about: a short description.
        subjects: the subjects that it fits; empty for all.
        one: whether it traces the hot function only.
        versus: the tools that it is compared with.
        told: more facts about the last run, such as lost messages.
    """

    name: str = "none"
    about: str = "nothing against nothing: the run's own error"
    subjects: tuple[str, ...] = ()
    one: bool = False
    versus: tuple[str, ...] = ()
    told: dict[str, Any] = field(default_factory=dict)

    def ready(self, subject: Subject) -> None:
        """Raises Missing if the tool can't run."""

    def start(self, subject: Subject) -> None:
        """Switches it on."""

    def stop(self, subject: Subject) -> None:
        """Switches it off, and keeps what ``check`` needs."""

    def check(self, happened: Happened) -> None:
        """Raises Wrong unless it saw all events."""


def want(what: str, seen: object, wanted: object) -> None:
    """Raises Wrong unless the two are equal."""
    if seen != wanted:
        raise Wrong(f"{what}: {wanted} happened, {seen} seen")


def every() -> dict[str, Tool]:
    """All tools by name, in the order of the tables."""
    tools: list[Tool] = [Tool()]
    for module in ("ours", "bounds", "peers"):
        tools += importlib.import_module(f".{module}", __name__).tools()
    return {tool.name: tool for tool in tools}
