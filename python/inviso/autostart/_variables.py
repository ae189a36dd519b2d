"""Environment variables that a process passes to its children."""

from __future__ import annotations

__all__ = ["ARGUMENT", "PREPARED", "STARTED", "VARIABLE"]

VARIABLE = "INVISO_AUTOSTART"
ARGUMENT = "INVISO_AUTOSTART_ARG"
STARTED = "INVISO_AUTOSTARTED"
"""Set in a process with autostart, for its children: the name of its program, and the value of the variable."""

PREPARED = "inviso:run"
"""The variable's value for children of ``inviso run``, which only listen. The argument has the text of a config file.
"""
