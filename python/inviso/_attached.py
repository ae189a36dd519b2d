"""The part of attaching that runs in the attached process: in its main thread, between two instructions."""

from __future__ import annotations

import json
import os

__all__ = ["begin"]


def begin(pipe: str, node: str | None, log_dir: str | None, allow: list[str]) -> None:
    """Starts a listener and answers through the pipe. If the pipe has no reader, a new listener is stopped again."""
    try:
        number = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # the attempt was withdrawn
    try:
        from inviso import runtime

        is_new = runtime.listening() is None
        try:
            listener = runtime.listen(node, log_dir=log_dir or "inviso-logs", allow=tuple(allow))
            answer = {"node": listener.node}
        except Exception as error:
            is_new, answer = False, {"error": f"{type(error).__name__}: {error}"}
        try:
            os.write(number, json.dumps(answer).encode() + b"\n")
        except OSError:
            if is_new:
                runtime.stop_listening()
    finally:
        os.close(number)
