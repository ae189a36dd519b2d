"""Ends commands that read logs: an error becomes one line and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from inviso import _native
from inviso.errors import BadArg

from ._options import Usage, refuse

__all__ = ["guarded"]


def guarded(command: str, run: Callable[[], int]) -> int:
    """Runs a command and returns its exit status. An error is printed as one line. Pids of the first node are shown as
    `<0.…>`.
    """
    _native.process.show_first_as_here(True)
    try:
        return run()
    except Usage as wrong:
        return refuse(f" {command}", str(wrong))
    except BadArg as wrong:
        return refuse(f" {command}", wrong.why)
    except ImportError as missing:  # a package for some forms is not installed, or can't be loaded
        why = str(missing).splitlines() or ["a package can not be imported"]
        print(f"inviso {command}: {why[0]}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # the reader has gone; the interpreter must not fail at its end, either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as wrong:
        print(f"inviso {command}: {_text(wrong)}", file=sys.stderr)
        return 1
    finally:
        _native.process.show_first_as_here(False)


def _text(wrong: OSError) -> str:
    if wrong.filename is None:
        return str(wrong)
    return f"{os.fsdecode(wrong.filename)}: {wrong.strerror}"
