"""Variables of the environment that a process hands to its children."""

from __future__ import annotations

__all__ = ["ARGUMENT", "PREPARED", "STARTED", "VARIABLE"]

VARIABLE = "INVISO_AUTOSTART"
ARGUMENT = "INVISO_AUTOSTART_ARG"
STARTED = "INVISO_AUTOSTARTED"
"""Set in a process that was started: the name of its program, and the value of the variable. Its children find it."""

PREPARED = "inviso:run"
"""The variable's value for children of ``inviso run``: they listen, and do no more. The argument is a config file's text."""
