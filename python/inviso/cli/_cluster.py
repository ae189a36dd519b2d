"""The commands that trace prepared processes from outside: ``inviso nodes``, ``status``, ``start``, ``stop``, ``tp``,
``tf``, ``fetch``.

Each command is a control component for its own duration: it adds or adopts the nodes, acts, and releases them. The
limits of ``start`` stay in force in the nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from inviso._config import effective
from inviso._descriptor import as_many_as_may
from inviso.cluster import Answers, Cluster
from inviso.cluster._answers import laid_out
from inviso.cluster._cluster import SECONDS
from inviso.control._control import is_meant
from inviso.errors import BadArg
from inviso.runtime._component import FLAGS

from ._command import wants_color
from ._options import parsed

__all__ = [
    "COMMANDS",
    "TAG",
    "carried_out",
    "lines",
    "main",
    "number",
    "parser",
    "seconds",
    "show",
    "until_interrupted",
]

TAG = "cli"
SPARE = 5.0
"""Seconds after ``--for``: then a node stops by itself if it got no command to stop."""

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def main(words: list[str]) -> int:
    """Carries out one of the commands. Returns the exit status: 0; 1 if a node failed or was suspended, or none was
    found; 2 for a wrong command line.

    >>> main(["nodes", "no-such-node"])
    1
    """
    given = parsed(parser(), words)
    return given if isinstance(given, int) else carried_out(given.command, given, COMMANDS[given.command])


def carried_out(name: str, given: Any, command: Callable[[Any], int]) -> int:
    """Runs a parsed command with the settings, and prints errors. Returns the exit status.

    >>> given = parser().parse_args(["nodes"])
    >>> carried_out("nodes", given, lambda given: int(given.timeout))
    5
    """
    as_many_as_may()
    try:
        settings = effective({"timeout": given.timeout})
        given.timeout = settings["timeout"].value
        if settings["dir"].value is not None:
            os.environ["INVISO_DIR"] = settings["dir"].value
        if settings["agent"].value is not None:
            os.environ["INVISO_AGENT"] = settings["agent"].value
        status = command(given)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BadArg as wrong:
        print(f"inviso {name}: {wrong.argument}: {wrong.why}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # the reader has gone; the interpreter must not fail at its end, either
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        print(f"inviso {name}: {error.filename or 'the folder of sockets'}: {error.strerror}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The parser of the command lines.

    >>> parser().parse_args(["start", "shop-*", "-p", "shop.**", "--for", "5s"]).seconds
    5.0
    """
    top = argparse.ArgumentParser(prog="inviso", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, about: str, nodes: str = "*") -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        made.add_argument("nodes", nargs=nodes, metavar="NODE", help="a name, or a pattern with * and ? (in quotes)")
        made.add_argument("--json", action="store_true", help="write JSON")
        made.add_argument("--timeout", type=seconds, metavar="TIME", help="how long a node may take (5s)")
        return made

    command("nodes", "List the processes of this host that can be traced from outside.")
    command("status", "Show the state of nodes, and what they have traced.")
    start = command("start", "Trace nodes: for a time, or until 'inviso stop'.", "+")
    start.add_argument(
        "-p",
        "--pattern",
        action="append",
        default=[],
        metavar="PATTERN",
        help="functions whose calls are traced: MODULE, MODULE:FUNCTION, PACKAGE.**; may be given several times",
    )
    start.add_argument("--messages", action="store_true", help="the messages of threads and tasks, too")
    start.add_argument("--tokens", action="store_true", help="the events of sequential tracing, too")
    start.add_argument("--returns", action="store_true", help="results and exceptions of functions, too")
    start.add_argument("--args", action="store_true", help="the arguments of calls; they can hold secrets")
    start.add_argument(
        "--processes", default="all", metavar="WHICH", help="all (default), existing, new, or a registered name"
    )
    start.add_argument(
        "--for",
        dest="seconds",
        type=seconds,
        metavar="TIME",
        help="trace for this time, then stop and fetch the logs: 5s, 500ms, 2m",
    )
    start.add_argument("--limit", type=number, metavar="N", help="stop a node after so many records")
    start.add_argument("--rate", type=number, metavar="N", help="stop a node that has more records in a second")
    start.add_argument("-o", "--output", metavar="FOLDER", help="copy the logs there")
    stop = command("stop", "Stop tracing nodes, and remove everything from them except the listener.", "+")
    stop.add_argument("-o", "--output", metavar="FOLDER", help="copy the logs there")
    fetch = command("fetch", "Copy the logs of nodes that don't trace any more.", "+")
    fetch.add_argument("-o", "--output", metavar="FOLDER", required=True, help="the folder")
    tp = command("tp", "Trace the calls of more functions in nodes that trace.", "+")
    tp.add_argument("-p", "--pattern", action="append", required=True, metavar="PATTERN", help="as of 'inviso start'")
    tp.add_argument("--clear", action="store_true", help="stop tracing them")
    tf = command("tf", "Set trace flags of processes in nodes that trace.", "+")
    tf.add_argument(
        "--process", default="all", metavar="WHICH", help="all (default), existing, new, or a registered name"
    )
    tf.add_argument(
        "--flag",
        action="append",
        required=True,
        choices=FLAGS,
        metavar="FLAG",
        help=f"one of {', '.join(FLAGS)}; may be given several times",
    )
    tf.add_argument("--clear", action="store_true", help="clear them")
    return top


