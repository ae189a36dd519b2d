"""The command ``inviso log``: print, convert, merge and count logs."""

from __future__ import annotations

import errno
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from inviso import _native
from inviso._stream import put
from inviso.logs._files import beside
from inviso.logs._read import FORMS, PAUSE, Named, Reader, Written, convert, named
from inviso.logs._stats import Stats, stats
from inviso.logs._text import function, moment

from ._guarded import guarded
from ._options import Options, Usage, number, refuse, say

HELP = """\
usage: inviso log COMMAND [options] FILE ...

Read trace logs, of this package or of a real Erlang node: files as trace
ports write them, wrap sets, and the compressed form (blocks).

commands:
  print        show the messages, a line each
  convert      write a log in another form
  merge        merge several logs in the order of their timestamps
  stats        count the messages of a log

options:
  -w, --wrap SUFFIX      each FILE is the name of a wrap set, whose files are
                         called FILE, a number, and SUFFIX
  -h, --help             show this text, or that of a command

Several FILEs are read one after the other. Parts that can't be read are
reported with their places. The exit status is 0; 1 if a part could not be read
or written; 2 for a wrong command line.
"""

PRINT_HELP = """\
usage: inviso log print [options] FILE ...

Show the messages of logs, a line each, with damage and losses at their places.
With a file FILE.ti beside the log FILE.log, processes are shown with names.

options:
  -f, --follow           wait for further messages, until Ctrl-C
  -n, --limit N          at most N lines
  --color WHEN           auto (default: on a terminal, unless NO_COLOR is
                         set), always or never
  -w, --wrap SUFFIX      FILE is the name of a wrap set
  -h, --help             show this text

examples:
  inviso log print trace.log
  inviso log print --follow --wrap .log traces/node
"""

CONVERT_HELP = """\
usage: inviso log convert --to FORM -o OUT [options] FILE ...

Write logs, one after the other, in another form.

options:
  --to FORM              erlang: as trace ports write it, for dbg too
                         blocks: compressed, for inviso only
                         or a format of inviso.export: perfetto, chrome,
                         speedscope, collapsed, pstats, parquet ...
  -o, --output OUT       the file; an existing one is replaced
  -w, --wrap SUFFIX      FILE is the name of a wrap set
  -h, --help             show this text

examples:
  inviso log convert --to erlang -o trace.erl trace.blocks
  inviso log convert --to perfetto -o trace.pftrace trace.log
"""

MERGE_HELP = """\
usage: inviso log merge [options] FILE ...

Merge several logs in the order of their timestamps, and print them, or write
them to a file.

The order within a log stays. A message without a timestamp, or a drop record,
comes directly after the message that it follows in its log. Timestamps of
another clock than the first one's are ignored. Monotonic times of different
machines can't be compared.

options:
  -o, --output OUT       write a log to OUT, not lines
  --to FORM              its form: erlang (default) or blocks
  -n, --limit N          at most N lines
  --color WHEN           auto (default), always or never
  -w, --wrap SUFFIX      each FILE is the name of a wrap set
  -h, --help             show this text

examples:
  inviso log merge node1.log node2.log
  inviso log merge -o both.log node1.log node2.log
"""

STATS_HELP = """\
usage: inviso log stats [options] FILE ...

Count messages by tag, calls by function, messages by process; show the time
that they span, losses, damage, and bytes.

options:
  -n, --limit N          at most N functions and N processes (default: 10)
  --json                 write all counts as JSON
  -w, --wrap SUFFIX      FILE is the name of a wrap set
  -h, --help             show this text
"""


MOST = 1 << 62
"""The number of lines without ``--limit``."""


