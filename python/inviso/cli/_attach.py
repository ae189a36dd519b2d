"""The command ``inviso attach``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from ._options import parsed, refuse

__all__ = ["main", "parser"]


def parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments.

    >>> parser().parse_args(["4711", "--node", "web-{pid}"]).node
    'web-{pid}'
    """
    made = argparse.ArgumentParser(
        prog="inviso attach",
        description="Make running processes traceable from outside: start a listener in each. Python 3.14 and later.",
        epilog="Before Python 3.14: start the program with 'inviso run', or with INVISO_AUTOSTART.",
    )
    made.add_argument("pid", type=int, nargs="+", metavar="PID", help="the number of a process")
    made.add_argument("--node", metavar="NAME", help="the process's name; {pid} and {program} are replaced")
    made.add_argument("--log-dir", metavar="FOLDER", help="the folder of its logs (default: inviso-logs in its own)")
    made.add_argument("--allow", metavar="MODULE", action="append", help="a module whose functions a control may name")
    made.add_argument(
        "--timeout", metavar="SECONDS", type=float, help="how long to wait for its main thread (default: 5)"
    )
    made.add_argument("--detach", action="store_true", help="end the listener and remove all of inviso's data")
    made.add_argument("--json", action="store_true", help="an object a line")
    return made


def main(words: Sequence[str]) -> int:
    """Carries out the command. Returns the exit status: 1 if attaching failed, 2 for a wrong command line."""
    given = parsed(parser(), words)
    if isinstance(given, int):
        return given
    from inviso._attach import CannotAttach, attach, detach
    from inviso._config import effective
    from inviso.errors import BadArg

    try:
        settings = effective(
            {"node": given.node, "log_dir": given.log_dir, "allow": given.allow, "timeout": given.timeout}
        )
        timeout = settings["timeout"].value
    except BadArg as wrong:
        return refuse(" attach", f"{wrong.argument}: {wrong.why}")
    log_dir = settings["log_dir"]
    status = 0
    for pid in given.pid:
        try:
            if given.detach:
                node, what = detach(pid, timeout=timeout), "detached"
            else:
                done = attach(
                    pid,
                    node=settings["node"].value,
                    log_dir=None if log_dir.source == "default" else log_dir.value,
                    allow=settings["allow"].value,
                    timeout=timeout,
                )
                node, what = done.node, "attached" if done.is_new else "already there"
        except CannotAttach as why:
            status = 1
            if given.json:
                print(json.dumps({"pid": pid, "error": type(why).__name__, "why": str(why)}))
            else:
                print(f"inviso attach: {why}", file=sys.stderr)
        except BadArg as wrong:
            return refuse(" attach", f"{wrong.argument}: {wrong.why}")
        else:
            print(json.dumps({"pid": pid, "node": node, "what": what}) if given.json else f"{node}  {what}")
    return status
