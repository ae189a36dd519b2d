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
from ._forms import is_about, is_added, is_counts, is_info, is_number, is_numbers

if TYPE_CHECKING:
    from inviso.merge import Form, Merged

__all__ = ["GONE", "SECONDS", "Cluster"]

OK = Atom("ok")
SECONDS = 60.0
"""The default duration of a trace."""

GONE = ("no_response", "disconnected")
"""The error of a node that ended during a request."""

FILES, MEGABYTES = 8, 16
"""A log is a wrap set of so many files of this size."""


class Cluster:
    """The nodes of this host whose names match a pattern, for the time of the ``with`` block.

    Args:
        patterns: names such as ``"shop-1"``, or with ``*`` and ``?``. Default: all nodes.
        timeout: seconds that a node has for an answer.
        tag: a name for the runtime components. A control that adopts them later gets it.
        options: of the runtime components, as for :func:`inviso.control.add_nodes`.

    >>> with Cluster("no-such-node-*") as cluster:
    ...     cluster.nodes
    []
    """

    def __init__(self, *patterns: str, timeout: float = 5.0, tag: str = "cluster", options: Any = ()) -> None:
        from inviso.control import _arguments

        for pattern in patterns:
            if not isinstance(pattern, str) or not pattern:
                raise BadArg("Cluster", "patterns", f"{shown(pattern)} is not a pattern; pass one such as 'shop-*'")
        settings = _arguments.settings("Cluster", options)
        if isinstance(settings, tuple):
            raise BadArg(
                "Cluster", "options", f"{shown(settings[1][1])} is not an option; see inviso.control.add_nodes"
            )
        self._patterns = patterns or ("*",)
        self._tag = tag
        self._settings = settings
        self._control = Control(name=own_name(), settings=settings, timeout=timeout)
        self._logs: dict[str, str] = {}
        """The folder for each node's log, to which it is copied when tracing stops."""
        self._copied: dict[str, str] = {}
        """The last copied log of each node."""
        self.on_copied: Callable[[int], object] = int
        """Called with the number of bytes of each copied part of a log, in any thread."""
        self._began: dict[str, tuple[int, str]] = {}
        """Nodes that trace: the process id, and the folder of the log."""
        self._noted: dict[str, tuple[int, str]] = {}
        """Nodes that an earlier control left tracing: the same."""
        self._counted: set[str] = set()
        """Nodes that measure."""
        self._others: set[str] = set()
        """Nodes that traced already when they were adopted, for another user of the node."""
        self.refused: Answers = Answers({})
        """The errors of nodes that match and could not be added: ``refused`` means that a living control has the node.
        """

    # nodes

    def add(self) -> Answers:
        """Adds the matching nodes that were not added before. The answer of each is ``new`` or ``adopted``.

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
        """The matching nodes that did not answer the last search in time."""
        return {node: NodeError(node, "timeout") for node in self._control.silent}

    def _add(self, names: list[str]) -> Answers:
        answers = self._answers(self._control.add(names, self._tag, self._settings), is_added)
        self.refused = Answers({}, {**self.refused.errors, **answers.errors})
        self._others |= {node for node, each in answers.items() if isinstance(each, tuple) and each[1] == "tracing"}
        return Answers(
            {node: each if isinstance(each, str) else each[0] for node, each in answers.items()}, answers.errors
        )

    @property
    def nodes(self) -> list[str]:
        """The names of the added nodes that live."""
        return self._control.nodes()

    def found(self) -> list[Found]:
        """The matching processes, added or not."""
        return self._control.find(self._patterns)

    def status(self) -> Answers:
        """The status of each matching process, added or not: process id, state, status, control, counts of records,
        program.

        >>> with Cluster("no-such-node") as cluster:
        ...     len(cluster.status())
        0
        """
        rows, wrong = {}, {}
        for each in self.found():
            about = each.about
            if not is_about(about):
                wrong[each.node] = NodeError(each.node, (Atom("bad_answer"), about))
                continue
            state, status = about["state"] or ("-", "-")
            row = {"pid": str(each.pid), "python": about["python"], "state": state}
            row["status"] = status if isinstance(status, str) else f"suspended: {status[1]}"
            row["control"] = "-" if about["control"] is None else f"{about['control'][0]} ({about['control'][1]})"
            counts = about["info"] or {}
            row |= {"records": counts.get("written"), "lost": counts.get("lost"), "ended": counts.get("ended")}
            row["program"] = about["program"]
            rows[each.node] = row
        return Answers(rows, {**self.silent, **wrong})

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
        """Begins tracing in every node.

        Args:
            patterns: functions, ``"module:function"``, ``"package.**"``. Their calls are traced.
            messages: also trace the messages that threads and tasks send and receive.
            tokens: also trace the events of sequential tracing, if the process has no system tracer yet.
            returns: also trace the results and exceptions of functions.
            arguments: with the arguments of calls, which can hold secrets. Without it, their number.
            processes: ``"all"``, ``"existing"``, ``"new"``, or a registered name.
            seconds: tracing ends by itself after so long; None: it ends only by :meth:`stop`.
            limit: tracing ends by itself after so many records, in each node.
            rate: tracing ends if a node has more records in a second.
            folder: where :meth:`stop` copies the logs.

        Returns:
            For each node the number of functions that match now.

        Raises:
            BadArg: a malformed argument, nothing to trace, or every function without a limit.
        """
        mfas = [mfa for text in patterns for mfa in parse(text, "Cluster.trace, patterns")]
        if not mfas and not messages and not tokens:
            raise BadArg(
                "Cluster.trace", "patterns", "nothing is asked for; pass a pattern such as 'shop.**', or messages=True"
            )
        for name, value in (("seconds", seconds), ("limit", limit), ("rate", rate)):
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf
            ):
                raise BadArg("Cluster.trace", name, f"{shown(value)} is not a number above 0; pass one")
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
        # a node that does not answer gets no further request: each would cost the others a timeout
        there = self._answers(self._control.call(None, "change_options", {"limits": limits}))
        answers = self._answers(self._control.call_each([(node, [_log(node)]) for node in there], "init_tracing"))
        answers.errors |= there.errors
        self._began |= self._where(answers)
        self._others -= {*answers}
        self._noted.clear()  # logs of earlier traces belong to no answer of this trace
        self._control.call(answers, "tpm_localnames")
        found = self._answers(self._control.call(answers, "tpl", [(*mfa, spec) for mfa in mfas]), is_numbers)
        set_ = self._answers(self._control.call(found, "tf", [(processes, flags)]), is_numbers)
        with_tokens = self._answers(self._control.call(set_, "trace_tokens", True)) if tokens else set_
        self._logs |= {node: os.fspath(folder) for node in answers if folder is not None}
        numbers, flagged = _numbers(found), _numbers(set_)
        errors = {**answers.errors, **numbers.errors, **flagged.errors, **with_tokens.errors}
        if failed := [node for node in answers if node in errors]:
            errors = self._explained(errors)
            for node, _ in self._control.call(failed, "stop_tracing"):
                self._forget(node)
        return Answers({node: each for node, each in numbers.items() if node not in errors}, errors)

    def patterns(self, *patterns: str, clear: bool = False) -> Answers:
        """Traces calls of more functions; with ``clear`` no longer of these. For each node the number that match."""
        mfas = [mfa for text in patterns for mfa in parse(text, "Cluster.patterns, patterns")]
        return self._set("ctpl" if clear else "tpl", [(*mfa, True) for mfa in mfas])

    def flags(self, *flags: str, processes: str = "all", clear: bool = False) -> Answers:
        """Sets or clears trace flags of processes. For each node the number of processes."""
        return self._set("ctf" if clear else "tf", [(processes, list(flags))])

    def _set(self, request: str, what: list[Any]) -> Answers:
        """For each node the number of functions or processes of a request."""
        answers = _numbers(self._answers(self._control.call(None, request, what), is_numbers))
        return Answers(answers, self._explained(answers.errors))

    def messages(self, /, **options: Any) -> Answers:
        """Traces all messages and no function; otherwise as :meth:`trace`."""
        return self.trace(messages=True, **options)

    def tokens(self, /, **options: Any) -> Answers:
        """Traces the events of sequential tracing and no function; otherwise as :meth:`trace`."""
        return self.trace(tokens=True, **options)

    def count(self, *patterns: str, type: str = "call_count") -> Answers:
        """Measures functions from now on. :meth:`counts` reads the results.

        Args:
            patterns: as for :meth:`trace`.
            type: ``"call_count"``, ``"call_time"`` (own time, nanoseconds) or ``"call_memory"`` (own allocations, words
                of 8 bytes).

        Returns:
            For each node how many functions match now.
        """
        from inviso.tprof._check import one_of
        from inviso.tprof._model import CALL_TYPES

        one_of("Cluster.count, type", type, CALL_TYPES)
        mfas = [mfa for text in patterns for mfa in parse(text, "Cluster.count, patterns")]
        if not mfas:
            raise BadArg("Cluster.count", "patterns", "nothing is asked for; pass a pattern such as 'shop.**'")
        answers = self._answers(self._control.call(None, "count", type, mfas), is_number)
        self._counted |= {*answers}
        return answers

    def counts(self) -> Answers:
        """The measurements of :meth:`count`.

        For each node a dict from ``"module:function/arity"`` to ``(calls, measurement)``, the largest first.
        """
        answers = self._answers(self._control.call(None, "counts"), is_counts)
        gone = self._counted - {*self._control.nodes()}
        answers.errors |= {node: NodeError(node, "its process has ended, and its counts with it") for node in gone}
        results = {
            node: {f"{m}:{f}/{a}": (calls, measured) for m, f, a, calls, measured in each}
            for node, each in answers.items()
        }
        return Answers(results, answers.errors)

    def stop(self, folder: str | os.PathLike[str] | None = None) -> Answers:
        """Stops tracing in every node, and copies the logs if there is a folder.

        The answers include nodes whose processes have ended meanwhile: their results come from the logs that they left.

        Args:
            folder: where the logs are copied. Default: the folder of :meth:`trace`.

        Returns:
            For each node a dict: ``records``, ``lost``, ``ended`` (why tracing ended by itself or was suspended, or
            None), ``log`` (the copy).
        """
        if folder is not None:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._logs = dict.fromkeys([*self.nodes, *self._noted, *self._began], os.fspath(folder))
        folders, self._logs = self._logs, {}
        stopped = self._answers(self._control.call(None, "stop_tracing"))
        info = self._answers(self._control.call(stopped, "info"), is_info)
        results: dict[str, Any] = {}
        errors = {**stopped.errors, **info.errors}
        for node, each in info.items():
            results[node] = {
                "records": each["written"],
                "lost": each["lost"],
                "ended": each["ended"] or each["suspended"],
            }
        self._fetch({node: folders[node] for node in info if node in folders}, results, errors)
        self._write_clocks({node: folder for node, folder in folders.items() if node in results})
        ended = self._ended(errors)
        for node in ended:
            self._read_left(node, folders.get(node), results, errors)
        for node in [*ended, *stopped]:
            self._forget(node)
        self._others -= {*stopped}
        return Answers(dict(sorted(results.items())), errors)

    def fetch(self, folder: str | os.PathLike[str]) -> Answers:
        """Copies the logs of nodes that have stopped tracing into a folder.

        It includes nodes that have ended since :meth:`trace`, and nodes that could not be added (:attr:`refused`):
        another control has them, or this host may only read them.

        Returns:
            For each node a dict: ``log``, None if the node has no log.
        """
        os.makedirs(folder, mode=0o700, exist_ok=True)
        read_only = [node for node in self.refused.errors if node not in self.nodes]
        results: dict[str, Any] = {node: {} for node in [*self.nodes, *read_only]}
        errors: dict[str, NodeError] = {}
        with self._control.visiting(read_only):
            self._fetch(dict.fromkeys(results, os.fspath(folder)), results, errors)
        for node in read_only:  # the error in refused says more
            errors.pop(node, None)
        self._write_clocks(dict.fromkeys(results, os.fspath(folder)))
        for node in self._ended(errors):
            self._read_left(node, os.fspath(folder), results, errors)
        return Answers({node: {"log": each["log"]} for node, each in sorted(results.items())}, errors)

    def _write_clocks(self, folders: dict[str, str]) -> None:
        """Writes the differences of other hosts' clocks beside the logs."""
        if all(host_of(node) == host() for node in folders):
            return
        from inviso.merge._clocks import Clock, write

        clocks = self._control.clocks()
        for node, folder in folders.items():
            write(os.path.join(folder, f"{node}.clock"), Clock(host_of(node), host(), clocks.get(host_of(node), [])))

    def _where(self, nodes: Iterable[str]) -> dict[str, tuple[int, str]]:
        """The processes and log folders of nodes that have begun tracing."""
        pids = self._control.pids()
        files = {
            node: each["files"] for node, each in self._answers(self._control.call(nodes, "info"), is_info).items()
        }
        return {node: (pids[node], os.path.dirname(each[0])) for node, each in files.items() if each and node in pids}

    def _ended(self, errors: dict[str, NodeError]) -> list[str]:
        """Nodes that began tracing and have ended, perhaps during this request. Their errors are removed: the logs
        answer.
        """
        gone = {node for node, error in errors.items() if error.reason == GONE}
        there = {*self._control.nodes(), *self.refused.errors} - gone
        ended = [node for node in {**self._noted, **self._began} if node not in there]
        for node in ended:
            errors.pop(node, None)
        return ended

    def _forget(self, node: str) -> None:
        """Forgets a node that has stopped tracing, or whose end was reported."""
        for known in (self._began, self._noted):
            known.pop(node, None)
        self._control.folder().take_note(node)

    def _read_left(self, node: str, folder: str | None, results: dict[str, Any], errors: dict[str, NodeError]) -> None:
        """Makes the result of a node that has ended, from its log."""
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
        """Copies the logs of nodes, several at a time."""
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
        """Merges the last log of each node that :meth:`stop` or :meth:`fetch` copied into one, in order of time.

        Args:
            out: the file. Its old contents are lost.
            to: ``"text"``, ``"inviso"``, ``"erlang"`` or ``"blocks"``, as for :func:`inviso.merge.logs`.
            clock: the clocks that decide the order, as for :func:`inviso.merge.logs`.

        Raises:
            BadArg: an argument is wrong, or no log has been copied.

        >>> with Cluster("no-such-node") as cluster:
        ...     cluster.merge("all.txt")
        Traceback (most recent call last):
        ...
        inviso.errors.BadArg: Cluster.merge, out: no log has been copied; give trace a folder, or call fetch, ...
        """
        from inviso.merge import logs

        if not self._copied:
            why = "no log has been copied; give trace a folder, or call fetch, and stop first"
            raise BadArg("Cluster.merge", "out", why)
        return logs(self._copied, out, to, clock=clock)

    def logs(self) -> Answers:
        """The full paths of each node's log files that exist."""
        answers = self._answers(self._control.call(None, "info"), is_info)
        return Answers({node: each["files"] for node, each in answers.items()}, answers.errors)

    def events(self, function: Callable[[Any], object]) -> None:
        """Calls a function with each event, in a thread of the control; see :func:`inviso.control.subscribe`.

        >>> with Cluster("no-such-node") as cluster:
        ...     cluster.events(print)
        """
        self._control.subscribe(function)

    # the end

    def leave(self, *nodes: str) -> Answers:
        """Lets nodes go, by default all, while tracing continues there. Returns the answer of each.

        A later :meth:`stop` of another cluster also reports nodes that have ended by then.

        >>> with Cluster("no-such-node") as cluster:
        ...     len(cluster.leave())
        0
        """
        for node, (pid, place) in self._began.items() if self._control.is_open else ():
            if not nodes or node in nodes:
                self._control.folder().note(node, pid, place)
        return self._answers(self._control.remove(nodes or None, ends=False))

    def close(self) -> None:
        """Ends the runtime components of the nodes, and the control. Only the listeners stay in the processes.

        A node that traced already when it was added continues, unless :meth:`stop` was called for it: it traces for
        another user.
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
        """The errors, with the reason for nodes that are suspended."""
        suspended = [node for node, error in errors.items() if error.reason == "suspended"]
        for node, each in self._answers(self._control.call(suspended, "info"), is_info).items():
            if each["suspended"]:
                errors[node] = NodeError(node, each["suspended"])
        return errors

    def _answers(self, pairs: Iterable[tuple[str, Any]], form: Callable[[Any], bool] | None = None) -> Answers:
        """The answers of nodes. A result that ``form`` refuses becomes the node's error."""
        results: dict[str, Any] = {}
        errors: dict[str, NodeError] = {}
        for node, answer in pairs:
            result = None if answer == OK else answer[1]
            if isinstance(answer, tuple) and answer[0] == "error":
                errors[node] = NodeError(node, result)
            elif form is not None and not form(result):
                errors[node] = NodeError(node, (Atom("bad_answer"), result))
            else:
                results[node] = result
        return Answers(results, errors)


def _numbers(answers: Answers) -> Answers:
    """The sum of each node's numbers. Anything else in the place of a number is the node's error."""
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
