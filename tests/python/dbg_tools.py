"""Functions that tests of dbg trace if any function is suitable."""

from __future__ import annotations

from typing import Any

HERE = __name__


def leaf(x: Any) -> Any:
    return x
