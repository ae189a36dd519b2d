"""Shared by tests of sequential tracing: a system tracer, and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import inviso
from inviso import seq_trace
from waiting import until


@contextmanager
def system_tracer() -> Iterator[inviso.Pid]:
    """A process that gets the events. Afterwards there is no token and no tracer."""
    keeper = inviso.spawn(inviso.receive, "over")
    seq_trace.set_system_tracer(keeper)
    yield keeper
    seq_trace.set_token(None)
    seq_trace.reset_trace()
    seq_trace.set_system_tracer(False)
    inviso.send(keeper, "over")
    until(lambda: not keeper.is_alive())


def begin(label: Any) -> None:
    """A token with all flags."""
    seq_trace.set_token("label", label)
    for flag in ("send", "receive", "print"):
        seq_trace.set_token(flag, True)


def label(*_: Any) -> Any:
    """The label of the running process's token; None where that is empty."""
    token = seq_trace.get_token()
    return None if token is None else token[1]
