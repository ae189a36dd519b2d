"""Types of arguments, for annotations."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from inviso._native.process import Pid
from inviso.trace_ports import TracePort

Process: TypeAlias = threading.Thread | asyncio.Task[Any]
Mfa: TypeAlias = tuple[str, str, int | Literal["_"]]
Tracer: TypeAlias = Pid | Process | TracePort | Callable[[Any], object] | tuple[Any, Any] | None
Spec: TypeAlias = bool | Literal["restart", "pause"] | list[Any]
