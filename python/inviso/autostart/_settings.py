"""The plan of a process with the settings of the environment, which replace those of the file."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from inviso._config import from_environment
from inviso.errors import BadArg

from ._file import Plan, Wrong

__all__ = ["effective"]

_OF_PLAN = ("node", "allow", "log_dir", "follow", "wait")


def effective(plan: Plan) -> Plan:
    """The plan with the settings of the environment in place of its own. ``Wrong`` if one is malformed."""
    try:
        found = from_environment()
    except BadArg as wrong:
        raise Wrong(f"{wrong.argument}: {wrong.why}") from None
    changes: dict[str, Any] = {name: found[name].value for name in _OF_PLAN if name in found}
    log_dir = changes.get("log_dir", plan.log_dir)
    changes["log_dir"] = None if log_dir is None else os.path.abspath(log_dir)
    return replace(plan, **changes)