def seconds(text: str) -> float:
    """Reads a time of a command line.

    >>> seconds("500ms"), seconds("2m")
    (0.5, 120.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; give one such as 5s, 500ms or 2m")
    return float(found[1]) * UNITS[found[2]]


def number(text: str) -> int:
    """Reads a number from 1 of a command line.

    >>> number("12")
    12
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; give one from 1")
    return int(text)


def _nodes(given: Any) -> int:
    with _Open(given, adds=False) as cluster:
        rows = {}
        for each in cluster.found():
            control = each.about["control"]
            rows[each.node] = {
                "pid": str(each.pid),
                "state": "-" if each.about["state"] is None else str(each.about["state"][0]),
                "control": "-" if control is None else f"{control[0]} ({control[1]})",
                "program": each.about["program"],
            }
        return show(given, Answers(rows, cluster.silent))


def _status(given: Any) -> int:
    with _Open(given, adds=False) as cluster:
        return show(given, cluster.status())


def _start(given: Any) -> int:
    # a node stops by itself only if this command can't stop it
    seconds = SECONDS if given.seconds is None else given.seconds + SPARE
    if given.seconds is None:
        with _Open(given) as cluster:
            begun = _begin(given, cluster, seconds)
            cluster.leave()
            rows = {
                node: {"functions": found, "ends": f"after {seconds:g} s, or by 'inviso stop'"}
                for node, found in begun.items()
            }
            return show(given, Answers(rows, begun.errors))
    with until_interrupted() as over, _Open(given) as cluster:
        begun = _begin(given, cluster, seconds)
        if begun.errors:  # these nodes may trace for another control
            cluster.leave(*begun.errors)
        since = time.monotonic()
        _wait(cluster, over, given.seconds)
        took = time.monotonic() - since
        with _copying(cluster):
            stopped = cluster.stop()
        rows = {node: {"traced": f"{took:.1f} s", **each} for node, each in stopped.items() if node in begun}
        cluster.close()
        return show(given, Answers(rows, {**stopped.errors, **begun.errors}))


def _begin(given: Any, cluster: Cluster, seconds: float) -> Answers:
    """Begins tracing. The errors include those of nodes that could not be added."""
    begun = cluster.trace(
        *given.pattern, messages=given.messages, tokens=given.tokens, returns=given.returns, arguments=given.args,
        processes=given.processes, seconds=seconds, folder=given.output, limit=given.limit, rate=given.rate,
    )  # fmt: skip
    _report_unmatched(given, begun)
    return Answers(begun, {**begun.errors, **cluster.refused.errors})


def _report_unmatched(given: Any, begun: Answers) -> None:
    """Reports nodes that have no function that matches: they trace no calls until one is loaded."""
    names = [node for node, found in begun.items() if given.pattern and not found]
    if names:
        what = " ".join(given.pattern)
        print(f"inviso start: {what}: matches no function of {', '.join(names)} that is loaded now", file=sys.stderr)


def _wait(cluster: Cluster, over: threading.Event, seconds: float) -> None:
    """Waits until the time is over, no node is left, or the command has to end."""

    def heard(event: Any) -> None:
        if event[3][0] == "disconnected" and not cluster.nodes:
            over.set()

    cluster.events(heard)
    over.wait(seconds if cluster.nodes else 0)