def main(words: list[str]) -> int:
    """Carries out ``inviso log …``. Returns the exit status.

    >>> from inviso.cli import main
    >>> main(["log", "--help"])  # doctest: +ELLIPSIS
    usage: inviso log COMMAND [options] FILE ...
    ...
    0
    """
    command, rest = (words[0], words[1:]) if words else ("", [])
    if command in ("-h", "--help", "help"):
        return say(HELP)
    if command not in COMMANDS:
        if not command:
            return refuse(" log", "no command was given")
        kind = "option" if command.startswith("-") else "command"
        return refuse(" log", f"unknown {kind} {command!r}; the commands are {', '.join(COMMANDS)}")
    run, text, known = COMMANDS[command]

    def carried_out() -> int:
        options, files = known.split_files(rest)
        if "--help" in options:
            return say(text)
        if not files:
            raise Usage("no log was given; name a file")
        suffix = options.get("--wrap")
        return run(files if suffix is None else [(name, "wrap", suffix) for name in files], options)

    return guarded(f"log {command}", carried_out)


def _print(source: Any, options: dict[str, str]) -> int:
    limit, follow = number(options.get("--limit"), "--limit", "lines"), "--follow" in options
    logs = named("print", "source", source, follow)
    return lines(_native.log.LogMerge(_alone(logs), False, follow, "follow", False, *Reader._made), limit, options)


def _merge(source: Any, options: dict[str, str]) -> int:
    if "--output" not in options:
        if "--to" in options:
            raise Usage("--to: it needs a file; add -o OUT")
        limit = number(options.get("--limit"), "--limit", "lines")
        logs = _alone(named("merge", "source", source))
        native = _native.log.LogMerge(logs, True, False, "follow", False, *Reader._made)
        status = lines(native, limit, options)
        _clocks(native.told()[2])
        return status
    form = options.get("--to", "erlang")
    if form not in FORMS:
        raise Usage(f"--to: {form!r} is not a form of a log; give erlang or blocks")
    return _report(convert(source, options["--output"], form, merged=True), options["--output"])


def _alone(logs: list[Named]) -> list[tuple[str | None, list[Named], list[str]]]:
    """Logs without node names, each with the file of names beside it."""
    return [(None, [log], beside([log])) for log in logs]


def _convert(source: Any, options: dict[str, str]) -> int:
    for option in ("--to", "--output"):
        if not options.get(option):
            raise Usage(f"option {option} is missing")
    form, out = options["--to"], options["--output"]
    if form in FORMS:
        return _report(convert(source, out, form), out)
    from inviso import export

    formats: dict[str, Callable[[Any, str], Any]] = export.FORMATS
    if form not in formats:
        raise Usage(f"--to: unknown form {form!r}; give {', '.join([*FORMS, *sorted(formats)])}")
    from ._export import report

    return report("log", formats[form](source, out), out)


def _stats(source: Any, options: dict[str, str]) -> int:
    limit, stream = number(options.get("--limit"), "--limit", "lines"), output()
    found = stats(source)
    if "--json" in options:
        import json

        stream.write(json.dumps(_as_json(found), indent=2) + "\n")
    else:
        for line in _table(found, 10 if limit is None else limit):
            put(stream, f"{line}\n")
    stream.flush()
    for damage in found.damage[:10]:
        print(f"inviso log stats: {damage}", file=sys.stderr)
    return 1 if found.damaged else 0


_SHORT = {"-f": "--follow", "-n": "--limit", "-w": "--wrap", "-o": "--output"}
COMMANDS: dict[str, tuple[Callable[[Any, dict[str, str]], int], str, Options]] = {
    "print": (_print, PRINT_HELP, Options(_SHORT, ("--limit", "--color", "--wrap"), ("--follow",))),
    "convert": (_convert, CONVERT_HELP, Options(_SHORT, ("--to", "--output", "--wrap"))),
    "merge": (_merge, MERGE_HELP, Options(_SHORT, ("--output", "--to", "--limit", "--color", "--wrap"))),
    "stats": (_stats, STATS_HELP, Options(_SHORT, ("--limit", "--wrap"), ("--json",))),
}


