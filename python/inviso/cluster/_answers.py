"""The answers of nodes: a mapping that is printed as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from inviso.errors import shown

__all__ = ["ADVICE", "Answers", "NodeError", "laid_out", "short"]


class NodeError(Exception):
    """The error of one node, in place of a result.

    >>> NodeError("shop-1@h", "nodedown")
    NodeError('shop-1@h: nodedown')
    """

    def __init__(self, node: str, reason: Any) -> None:
        super().__init__(f"{node}: {reason if isinstance(reason, str) else shown(reason)}")
        self.node = node
        self.reason = reason


class Answers(Mapping[str, Any]):
    """Results by node. Nodes that failed are in :attr:`errors`.

    >>> answers = Answers({"shop-1@h": 3}, {"shop-2@h": NodeError("shop-2@h", "nodedown")})
    >>> answers["shop-1@h"], len(answers)
    (3, 1)
    >>> print(answers)
    node      result
    shop-1@h  3
    shop-2@h  nodedown
    """

    def __init__(self, results: Mapping[str, Any], errors: Mapping[str, NodeError] | None = None) -> None:
        self._results = dict(results)
        self.errors: dict[str, NodeError] = dict(errors or {})
        """The error of each node that failed."""

    def __getitem__(self, node: str) -> Any:
        if node in self.errors:
            raise self.errors[node]
        return self._results[node]

    def __contains__(self, node: object) -> bool:
        return node in self._results

    def get(self, node: str, default: Any = None) -> Any:
        """A node's result; ``default`` if it has none, or failed."""
        return self._results.get(node, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def check(self) -> Self:
        """Returns itself. Raises an ``ExceptionGroup`` of :class:`NodeError` if a node failed.

        >>> Answers({"shop-1@h": 3}).check()["shop-1@h"]
        3
        """
        if self.errors:
            raise ExceptionGroup(f"failed: {', '.join(self.errors)}", list(self.errors.values()))
        return self

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each node: ``node``, and the result's fields, or ``result``, or ``error``.

        >>> Answers({"a@h": {"state": "new"}}).rows()
        [{'node': 'a@h', 'state': 'new'}]
        """
        found = [
            {"node": node, **(each if isinstance(each, dict) else {"result": each})}
            for node, each in self._results.items()
        ]
        return found + [{"node": node, "error": short(error)} for node, error in self.errors.items()]

    def table(self, *, plain: bool = False) -> tuple[list[str], list[list[str]]]:
        """Headings and cells. An error stands in place of the results. ``plain``: for another program to read."""
        names: list[str] = []
        for row in self.rows():
            names += [name for name in row if name not in (*names, "error")]
        names = names if len(names) > 1 else ["node", "result"]
        cells = []
        for row in self.rows():
            if "error" in row:
                cells.append([row["node"], row["error"], *[""] * (len(names) - 2)])
            else:
                cells.append([_cell(row.get(name), plain) for name in names])
        return names, cells

    def __str__(self) -> str:
        names, cells = self.table()
        return "\n".join(laid_out([names, *cells]))

    def __repr__(self) -> str:
        return f"<answers of {len(self._results)} nodes, {len(self.errors)} errors>"

    def _repr_html_(self) -> str:
        from html import escape

        names, cells = self.table()
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


ADVICE = {
    "already_initiated": "it traces already; stop that first",
    "not_tracing": "it does not trace; begin that by 'inviso start'",
    "no_tracerdata": "it has no log open; earlier ones are in its folder of logs",
    "timeout": "it did not answer in time",
}
"""Explanations of reasons, for people who read a table."""


def laid_out(rows: list[list[str]]) -> list[str]:
    """Lines of text of rows, with aligned columns.

    >>> laid_out([["node", "records"], ["shop-1@h", "3"]])
    ['node      records', 'shop-1@h  3']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def short(error: NodeError) -> str:
    """The reason in words, without the node's name.

    >>> short(NodeError("shop-1@h", "timeout"))
    'timeout: it did not answer in time'
    """
    match error.reason:
        case ("refused", control, pid):
            return f"refused: it belongs to the control {control}, process {pid}"
        case str(reason) if reason in ADVICE:
            return f"{reason}: {ADVICE[reason]}"
    return str(error).removeprefix(f"{error.node}: ")


def _cell(value: Any, plain: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if plain else f"{value:,}"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, (list, tuple)) and all(isinstance(each, (str, int)) for each in value):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else shown(value)
