"""The command ``inviso export``: writes logs for other tools."""

from __future__ import annotations

import ast
import os
import sys
from typing import Any

from ._guarded import guarded
from ._options import Options, Usage, refuse, say
from ._progress import Progress

__all__ = ["HELP", "KNOWN", "main", "report"]

HELP = """\
usage: inviso export FORM [options] -o OUT LOG ...
       inviso export FORM [options] -o OUT FOLDER

Write logs for other tools. Several LOGs are logs of several nodes: they are
merged into one file, where each node is a process. A node has the name of its
log, shop for shop.log; NODE=LOG gives it another name. In FOLDER, NODE.log is
the log of a node.

forms:
  perfetto     for https://ui.perfetto.dev
  chrome       for chrome://tracing and others
  speedscope   for https://speedscope.app
  collapsed    stacks, for flame graphs
  pstats       for Python's pstats
  arrow        a table, as an Arrow stream
  parquet      the same as a Parquet file
  otlp         spans, for a collector of OpenTelemetry, or as its JSON

options:
  -o, --output OUT       the file; an existing one is replaced. - is standard
                         output. For otlp also http://HOST:4318 or
                         grpc://HOST:4317; the default of otlp is
                         OTEL_EXPORTER_OTLP_ENDPOINT
  -w, --wrap SUFFIX      each LOG is the name of a wrap set
  --label LABEL          only spans with this label of seq_trace (otlp)
  --pids PIDS            erlang: logs of an Erlang node (perfetto, chrome)
  -h, --help             show this text

A LOG of - is standard input. The exit status is 0; 1 if a part could not be
read or written; 2 for a wrong command line.

examples:
  inviso export perfetto -o shop.pftrace shop.log
  inviso export perfetto -o all.pftrace.gz web.log shop.log
  inviso export otlp -o http://localhost:4318 --label 'order 7' logs/
"""

KNOWN = Options({"-o": "--output", "-w": "--wrap"}, ("--output", "--wrap", "--label", "--pids"))

_WITH_PIDS = ("perfetto", "chrome")


def main(words: list[str]) -> int:
    """Carries out ``inviso export …``. Returns the exit status.

    >>> from inviso.cli import main
    >>> main(["export", "--help"])  # doctest: +ELLIPSIS
    usage: inviso export FORM [options] -o OUT LOG ...
    ...
    0
    """

    def carried_out() -> int:
        from inviso import export

        options, given = KNOWN.split_files(words)
        if "--help" in options:
            return say(HELP)
        if not given:
            return refuse(" export", f"no form was given; the forms are {', '.join(export.FORMATS)}")
        form, *files = given
        if form not in export.FORMATS:
            raise Usage(f"unknown form {form!r}; the forms are {', '.join(export.FORMATS)}")
        if not files:
            raise Usage("no log was given; name a file")
        more = _more(form, options)
        source = _source(files, options.get("--wrap"))
        progress = Progress(2, form, "export")
        progress.start()
        try:
            done = export.FORMATS[form](source, _out(form, options.get("--output")), **more)
        finally:
            progress.stop()
        return report("export", done, options.get("--output"), options.get("--label"))

    return guarded("export", carried_out)


def _more(form: str, options: dict[str, str]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if "--label" in options:
        if form != "otlp":
            raise Usage(f"--label: {form} has no labels; it is for otlp")
        try:
            more["label"] = ast.literal_eval(options["--label"])
        except (ValueError, SyntaxError):
            more["label"] = options["--label"]
    if "--pids" in options:
        if form not in _WITH_PIDS or options["--pids"] not in ("inviso", "erlang"):
            raise Usage("--pids: give inviso or erlang, with perfetto or chrome")
        more["pids"] = options["--pids"]
    return more


def _out(form: str, out: str | None) -> Any:
    if out == "-":
        return sys.stdout.buffer
    if not out and form != "otlp":
        raise Usage("option --output is missing")
    return out or None


def _source(files: list[str], suffix: str | None) -> Any:
    if suffix is None and files == ["-"]:
        return "/dev/stdin"
    if "-" in files:
        raise Usage("-: standard input is one log; give it alone")
    if len(files) == 1 and suffix is None and os.path.isdir(files[0]):
        return files[0]
    named = [_named(file, suffix) for file in files]
    if len(named) == 1 and named[0][0] is None:
        return named[0][1]
    sources: dict[str, Any] = {}
    for file, (node, log) in zip(files, named, strict=True):
        name = node or os.path.splitext(os.path.basename(file.rstrip(".")))[0]
        if name in sources:
            raise Usage(f"{file}: another log is of a node {name}, too; say NODE=LOG")
        sources[name] = log
    return sources


def _named(file: str, suffix: str | None) -> tuple[str | None, Any]:
    node, equals, path = file.partition("=")
    is_named = bool(node and equals and path) and "/" not in node and not os.path.exists(file)
    log = path if is_named else file
    return (node if is_named else None), (log if suffix is None else (log, "wrap", suffix))


def report(command: str, done: Any, out: str | None, label: str | None = None) -> int:
    """Prints a summary of an export. Returns the exit status."""
    for text in done.damage[:10]:
        print(f"inviso {command}: {text}", file=sys.stderr)
    if done.damaged > 10:
        print(f"inviso {command}: and {done.damaged - 10} more that could not be read", file=sys.stderr)
    what = f"{done.messages} messages"
    if hasattr(done, "spans"):
        what += f", {done.spans} spans of {done.traces} traces"
    lost = f", {done.dropped} messages were dropped" if done.dropped else ""
    to = f" to {out}" if out else ""
    print(f"inviso {command}: {what}{to}{lost}", file=sys.stderr)
    if label is not None and not done.spans:
        there = ", ".join(done.labels[:10]) or "none"
        print(f"inviso {command}: no span is of the label {label!r}; the labels are: {there}", file=sys.stderr)
    return 1 if done.damaged else 0