def lines(native: _native.log.LogMerge, limit: int | None, options: dict[str, str]) -> int:
    """Prints logs, a line for each record. Returns the exit status. A log that is followed is read repeatedly."""
    colour, follow, stream = _colour(options), "--follow" in options, output()
    left = MOST if limit is None else limit
    try:
        while left > 0 and (text := native.text("text", colour, left)) is not None:
            if text:
                _write(stream, text)
                left -= text.count(b"\n") if limit is not None else 0
            if follow:
                stream.flush()
                if not text:
                    time.sleep(PAUSE)
        stream.flush()
        return 1 if any(damaged for _, _, damaged in native.told()[0]) else 0
    finally:
        native.close()


def _write(stream: TextIO, text: bytes) -> None:
    """Writes lines. Characters that the stream's encoding lacks are escaped."""
    buffer = getattr(stream, "buffer", None)
    if buffer is not None and (stream.encoding or "").lower().replace("-", "") == "utf8":
        stream.flush()
        buffer.write(text)
    else:
        put(stream, text.decode())


def _report(done: Written, out: str) -> int:
    _damage(done.damage, done.damaged)
    _clocks(done.other_clock)
    lost = f", {done.dropped} messages were dropped" if done.dropped else ""
    print(f"inviso log: {done.records} records to {out}{lost}", file=sys.stderr)
    return 1 if done.damaged else 0


def _damage(first: Iterable[object], count: int) -> None:
    for damage in itertools.islice(first, 10):
        print(f"inviso log: {damage}", file=sys.stderr)
    if count > 10:
        print(f"inviso log: and {count - 10} more that could not be read", file=sys.stderr)


def _clocks(others: int) -> None:
    if others:
        print(f"inviso log: {others} time stamps of another clock than the first were not compared", file=sys.stderr)


def _table(found: Stats, limit: int) -> Iterable[str]:
    yield f"messages   {found.messages}"
    yield f"bytes      {found.bytes}"
    yield f"dropped    {found.dropped} in {found.drops} drop record{'' if found.drops == 1 else 's'}"
    yield f"damage     {found.damaged}"
    if found.seconds is not None:
        yield f"time       {found.seconds:.6f} s, from {_moment(found, found.first)} to {_moment(found, found.last)}"
    for title, rows, show in (
        ("tag", found.tags.most_common(), str),
        ("function", found.functions.most_common(limit), function),
        ("process", found.processes.most_common(limit), repr),
    ):
        if rows:
            yield ""
            yield f"{'messages' if title != 'function' else 'calls':>10}  {title}"
            yield from (f"{count:10}  {show(what)}" for what, count in rows)
            all_of = len(found.functions if title == "function" else found.processes)
            if title != "tag" and all_of > limit:
                yield f"{'':10}  and {all_of - limit} more"


def _moment(found: Stats, ns: int | None) -> str:
    if ns is None or found.clock != "wall":
        return f"{ns} ns"
    return moment((ns // 10**15, ns // 10**9 % 1_000_000, ns // 1000 % 1_000_000))


def _as_json(found: Stats) -> dict[str, Any]:
    return {
        "messages": found.messages,
        "bytes": found.bytes,
        "drops": found.drops,
        "dropped": found.dropped,
        "damaged": found.damaged,
        "damage": [str(damage) for damage in found.damage],
        "clock": found.clock,
        "first": found.first,
        "last": found.last,
        "tags": dict(found.tags.most_common()),
        "functions": {function(mfa): count for mfa, count in found.functions.most_common()},
        "processes": {repr(pid): count for pid, count in found.processes.most_common()},
    }


def _colour(options: dict[str, str]) -> bool:
    when = options.get("--color", "auto")
    if when not in ("auto", "always", "never"):
        raise Usage(f"--color: {when!r} is unknown; give auto, always or never")
    if when == "auto":
        return output().isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return when == "always"


def output() -> TextIO:
    """The standard output. Raises OSError without one."""
    if sys.stdout is None:  # its descriptor was closed when the interpreter began
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard output")
    return sys.stdout
