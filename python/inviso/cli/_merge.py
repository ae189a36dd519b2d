"""The command ``inviso merge``: merges the logs of many nodes, with the names of processes."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from inviso.merge import FORMS, Merged, _opened, _told, logs

from ._command import wants_color
from ._guarded import guarded
from ._log import lines, output
from ._options import Options, Usage, number, refuse, say

HELP = """\
usage: inviso merge [options] FOLDER
       inviso merge [options] NODE=LOG ...

Merge the logs of several nodes in the order of their timestamps, and print
them, or write them to a file. In FOLDER, NODE.log is the log of a node, or
NODE.N.log its wrap set, and NODE.ti the names of its processes.

Each record keeps its node. A record without a timestamp, or a drop record,
comes directly after the record that it follows in its log.

options:
  -o, --output OUT       write to OUT, not lines to the terminal. For a log,
                         names are written beside it, to OUT with .ti at its
                         end
  --to FORM              the form of OUT. erlang (default): a log, for dbg too
                         blocks: the same, compressed, for inviso only
                         text: a line for each record
                         inviso: the lines of Erlang's Inviso
  --clock CLOCK          wall: timestamps as they are; aligned: shifted by the
                         measurements of agents (default if there are any);
                         causal: also, no message with a token is received
                         before it was sent
  -n, --limit N          at most N lines
  --color WHEN           auto (default), always or never
  --json                 write the summary as JSON: to standard output with -o,
                         otherwise to standard error
  -h, --help             show this text

The exit status is 0; 1 if a part could not be read or written; 2 for a wrong
command line.

examples:
  inviso merge logs/
  inviso merge logs/ -o all.log && inviso log print all.log
  inviso merge shop@h=shop.log web@h=web.log -o all.txt --to text
"""

KNOWN = Options(
    {"-o": "--output", "-n": "--limit"},
    ("--output", "--to", "--clock", "--limit", "--color"),
    ("--json",),
)


def main(words: list[str]) -> int:
    """Carries out ``inviso merge …``. Returns the exit status.

    >>> from inviso.cli import main
    >>> main(["merge", "--help"])  # doctest: +ELLIPSIS
    usage: inviso merge [options] FOLDER
    ...
    0
    """
    return guarded("merge", lambda: _run(words))


def _run(words: list[str]) -> int:
    options, given = KNOWN.split_files(words)
    if "--help" in options:
        return say(HELP)
    if not given:
        return refuse(" merge", "no log was given; name a folder of logs, or NODE=LOG")
    sources, clock = _sources(given), options.get("--clock")
    limit = number(options.get("--limit"), "--limit", "lines")
    if "--output" not in options:
        if "--to" in options:
            raise Usage("--to: it needs a file; add -o OUT")
        return _print(sources, clock, limit, options)
    form = options.get("--to", "erlang")
    if form not in FORMS:
        raise Usage(f"--to: {form!r} is not a form of a merged log; give {', '.join(FORMS)}")
    for option in ("--limit", "--color"):
        if option in options:
            raise Usage(f"{option}: it is for lines on the terminal; leave out -o")
    done = logs(sources, options["--output"], form, clock=clock)  # type: ignore[arg-type]
    return _say(done, options["--output"], "--json" in options)


def _sources(given: list[str]) -> Any:
    if len(given) == 1 and os.path.isdir(given[0]):
        return given[0]
    sources: dict[str, list[str]] = {}
    for word in given:
        node, equals, path = word.partition("=")
        if not (node and equals and path):
            what = "is not a folder" if len(given) == 1 and not equals else "is not NODE=LOG"
            raise Usage(f"{word!r} {what}; give a folder of logs, or NODE=LOG for each node")
        sources.setdefault(node, []).append(path)
    return sources


def _print(sources: Any, clock: str | None, limit: int | None, options: dict[str, str]) -> int:
    from inviso.merge import _checked

    native, there = _opened(_checked("merge", sources, None, clock, "follow"), "follow", clock, is_named=True)
    status = lines(native, limit, options)
    done = _told(native, there)
    if limit is None or done.damaged:
        _say(done, None, "--json" in options)
    return status


def _say(done: Merged, out: str | None, as_json: bool) -> int:
    """Prints a summary of a merge: a table on a terminal, plain lines in a pipe. Returns the exit status."""
    stream = sys.stderr
    if as_json:  # lines are on the standard output
        print(json.dumps(_as_json(done, out)), file=stream if out is None else output())
        return _status(done)
    width = max([len(node) for node in done.nodes], default=0)
    is_table = stream.isatty()
    strong, plain = ("\x1b[1m", "\x1b[0m") if is_table and wants_color(stream.fileno()) else ("", "")
    for node, of in done.nodes.items():
        name = f"{node:<{width}}" if is_table else node
        counts = f"{of.records:>12,}" if is_table else f"{of.records}"
        more = [f"{number} {what}" for number, what in ((of.lost, "lost"), (of.damaged, "damaged")) if number]
        print(f"{strong}{name}{plain}  {counts} records{''.join(f'  {each}' for each in more)}", file=stream)
    for node, damage in done.damage[:10]:
        print(f"inviso merge: {node}: {damage}", file=stream)
    if done.damaged > 10:
        print(f"inviso merge: and {done.damaged - 10} more that could not be read", file=stream)
    for path, why in done.absent.items():
        print(f"inviso merge: {path}: {why}", file=stream)
    for node, clock in done.clocks.items():
        print(f"inviso merge: {node}: clock shifted by {clock.text()}, to that of {clock.to}", file=stream)
    for node, moved in done.moved.items():
        print(f"inviso merge: {node}: {moved.text()}", file=stream)
    if done.unordered:
        why = "the order of the logs contradicts that of the tokens"
        text = f"{done.unordered} receipts stand before their sendings: {why}"
        print(f"inviso merge: {text}", file=stream)
    if done.other_clock:
        text = f"{done.other_clock} time stamps of another clock than the first were not compared"
        print(f"inviso merge: {text}", file=stream)
    if done.ti_damaged:
        what = "1 entry" if done.ti_damaged == 1 else f"{done.ti_damaged} entries"
        print(f"inviso merge: {what} of .ti files could not be read", file=stream)
    if out is not None:
        names = f", with names in {os.path.splitext(out)[0]}.ti" if done.ti else ""
        nodes = "1 node" if len(done.nodes) == 1 else f"{len(done.nodes)} nodes"
        print(f"inviso merge: {done.records} records of {nodes} to {out}{names}", file=stream)
    return _status(done)


def _status(done: Merged) -> int:
    return 1 if done.damaged or done.absent or done.ti_damaged else 0


def _as_json(done: Merged, out: str | None) -> dict[str, Any]:
    nodes = {node: {"records": of.records, "lost": of.lost, "damaged": of.damaged} for node, of in done.nodes.items()}
    damage = [f"{node}: {damage}" for node, damage in done.damage]
    return {
        "records": done.records, "nodes": nodes, "output": out, "damage": damage, "absent": done.absent,
        "clocks": {node: clock.text() for node, clock in done.clocks.items()},
        "moved": {node: {"receipts": moved.receipts, "most_ns": moved.most} for node, moved in done.moved.items()},
        "unordered": done.unordered, "other_clock": done.other_clock, "ti": done.ti, "ti_damaged": done.ti_damaged,
    }  # fmt: skip


__all__ = ["main"]
