"""Cells under a magic: IPython runs the code of the cell as usual, inside of a ``with`` block that observes it.

IPython calls a cell magic with the cell's text, which can't be awaited and has lost its line numbers. So the cell is
rewritten instead:

1. ``marked`` turns the first line into a string, ``'%%tprof -t call_time'``. The other lines keep their places.
2. ``Rewriter`` finds that string in the syntax tree. It moves the statements after it into a ``Cell``, and puts this in
   their place::

       with cells[7]:
           execute(cells[7].code)      # or: await evaluate(cells[7].code)
       value_of(7)                     # only if the cell ends with an expression

The statements are one code object. ``exec`` and ``eval`` run it in the notebook's namespace, without a Python frame in
between. So the cell is a call of ``<module>`` that is observed from its beginning to its end, and IPython shows its
value as usual.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
import threading
from collections.abc import Mapping
from types import CodeType, TracebackType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic
from IPython.display import display

from inviso.errors import BadArg

from ._magic import NAMES, Look, magic

__all__ = ["Cell", "Rewriter", "cells", "marked", "run_cell", "run_line", "value_of"]

VALUE = "__inviso_value__"
"""The variable that has the value of the cell's last expression until the cell ends."""

_FIRST = re.compile(rf"%%({'|'.join(NAMES)})(?:[ \t]+(.*))?")
_HERE = "__import__('inviso._magics')._magics"

cells: dict[int, Cell] = {}
"""Cells that run, or will run next, by their numbers."""


def marked(lines: list[str]) -> list[str]:
    """A cell's lines. If the first one is one of the magics, a string replaces it."""
    found = _FIRST.fullmatch(lines[0].rstrip()) if lines else None
    if found is None:
        return lines
    body = list(itertools.dropwhile(str.isspace, lines[1:]))
    if body and body[0].startswith("%%"):  # another cell magic, which gets the rest
        return [f"{found[0]!r}\n", *cell_magic(body)]
    return [f"{found[0]!r}\n", *lines[1:]]


marked.has_side_effects = True  # type: ignore[attr-defined]  # not used to check whether a cell is complete


class Rewriter:
    """Rewrites the syntax tree of a marked cell; an item of ``shell.ast_transformers``."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._numbers = itertools.count(1)

    def visit(self, tree: ast.AST) -> ast.AST:
        """The tree to run in place of this one."""
        match tree:
            case ast.Module(body=[ast.Expr(value=ast.Constant(value=str(text))) as first, *body]):
                found = _FIRST.fullmatch(text)
                if found is None:
                    return tree
                try:
                    is_async = _is_async(_compiled(self._shell, body, "<cell>"))
                except (SyntaxError, ValueError):
                    return ast.Module(body, [])  # IPython reports the error
                number = next(self._numbers)
                cells[number] = cell = Cell(self._shell, found[1], found[2] or "", body)
                return ast.Module(_in_place(number, cell.has_value, is_async, first), [])
        return tree


def _in_place(number: int, has_value: bool, is_async: bool, first: ast.stmt) -> list[ast.stmt]:
    """The statements that replace a cell's statements, at the place of its first line."""
    here = f"{_HERE}.cells[{number}]"
    run = f"await {_HERE}.evaluate({here}.code)" if is_async else f"{_HERE}.execute({here}.code)"
    text = f"with {here}: {run}\n"
    if has_value:
        text += f"{_HERE}.value_of({number})\n"
    made = ast.parse(text).body
    for node in itertools.chain.from_iterable(map(ast.walk, made)):
        if "lineno" in node._attributes:
            ast.copy_location(node, first)
    return made


