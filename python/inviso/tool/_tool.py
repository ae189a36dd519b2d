"""The tool itself: its start and its end."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from inviso.errors import BadArg
from inviso.terms import Atom

from . import _config
from ._base import OK
from ._cases import Definition, bindings, definitions
from ._nodes import TRACING, Nodes
from ._running import Variables
from ._sessions import Sessions

__all__ = ["Tool"]


class Tool(Sessions):
    """A control component with a list of nodes, trace cases and a history.

    Args:
        nodes: names such as ``"shop-1"``, or patterns with ``*`` and ``?``. Patterns are resolved once, when the tool
            starts. A name stays on the list even while no such node exists. Default: all present nodes.
        config_file: a file of Python literals with a pair of key and value on each line. The keys are the arguments
            below and ``nodes``. Passed arguments replace those of the file.
        tc_def_file: the file that lists trace cases. Default: the setting ``cases`` (INVISO_CASES).
        dir: the folder of the files of trace cases. Default: the folder of ``tc_def_file``.
        history_dir: the folder for names without a folder in :meth:`save_history`.
        tdg: the tracer data generator: ``function(node, date_time_utc, *more, *arguments) -> tracer_data``, a function,
            ``("module", "function")`` or ``("module", "function", arguments)``. Default: :func:`inviso.tool.std_tdg`.
        optg: the options generator, ``function(node, *arguments) -> ("ok", options)``, for new runtime components. It
            can't set the dependency, which is always 0: the components end with the tool.
        initial_tcs: trace cases that are run when a session begins: pairs of a name and variables.
        keep_nodes: nodes that :meth:`stop` leaves unchanged by default.
        reactivate: the waiting time before a node that suspended itself is reactivated, ``(first, factor, longest)``:
            first so many seconds, after each further suspension ``factor`` times as many, at most ``longest``. A node
            that has traced for as long as the last wait starts with the first again. None: only :meth:`reactivate` does
            it.
        reconnect: the waiting time before a search for nodes that are down, in the same form. None: only
            :meth:`reconnect_nodes` searches.
        timeout: seconds that a node has for an answer.
        debug: log each statement of a trace case.

    Errors that no caller waits for are in :attr:`problems`, and are warnings of the logger ``inviso.tool``.

    Raises:
        BadArg: an argument, the config file or the file of trace cases is wrong. Nothing was started.

    >>> from inviso.tool import Tool
    >>> with Tool("no-such-node") as tool:
    ...     tool.get_node_status()[1][0][1]
    ('ok', 'down')
    """

    def __init__(self, *nodes: str, config_file: str | os.PathLike[str] | None = None, **config: Any) -> None:
        unknown = [key for key in config if key not in _config.DEFAULTS or key == "nodes"]
        if unknown:
            known = ", ".join(key for key in _config.DEFAULTS if key != "nodes")
            raise BadArg("Tool", unknown[0], f"there is no such argument; there are {known}")
        settings = _config.read({**config, **({"nodes": nodes} if nodes else {})}, config_file)
        defined = settings["tc_def_file"]
        cases = {} if defined is None else definitions(defined, settings["dir"])
        self._initial = [(name, _initial_case(cases, name, variables)) for name, variables in settings["initial_tcs"]]
        super().__init__(settings, cases)
        try:
            self._nodes = Nodes(self._named(settings["nodes"]))
            self._control.subscribe(self._on_event)
            self._connect(list(self._nodes))
        except BaseException:
            self._agenda.close()
            self._control.close()
            raise
        self._look_for_nodes()

    def _named(self, patterns: Iterable[str]) -> list[str]:
        """Full names. A pattern gives the names of the present nodes that match."""
        names: list[str] = []
        for pattern in patterns:
            if any(sign in pattern for sign in "*?["):
                names += [each.node for each in self._control.find([pattern])]
            else:
                names += self._chosen("nodes", [pattern], [])
        return list(dict.fromkeys(names))

    def stop(self, untouched: Iterable[str] | None = None) -> Any:
        """Ends the tool: stops tracing, clears patterns, and ends its runtime components.

        A component that existed before the tool follows its own dependency.

        Args:
            untouched: nodes that continue unchanged, even without a control. Default: ``keep_nodes``.

        Returns:
            ``("ok", [(node, result)])`` for all other connected nodes; ``"shutdown"`` if it has ended already.

        >>> from inviso.tool import Tool
        >>> tool = Tool("no-such-node")
        >>> tool.stop(), tool.stop()
        (('ok', []), 'shutdown')
        """
        kept = self._chosen("stop", untouched, self._keep)
        if not self._control.is_open:
            return Atom("shutdown")
        with self._changing:
            session = self._end_session()
            self._agenda.close()
            with self._lock:
                jobs = list(self._jobs)
            self._end_jobs(jobs)
            kept = [name for name in kept if name in self._control.nodes()]
            others = [name for name in self._control.nodes() if name not in kept]
            if session is not None:
                self._control.call([name for name in others if self._nodes[name].state == TRACING], "stop_tracing")
            pairs = self._control.call(others, "ctp_all")
            self._control.call(kept, "change_options", {"dependency": Atom("infinity")})
            self._control.unsubscribe(self._on_event)
            adopted = [name for name in others if self._nodes[name].is_adopted]
            self._control.remove([*kept, *adopted], ends=False)
            self._control.remove(None, ends=True)
            self._control.close()
        return OK, pairs

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()


def _initial_case(cases: dict[str, Definition], name: str, variables: Variables) -> dict[str, Any]:
    """The variables of an initial trace case. BadArg if the case does not exist, or a variable is missing."""
    if name not in cases:
        raise BadArg("Tool", "initial_tcs", f"there is no trace case {name!r}; there are {', '.join(cases) or 'none'}")
    found = bindings("Tool", cases[name], variables)
    if isinstance(found, str):
        raise BadArg("Tool", "initial_tcs", f"{name!r} needs a value of its variable {found}")
    return found
