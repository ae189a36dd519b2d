"""A cluster: nodes that are traced together."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from inviso._link._names import host, host_of
from inviso._link._peer import has_ended
from inviso._pattern import parse
from inviso.control._control import Control, Found, is_meant, own_name
from inviso.control._logs import copy_set, in_parallel, left, paths_of
from inviso.errors import BadArg, shown
from inviso.terms import Atom

from ._answers import Answers, NodeError

if TYPE_CHECKING:
    from inviso.merge import Form, Merged

__all__ = ["GONE", "SECONDS", "Cluster"]

OK = Atom("ok")
SECONDS = 60.0
"""How long is traced if nothing is said."""

GONE = ("no_response", "disconnected")
"""Why a node did not answer that ended while it was asked."""

FILES, MEGABYTES = 8, 16
"""A log is a set of so many files of this size: the oldest is overwritten."""


class Cluster:
    """The nodes of this host whose names match a pattern, while the ``with`` block lasts.

    Args:
        patterns: names such as ``"shop-1"``, or with ``*`` and ``?``. Default: all nodes.
        timeout: seconds that a node may take for an answer.
        tag: what the runtime components are called; who adopts them later is told.
        options: of the runtime components, as for :func:`inviso.control.add_nodes`.

    >>> with Cluster("no-such-node-*") as cluster:
    ...     cluster.nodes
    []
    """

    def __init__(self, *patterns: str, timeout: float = 5.0, tag: str = "cluster", options: Any = ()) -> None:
        from inviso.control import _arguments

        for pattern in patterns:
            if not isinstance(pattern, str) or not pattern:
                raise BadArg("Cluster", "patterns", f"{shown(pattern)} is no pattern; pass one such as 'shop-*'")
        settings = _arguments.settings("Cluster", options)
        if isinstance(settings, tuple):
            raise BadArg("Cluster", "options", f"{shown(settings[1][1])} is no option; see inviso.control.add_nodes")
        self._patterns = patterns or ("*",)
        self._tag = tag
        self._settings = settings
        self._control = Control(name=own_name(), settings=settings, timeout=timeout)
        self._logs: dict[str, str] = {}
        """Where the logs of nodes are to be copied when tracing stops."""
        self._copied: dict[str, str] = {}
        """The last log that was copied, of each node."""
        self.on_copied: Callable[[int], object] = int
        """Is called with the number of bytes of each part of a log that has been copied, in any thread."""
        self._began: dict[str, tuple[int, str]] = {}
        """Nodes that trace: the number of the process, and the folder that it writes in."""
        self._noted: dict[str, tuple[int, str]] = {}
        """Those that an earlier control has left tracing."""
        self._counted: set[str] = set()
        """Nodes that measure."""
        self._others: set[str] = set()
        """Nodes that traced already when they were adopted: for somebody else."""
        self.refused: Answers = Answers({})
        """Of nodes that match and could not be added, why: ``refused`` has another living control."""

    # nodes

    def add(self) -> Answers:
        """Adds the nodes that match and were not there before. What each answered: ``new``, or ``adopted``.

        >>> with Cluster("no-such-node") as cluster:
        ...     len(cluster.add())
        0
        """
        found = [each for each in self._control.find(self._patterns) if each.node not in self._control.nodes()]
        noted = self._control.folder().noted().items()
        self._noted = {node: each for node, each in noted if any(is_meant(node, pattern) for pattern in self._patterns)}
        answers = self._add([each.node for each in found])
        self.refused = Answers({}, {**self.refused.errors, **self.silent})
        return Answers(answers, {**answers.errors, **self.silent})

    @property
    def silent(self) -> dict[str, NodeError]:
        """The nodes that match and did not answer in time when they were last looked for."""
        return {node: NodeError(node, "timeout") for node in self._control.silent}

    def _add(self, names: list[str]) -> Answers:
        answers = self._answers(self._control.add(names, self._tag, self._settings))
        self.refused = Answers({}, {**self.refused.errors, **answers.errors})
        self._others |= {node for node, each in answers.items() if isinstance(each, tuple) and each[1] == "tracing"}
        return Answers({node: each if isinstance(each, str) else each[0] for node, each in answers.items()}, answers.errors)

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes that were added and live."""
        return self._control.nodes()

    def found(self) -> list[Found]:
        """The processes that match, whether or not they were added."""
        return self._control.find(self._patterns)

    def status(self) -> Answers:
        """What is known of each process that matches, added or not: its number, state, status, control, what it has traced.

        >>> with Cluster("no-such-node") as cluster:
        ...     len(cluster.status())
        0
        """
        rows = {}
        for each in self.found():
            about = each.about
            state, status = about["state"] or ("-", "-")
            row = {"pid": str(each.pid), "python": about["python"], "state": state}
            row["status"] = status if isinstance(status, str) else f"suspended: {status[1]}"
            row["control"] = "-" if about["control"] is None else f"{about['control'][0]} ({about['control'][1]})"
            counts = about["info"] or {}
            row |= {"records": counts.get("written"), "lost": counts.get("lost"), "ended": counts.get("ended")}
            row["program"] = about["program"]
            rows[each.node] = row
        return Answers(rows, self.silent)

    # tracing

    def trace(
        self,
        *patterns: str,
        messages: bool = False,
        tokens: bool = False,
        returns: bool = False,
        arguments: bool = False,
        processes: str = "all",
        seconds: float | None = SECONDS,
        limit: int | None = None,
        rate: int | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> Answers:
        """Begins to trace in every node.

        Args:
            patterns: functions, ``"module:function"``, ``"package.**"``; their calls are traced.
            messages: the messages that threads and tasks send and receive, too.
            tokens: the events of sequential tracing, if nothing in the process takes them yet.
            returns: what functions return or raise, too.
            arguments: with the arguments of calls; they can hold secrets. Without it, their number.
            processes: ``"all"``, ``"existing"``, ``"new"``, or a registered name.
            seconds: ends by itself after so long; None: goes on until it is stopped.
            limit: ends by itself after so many records, in each node.
            rate: ends when a node has more records in a second.
            folder: where :meth:`stop` copies the logs.

        Returns:
            For each node the number of functions that match now.

        Raises:
            BadArg: a malformed argument; or nothing is asked for; or everything without a limit.
        """
        mfas = [mfa for text in patterns for mfa in parse(text, "Cluster.trace, patterns")]
        if not mfas and not messages and not tokens:
            raise BadArg("Cluster.trace", "patterns", "nothing is asked for; pass a pattern such as 'shop.**', or messages=True")
        for name, value in (("seconds", seconds), ("limit", limit), ("rate", rate)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf):
                raise BadArg("Cluster.trace", name, f"{shown(value)} is no number above 0")
        if ("_", "_", "_") in mfas and seconds is None and limit is None and rate is None:
            why = "every function without a limit; pass seconds=, limit= or rate=, or name a package"
            raise BadArg("Cluster.trace", "patterns", why)
        limits: dict[str, Any] = {} if seconds is None else {"ms": int(seconds * 1000)}
        limits |= {name: value for name, value in (("limit", limit), ("rate", rate)) if value is not None}
        flags = ["timestamp", *(["call"] if mfas else []), *([] if arguments else ["arity"])]
        flags += ["send", "receive"] if messages else []
        spec: Any = [("_", [], [("return_trace",), ("exception_trace",)])] if returns else True
        if folder is not None:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        # who does not answer is not asked again: each time would cost the others the time that a node may take
        there = self._answers(self._control.call(None, "change_options", {"limits": limits}))
        answers = self._answers(self._control.call_each([(node, [_log(node)]) for node in there], "init_tracing"))
        answers.errors |= there.errors
        self._began |= self._where(answers)
        self._others -= {*answers}
        self._noted.clear()  # what was before belongs to no answer of this one
        self._control.call(answers, "tpm_localnames")
        found = self._answers(self._control.call(answers, "tpl", [(*mfa, spec) for mfa in mfas]))
        set_ = self._answers(self._control.call(found, "tf", [(processes, flags)]))
        told = self._answers(self._control.call(set_, "trace_tokens", True)) if tokens else set_
        self._logs |= {node: os.fspath(folder) for node in answers if folder is not None}
        numbers, flagged = _numbers(found), _numbers(set_)
        errors = {**answers.errors, **numbers.errors, **flagged.errors, **told.errors}
        if failed := [node for node in answers if node in errors]:
            errors = self._explained(errors)
            for node, _ in self._control.call(failed, "stop_tracing"):
                self._forget(node)
        return Answers({node: each for node, each in numbers.items() if node not in errors}, errors)

    def patterns(self, *patterns: str, clear: bool = False) -> Answers:
        """Traces calls of more functions, or of these no longer. For each node how many match."""
        mfas = [mfa for text in patterns for mfa in parse(text, "Cluster.patterns, patterns")]
        return self._set("ctpl" if clear else "tpl", [(*mfa, True) for mfa in mfas])

    def flags(self, *flags: str, processes: str = "all", clear: bool = False) -> Answers:
        """Sets or clears trace flags of processes. For each node how many processes were meant."""
        return self._set("ctf" if clear else "tf", [(processes, list(flags))])

    def _set(self, request: str, what: list[Any]) -> Answers:
        """For each node how many functions or processes a request meant."""
        answers = _numbers(self._answers(self._control.call(None, request, what)))
        return Answers(answers, self._explained(answers.errors))

    def messages(self, /, **options: Any) -> Answers:
        """As :meth:`trace` of no function, with all messages."""
        return self.trace(messages=True, **options)

    def tokens(self, /, **options: Any) -> Answers:
        """As :meth:`trace` of no function, with the events of sequential tracing."""
        return self.trace(tokens=True, **options)

    def count(self, *patterns: str, type: str = "call_count") -> Answers:
        """Measures functions from now on; :meth:`counts` reads.

        Args:
            patterns: as for :meth:`trace`.
            type: ``"call_count"``, ``"call_time"`` (own time, nanoseconds) or ``"call_memory"`` (own allocations, words of 8 bytes).

        Returns:
            For each node how many functions match now.
        """
        from inviso.tprof._check import one_of
        from inviso.tprof._model import CALL_TYPES

        one_of("Cluster.count, type", type, CALL_TYPES)
        mfas = [mfa for text in patterns for mfa in parse(text, "Cluster.count, patterns")]
        if not mfas:
            raise BadArg("Cluster.count", "patterns", "nothing is asked for; pass a pattern such as 'shop.**'")
        answers = self._answers(self._control.call(None, "count", type, mfas))
        self._counted |= {*answers}
        return answers

    def counts(self) -> Answers:
        """What :meth:`count` has measured: for each node a dict of ``"module:function/arity"`` and ``(calls, measurement)``, the
        largest first.
        """
        answers = self._answers(self._control.call(None, "counts"))
        gone = self._counted - {*self._control.nodes()}
        answers.errors |= {node: NodeError(node, "its process has ended, and its counts with it") for node in gone}
        return Answers({node: {f"{m}:{f}/{a}": (calls, measured) for m, f, a, calls, measured in each} for node, each in answers.items()}, answers.errors)

    def stop(self, folder: str | os.PathLike[str] | None = None) -> Answers:
        """Stops tracing in every node, and copies the logs if there is a folder. A node whose process has ended meanwhile is among
        them: its log is what it has left.

        Args:
            folder: where the logs are copied; if it is None the one that :meth:`trace` was given.

        Returns:
            For each node a dict: ``records``, ``lost``, ``ended`` (why it ended by itself or was suspended, or None), ``log`` (the copy).
        """
        if folder is not None:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._logs = dict.fromkeys([*self.nodes, *self._noted, *self._began], os.fspath(folder))
        folders, self._logs = self._logs, {}
        stopped = self._answers(self._control.call(None, "stop_tracing"))
        info = self._answers(self._control.call(stopped, "info"))
        results: dict[str, Any] = {}
        errors = {**stopped.errors, **info.errors}
        for node, each in info.items():
            results[node] = {"records": each["written"], "lost": each["lost"], "ended": each["ended"] or each["suspended"]}
        self._fetch({node: folders[node] for node in info if node in folders}, results, errors)
        self._write_clocks({node: folder for node, folder in folders.items() if node in results})
        ended = self._ended(errors)
        for node in ended:
            self._read_left(node, folders.get(node), results, errors)
        for node in [*ended, *stopped]:
            self._forget(node)
        self._others -= {*stopped}
        return Answers(results, errors)

    def fetch(self, folder: str | os.PathLike[str]) -> Answers:
        """Copies the logs of nodes that don't trace any more into a folder, also of those that have ended since :meth:`trace`, and of
        those that could not be added (:attr:`refused`), as another control has them, or there is a right to read only. For each
        node a dict: ``log``, None if it has none.
        """
        os.makedirs(folder, mode=0o700, exist_ok=True)
        read_only = [node for node in self.refused.errors if node not in self.nodes]
        results: dict[str, Any] = {node: {} for node in [*self.nodes, *read_only]}
        errors: dict[str, NodeError] = {}
        with self._control.visiting(read_only):
            self._fetch(dict.fromkeys(results, os.fspath(folder)), results, errors)
        for node in read_only:  # why it could not be added says more
            errors.pop(node, None)
        self._write_clocks(dict.fromkeys(results, os.fspath(folder)))
        for node in self._ended(errors):
            self._read_left(node, os.fspath(folder), results, errors)
        return Answers({node: {"log": each["log"]} for node, each in results.items()}, errors)

    def _write_clocks(self, folders: dict[str, str]) -> None:
        """How far the clocks of other hosts are off, beside the logs."""
        if all(host_of(node) == host() for node in folders):
            return
        from inviso.merge._clocks import Clock, write

        clocks = self._control.clocks()
        for node, folder in folders.items():
            write(os.path.join(folder, f"{node}.clock"), Clock(host_of(node), host(), clocks.get(host_of(node), [])))

    def _where(self, nodes: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Of nodes that have begun: their processes, and where their logs are."""
        pids = self._control.pids()
        files = {node: each["files"] for node, each in self._answers(self._control.call(nodes, "info")).items()}
        return {node: (pids[node], os.path.dirname(each[0])) for node, each in files.items() if each and node in pids}

    def _ended(self, errors: dict[str, NodeError]) -> list[str]:
        """Nodes that began to trace and are gone, also while they were asked; their errors are taken out: their logs answer."""
        gone = {node for node, error in errors.items() if error.reason == GONE}
        there = {*self._control.nodes(), *self.refused.errors} - gone
        ended = [node for node in {**self._noted, **self._began} if node not in there]
        for node in ended:
            errors.pop(node, None)
        return ended

    def _forget(self, node: str) -> None:
        """It traces no longer, or that it has ended was said."""
        for known in (self._began, self._noted):
            known.pop(node, None)
        self._control.folder().take_note(node)

    def _read_left(self, node: str, folder: str | None, results: dict[str, Any], errors: dict[str, NodeError]) -> None:
        """The result of a node that is not there any more, by its log."""
        from inviso.logs._stats import Stats, stats

        pid, place = {**self._noted, **self._began}[node]
        try:
            paths = left(place, node)
            counted = stats([*paths]) if paths else Stats()
            log = None
            if folder is not None and paths:
                log = self._copied[node] = copy_set(paths, os.path.join(folder, f"{node}.log"))
            if folder is not None and os.path.exists(ti := os.path.join(place, f"{node}.ti")):
                copy_set([ti], os.path.join(folder, f"{node}.ti"))
        except OSError as error:
            errors[node] = NodeError(node, f"{error.filename}: {error.strerror}")
            return
        why = "its process has ended" if has_ended(pid) else "it does not listen any more"
        why += ", and the end of its log is missing" if counted.damaged else ""
        results[node] = {"records": counted.messages, "lost": counted.dropped, "ended": why, "log": log}

    def _fetch(self, folders: dict[str, str], results: dict[str, Any], errors: dict[str, NodeError]) -> None:
        """Copies the logs of nodes, of several at once."""
        answers = self._answers(self._control.call(folders, "log_paths"))
        failed = dict(answers.errors)

        def fetch(node: str, folder: str) -> None:
            parts = paths_of(answers[node])
            if parts is None:
                failed[node] = NodeError(node, "bad_answer")
                return
            results[node]["log"] = None
            opened = self._control.sources(node)
            try:
                if names := parts.get("ti_log"):
                    copy_set(names, os.path.join(folder, f"{node}.ti"), opened)
                if paths := parts.get("trace_log"):
                    log = copy_set(paths, os.path.join(folder, f"{node}.log"), opened, self.on_copied)
                    results[node]["log"] = self._copied[node] = log
            except OSError as error:
                failed[node] = NodeError(node, f"{error.filename}: {error.strerror}")

        in_parallel([partial(fetch, node, folders[node]) for node in answers])
        for node, error in failed.items():
            errors[node] = error
            results.pop(node, None)

    def merge(self, out: str | os.PathLike[str], to: Form = "text", *, clock: str | None = None) -> Merged:
        """Merges the logs that :meth:`stop` and :meth:`fetch` have copied, of each node the last, into one in order of time.

        Args:
            out: the file; what it held is lost.
            to: ``"text"``, ``"inviso"``, ``"erlang"`` or ``"blocks"``, as for :func:`inviso.merge.logs`.
            clock: which clocks decide, as there.

        Raises:
            BadArg: an argument is wrong, or no log has been copied.

        >>> with Cluster("no-such-node") as cluster:
        ...     cluster.merge("all.txt")
        Traceback (most recent call last):
        ...
        inviso.errors.BadArg: Cluster.merge, out: no log has been copied; give trace a folder, or call fetch, and stop first
        """
        from inviso.merge import logs

        if not self._copied:
            why = "no log has been copied; give trace a folder, or call fetch, and stop first"
            raise BadArg("Cluster.merge", "out", why)
        return logs(self._copied, out, to, clock=clock)

    def logs(self) -> Answers:
        """The files of the logs of each node that exist: full paths."""
        answers = self._answers(self._control.call(None, "info"))
        return Answers({node: each["files"] for node, each in answers.items()}, answers.errors)

    def events(self, function: Callable[[Any], object]) -> None:
        """Has a function called with each event, in a thread of the control's; see :func:`inviso.control.subscribe`.

        >>> with Cluster("no-such-node") as cluster:
        ...     cluster.events(print)
        """
        self._control.subscribe(function)

    # the end

    def leave(self, *nodes: str) -> Answers:
        """Lets nodes go, by default all, without ending what runs there. What each answered. Who stops them later learns also of
        those that have ended until then.

        >>> with Cluster("no-such-node") as cluster:
        ...     len(cluster.leave())
        0
        """
        for node, (pid, place) in self._began.items() if self._control.is_open else ():
            if not nodes or node in nodes:
                self._control.folder().note(node, pid, place)
        return self._answers(self._control.remove(nodes or None, ends=False))

    def close(self) -> None:
        """Ends the runtime components of the nodes, and the control: nothing is left in the processes but the listener. A node that
        traced already when it was added, and that :meth:`stop` was not called for, is let go: it traces for somebody else.
        """
        if self._control.is_open:
            others = [node for node in self._control.nodes() if node in self._others]
            self._control.remove(others, ends=False)
            for node, _ in self._control.remove(None, ends=True):
                self._forget(node)
            self._control.close()

    def __enter__(self) -> Self:
        self.add()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _explained(self, errors: dict[str, NodeError]) -> dict[str, NodeError]:
        """The errors; of nodes that are suspended with what for."""
        suspended = [node for node, error in errors.items() if error.reason == "suspended"]
        for node, each in self._answers(self._control.call(suspended, "info")).items():
            if each["suspended"]:
                errors[node] = NodeError(node, each["suspended"])
        return errors

    def _answers(self, pairs: Iterable[tuple[str, Any]]) -> Answers:
        results: dict[str, Any] = {}
        errors: dict[str, NodeError] = {}
        for node, answer in pairs:
            if isinstance(answer, tuple) and answer[0] == "error":
                errors[node] = NodeError(node, answer[1])
            else:
                results[node] = None if answer == OK else answer[1]
        return Answers(results, errors)


def _numbers(answers: Answers) -> Answers:
    """The sum of a node's numbers; what is none in its place is the node's error."""
    errors, results = dict(answers.errors), {}
    for node, each in answers.items():
        wrong = [one for one in each if not isinstance(one, int)]
        if wrong:
            errors[node] = NodeError(node, wrong[0][1])
        else:
            results[node] = sum(each)
    return Answers(results, errors)


def _log(node: str) -> Any:
    """Tracer data: a wrap set, and a file with the names of processes."""
    wrap = f"{node}.", Atom("wrap"), ".log", MEGABYTES << 20, FILES
    return [(Atom("trace"), (Atom("file"), wrap)), (Atom("ti"), (Atom("file"), f"{node}.ti"))]