class Cell:
    """One run of code under a magic.

    IPython ends some cells without ending their code: at a prompt, an interrupt of a cell that awaits does not end its
    task. Then the cell ends at IPython's event ``post_run_cell``.
    """

    def __init__(
        self,
        shell: Any,
        name: str,
        options: str,
        body: list[ast.stmt],
        filename: str | None = None,
        namespace: dict[str, Any] | None = None,
    ) -> None:
        self._shell = shell
        self._name = name
        self._line = options
        self._filename = filename
        self._body = body
        self._look: Look | None = None
        self._options: Any = None
        self._thread = 0
        self._depth = 0
        self._namespace: dict[str, Any] = shell.user_ns if namespace is None else namespace
        self.code: CodeType | None = None
        self.value: Any = None
        self.has_value = bool(body) and isinstance(body[-1], ast.Expr)
        """Whether it ends with an expression."""
        if isinstance(last := body[-1] if body else None, ast.Expr):
            target = ast.copy_location(ast.Name(VALUE, ast.Store()), last)
            body[-1] = ast.copy_location(ast.Assign([target], last.value), last)

    def __enter__(self) -> Cell:
        try:
            return self._begin()
        except BaseException:
            self._forget()
            raise

    def _begin(self) -> Cell:
        shown = magic(self._name)
        self._options = options = shown.options.read(self._line)
        if options.help:
            print(shown.help())
            self.code = compile("", "<help>", "exec", dont_inherit=True)
            return self
        if not self._body:
            raise UsageError(f"%%{self._name}: there is no code; write it below %%{self._name}, or after %{self._name}")
        self.code = _compiled(self._shell, self._body, self._filename or sys._getframe(2).f_code.co_filename)
        look = shown.look(options)
        self._thread = threading.get_ident()
        try:
            self._look = look
            self._shell.events.register("pre_run_cell", self._one_begins)
            self._shell.events.register("post_run_cell", self._one_ended)
            look.begin()
        except BaseException as error:
            self._leave()
            if isinstance(error, BadArg):
                raise UsageError(str(error)) from None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is not None or not self.has_value:
            self._forget()
        self._finish()
        if error is not None and where is not None and where.tb_next is not None:
            error.__traceback__ = where.tb_next  # without the line that replaces the cell

    def _finish(self) -> None:
        """Ends the look and shows its result, once."""
        look = self._leave()
        if look is None:
            return
        self.value = self._namespace.pop(VALUE, None)
        result = look.result()
        if self._options.output:
            self._shell.user_ns[self._options.output] = result
        display(look.table(result).bundle(), raw=True)
        if (picture := look.picture(result)) is not None:
            display(picture)
        if self.value is None:
            self._shell.displayhook.update_user_ns(result)

    def _leave(self) -> Look | None:
        """Ends the look. The first call returns it, later ones None."""
        look, self._look = self._look, None
        if look is not None:
            try:
                look.end()
            finally:
                for event, function in (("pre_run_cell", self._one_begins), ("post_run_cell", self._one_ended)):
                    if function in self._shell.events.callbacks[event]:
                        self._shell.events.unregister(event, function)
        return look

    def _forget(self) -> None:
        for number in [number for number, cell in cells.items() if cell is self]:
            del cells[number]

    def _one_begins(self, *_: Any) -> None:
        """Counts a cell inside of this one, by ``run_cell``."""
        self._depth += threading.get_ident() == self._thread

    def _one_ended(self, *_: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if self._depth:
            self._depth -= 1
        else:
            self._forget()
            self._finish()


def _compiled(shell: Any, body: list[ast.stmt], filename: str) -> CodeType:
    with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if shell.autoawait else 0):
        code = shell.compile(ast.Module(body, []), filename, "exec")
    assert isinstance(code, CodeType)
    return code


def _is_async(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_COROUTINE)


def value_of(number: int) -> Any:
    """The value of a cell that has ended. It can be read once."""
    cell = cells.pop(number, None)
    return None if cell is None else cell.value


def run_line(shell: Any, name: str, line: str, namespace: Mapping[str, Any] | None) -> Any:
    """Runs ``%tprof [options] code``, and returns the value of the code. It can read a function's variables, but not
    assign to them.
    """
    __tracebackhide__ = True
    if namespace is not None and not isinstance(namespace, dict):
        namespace = dict(namespace)  # a function's namespace, from 3.13 on
    options, code = magic(name).options.split(line)
    filename = shell.compile.cache(code)
    try:
        body = shell.compile.ast_parse(code, filename=filename).body
        is_async = _is_async(_compiled(shell, body, filename))
    except SyntaxError as error:
        raise UsageError(f"%{name}: {code!r} is not Python code: {error.msg}") from None
    if is_async:
        raise UsageError(f"%{name}: a line can't await; write %%{name}, and the code below it")
    with Cell(shell, name, options, body, filename, namespace) as cell:
        assert cell.code is not None
        exec(cell.code, shell.user_ns, namespace)
    return cell.value


def run_cell(shell: Any, name: str, line: str, cell: str) -> None:
    """Runs a magic that is called as a function: its cell runs as a cell of its own."""
    shell.run_cell(f"%%{name} {line}\n{cell}").raise_error()