@contextmanager
def until_interrupted() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, once or several times, so that the command ends in an orderly way."""
    over = threading.Event()
    before = {number: signal.signal(number, lambda *_: over.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(given: Any) -> int:
    with _Open(given) as cluster:
        with _copying(cluster):
            answers = cluster.stop(given.output)
        rows = {
            node: {name: value for name, value in each.items() if name != "log" or given.output}
            for node, each in answers.items()
        }
        cluster.close()
        return show(given, Answers(rows, {**answers.errors, **cluster.refused.errors}))


def _fetch(given: Any) -> int:
    with _Open(given) as cluster:
        with _copying(cluster):
            answers = cluster.fetch(given.output)
        cluster.leave()
        refused = {node: error for node, error in cluster.refused.errors.items() if node not in answers}
        return show(given, Answers(answers, {**answers.errors, **refused}))


def _tp(given: Any) -> int:
    return _each(given, lambda cluster: cluster.patterns(*given.pattern, clear=given.clear))


def _tf(given: Any) -> int:
    return _each(given, lambda cluster: cluster.flags(*given.flag, processes=given.process, clear=given.clear))


def _each(given: Any, work: Callable[[Cluster], Answers]) -> int:
    with _Open(given) as cluster:
        answers = work(cluster)
        cluster.leave()
        return show(given, Answers(answers, {**answers.errors, **cluster.refused.errors}))


class _Open:
    """A cluster that releases its nodes at the end, also after an error."""

    def __init__(self, given: Any, *, adds: bool = True) -> None:
        self._cluster = Cluster(*given.nodes, timeout=given.timeout, tag=TAG)
        self._adds = adds

    def __enter__(self) -> Cluster:
        if self._adds:
            self._cluster.add()
        return self._cluster

    def __exit__(self, *_: object) -> None:
        self._cluster.leave()
        self._cluster.close()


@contextmanager
def _copying(cluster: Cluster) -> Iterator[None]:
    """Shows on a terminal how much of the logs is copied, on one line, which is erased at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    copied, said, lock = 0, 0.0, threading.Lock()

    def more(count: int) -> None:
        nonlocal copied, said
        with lock:
            copied += count
            if (now := time.monotonic()) - said >= 0.2:
                said = now
                print(f"\r{copied / 1e6:,.1f} MB copied\x1b[K", end="", file=sys.stderr, flush=True)

    cluster.on_copied = more
    try:
        yield
    finally:
        if said:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def show(given: Any, answers: Answers) -> int:
    """Prints a table, or lines for another program, or JSON. The status is 1 also if no node has one of the names."""
    known = [*answers, *answers.errors]
    absent = [name for name in given.nodes if not any(is_meant(node, name) for node in known)]
    if absent or not known:
        what = " ".join(absent) or "any process"
        print(
            f"inviso {given.command}: {what}: nobody of that name listens; start programs by 'inviso run'",
            file=sys.stderr,
        )
    if not known:
        return 1
    if given.json:
        rows = {node: each for node, each in answers.items()}
        errors = {node: str(error) for node, error in answers.errors.items()}
        print(json.dumps({"nodes": rows, "errors": errors}, indent=1, default=str))
    else:
        lines(*answers.table(), answers.table(plain=True)[1])
    return 1 if answers.errors or absent or any(_is_suspended(each) for each in answers.values()) else 0


def lines(names: list[str], cells: list[list[str]], plain: list[list[str]]) -> None:
    """Prints a table with its head on a terminal; otherwise rows with tabs."""
    if sys.stdout is not None and sys.stdout.isatty():
        head, *others = laid_out([names, *cells])
        print(f"\x1b[1m{head}\x1b[0m" if wants_color(1) else head)
        print("\n".join(others))
    else:
        for row in plain:
            print("\t".join(row))


def _is_suspended(result: Any) -> bool:
    """Whether a stopped node had been suspended, and so has traced less than requested."""
    return isinstance(result, dict) and str(result.get("ended") or "").startswith("suspended: ")


COMMANDS: dict[str, Callable[[Any], int]] = {
    "nodes": _nodes,
    "status": _status,
    "start": _start,
    "stop": _stop,
    "fetch": _fetch,
    "tp": _tp,
    "tf": _tf,
}
