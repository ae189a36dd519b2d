"""Inviso's handlers and helpers: write a file of lines, and make arguments readable."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from inviso import etf
from inviso._native.etf import text as etf_text
from inviso.errors import BadArg, shown
from inviso.terms import Atom

__all__ = [
    "format_argument_string",
    "format_arguments",
    "outfile_closer",
    "outfile_opener",
    "outfile_writer",
    "posix",
]

OK, ERROR = Atom("ok"), Atom("error")


def posix(error: OSError) -> Atom:
    """Erlang's name of a system error.

    >>> posix(FileNotFoundError(2, "none"))
    'enoent'
    """
    made: Atom = Atom(errno.errorcode.get(error.errno or 0, "unknown").lower())
    return made


def outfile_opener(name: str | os.PathLike[str]) -> Any:
    """The begin handler of the standard output: opens and empties a file. Returns ``("ok", file)``.

    >>> outfile_opener("/nowhere/at/all")
    ('error', ('open', 'enoent'))
    """
    try:
        return OK, open(name, "w", encoding="utf-8")
    except OSError as error:
        return ERROR, (Atom("open"), posix(error))


def outfile_writer(node: str, term: Any, mappings: Iterable[Any], file: Any) -> Any:
    """The work handler of the standard output: writes the node, the names and the term on one line, in the form of
    Erlang's ``~w``.

    >>> import sys
    >>> _ = outfile_writer("node1@h", (inviso.Atom("drop"), 3), ["db"], sys.stdout)
    node1@h [<<100,98>>] {drop,3}
    """
    names = f"[{','.join(etf_text(etf.dumps(name)) for name in mappings)}]"
    try:
        file.write(f"{etf_text(etf.dumps(Atom(node)))} {names} {etf_text(etf.dumps(term))}\n")
    except OSError as error:
        return ERROR, posix(error)
    return OK, file


def outfile_closer(file: Any) -> Any:
    """The end handler of the standard output: closes the file. Returns None.

    >>> _, file = outfile_opener(os.devnull)
    >>> outfile_closer(file)
    """
    try:
        file.close()
    except OSError as error:
        return ERROR, posix(error)
    return None


Translator = Callable[[Any, Any], Any] | tuple[str, str]


def format_arguments(arguments: Any, options: Any, translators: Iterable[Translator]) -> Any:
    """Arguments in which translators have replaced lists, tuples, texts and bytes, at any depth.

    Args:
        arguments: a list of arguments.
        options: passed to the translators.
        translators: each ``translator(term, options)`` returns ``("ok", text)`` or False; or
            ``("module", "function")``. The first that returns a text for a term is used. An exception counts as False.

    >>> format_arguments([b"ab", (1, [104, 105])], [], [format_argument_string])
    ['"ab"', (1, '"hi"')]
    """
    if not isinstance(arguments, list):
        mend = "pass the list of a call's arguments"
        raise BadArg("format_arguments/3", "arguments", f"{shown(arguments)} is not a list; {mend}")
    functions = [_function(each) for each in translators]
    return [_translated(argument, options, functions) for argument in arguments]


def _function(translator: Any) -> Callable[[Any, Any], Any]:
    match translator:
        case (str(module), str(name)):
            found: Callable[[Any, Any], Any] = getattr(importlib.import_module(module), name)
            return found
        case _ if callable(translator):
            known: Callable[[Any, Any], Any] = translator
            return known
    mend = "pass a function of a term and the options, or ('module', 'function')"
    raise BadArg("format_arguments/3", "translators", f"{shown(translator)} is not a translator; {mend}")


def _translated(term: Any, options: Any, functions: list[Callable[[Any, Any], Any]]) -> Any:
    if isinstance(term, (list, tuple, bytes)) or type(term) is str:
        for function in functions:
            try:
                answer = function(term, options)
            except Exception:
                continue
            match answer:
                case ("ok", text):
                    return text
    if isinstance(term, list):
        return [_translated(each, options, functions) for each in term]
    if isinstance(term, tuple):
        return tuple(_translated(each, options, functions) for each in term)
    return term


def format_argument_string(term: Any, options: Any) -> Any:
    """A translator for text: a list of character codes, bytes or a str, if all of it is printable.

    >>> format_argument_string([72, 105], []), format_argument_string([1, 2], []), format_argument_string("é", [])
    (('ok', '"Hi"'), False, ('ok', '"é"'))
    """
    text = None
    if type(term) is str:
        text = term
    elif isinstance(term, bytes):
        text = term.decode("latin-1")
    elif isinstance(term, list) and term and all(type(each) is int and 0 <= each < 0x110000 for each in term):
        text = "".join(map(chr, term))
    if text is None or not text.isprintable():
        return False
    return OK, f'"{text}"'
