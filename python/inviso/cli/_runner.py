"""Runs a program in this process as the interpreter would: a script, a directory or zip file, or a module.

The program gets its own ``__main__``, ``sys.argv`` and ``sys.path[0]``. It ends as in the interpreter: its exceptions
reach the caller, so ``SystemExit`` gives the status, ``KeyboardInterrupt`` ends the process by the signal, the
interpreter waits for threads, and ``atexit`` functions run. Only the traceback is cut: an excepthook, which calls the
program's own, lets it begin with the program's first frame.

The program runs at the bottom of the stack: no frame of this package is below its first one (on a free-threaded build
they are visible). ``sys.orig_argv`` still shows the command.
"""

from __future__ import annotations

import io
import marshal
import os
import sys
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import MAGIC_NUMBER
from types import CodeType, ModuleType, TracebackType
from typing import Any

from inviso import _native

__all__ = ["Program", "run"]

PYC_HEADER = 16


@dataclass(frozen=True, slots=True)
class Program:
    """A program: ``name`` is a path, or a module's name if ``is_module``; ``args`` are its arguments.

    >>> Program("job.py", ("--fast",)).args
    ('--fast',)
    """

    name: str
    args: tuple[str, ...] = ()
    is_module: bool = False

    def title(self) -> str:
        """Its name in a report.

        >>> Program("work/job.py").title()
        'job.py'
        """
        return f"-m {self.name}" if self.is_module else os.path.basename(self.name) or self.name

    def place(self) -> str:
        """The first folder on its import path."""
        path = os.path.join(_working_directory(), "" if self.is_module else self.name)
        return path if os.path.isdir(path) else os.path.dirname(os.path.realpath(path))

    def files(self) -> list[str]:
        """The files that may have its code, found without importing anything."""
        if not self.is_module:
            path = os.path.join(_working_directory(), self.name)
            return [path, os.path.join(path, "__main__.py")]
        where = sys.path if sys.flags.safe_path else [_working_directory(), *sys.path[1:]]
        *packages, name = self.name.split(".")
        for package in packages:
            found = PathFinder.find_spec(package, where)
            where = [] if found is None else list(found.submodule_search_locations or [])
        found = PathFinder.find_spec(name, where)
        if found is not None and found.submodule_search_locations is not None:
            found = PathFinder.find_spec("__main__", list(found.submodule_search_locations))
        return [] if found is None or found.origin is None else [found.origin]


def run(program: Program, *, prepare: Callable[[], None], begin: Callable[[], None], cancel: Callable[[], None]) -> int:
    """Runs the program to its end. Returns the exit status if the program returns; its exceptions reach the caller.

    Args:
        program: the program.
        prepare: called before anything changes; for a script after it was read.
        begin: called just before the program's code is compiled.
        cancel: called if there is no code to run. The message and the status are the interpreter's then.
    """
    if program.is_module:
        prepare()
        return _run_found(program.name, ["-m", *program.args], _working_directory(), begin, cancel)
    path = os.path.join(_working_directory(), program.name)
    if _is_container(path):
        prepare()
        return _run_found(None, [program.name, *program.args], path, begin, cancel)
    return _run_file(program, path, prepare, begin, cancel)


def _run_file(
    program: Program, path: str, prepare: Callable[[], None], begin: Callable[[], None], cancel: Callable[[], None]
) -> int:
    try:
        with io.open_code(path) as file:
            content = file.read()
    except OSError as error:
        name = sys.orig_argv[0] if sys.orig_argv else sys.executable
        print(f"{name}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        return 2
    prepare()
    compiled = path.endswith(".pyc") or content[:2] == MAGIC_NUMBER[:2]
    main = _new_main(path, SourcelessFileLoader("__main__", path) if compiled else SourceFileLoader("__main__", path))
    sys.argv[:] = [program.name, *program.args]
    _first_on_path(os.path.dirname(os.path.realpath(program.name)))
    begin()
    try:
        code = _load_compiled(content, path) if compiled else compile(content, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        cancel()
        if compiled or (isinstance(error, SyntaxError) and error.lineno and _is_text(content)):
            return _fail(error)
        return _ask_interpreter(path)
    return _leave_by_the_same_door(code, main.__dict__)


def _run_found(
    module: str | None, argv: list[str], first: str, begin: Callable[[], None], cancel: Callable[[], None]
) -> int:
    """Runs a module by ``runpy``, as the interpreter does; with ``module`` None the ``__main__`` of ``first``."""
    import runpy

    main = _new_main(None, None)
    sys.argv[:] = argv
    _first_on_path(first, always=module is None)
    begin()
    run_as_main: Callable[..., Any] = runpy._run_module_as_main  # type: ignore[attr-defined]
    try:
        return _leave_by_the_same_door(run_as_main, "__main__" if module is None else module, module is not None)
    except (SystemExit, SyntaxError) as error:
        is_printed = isinstance(error, SyntaxError) or str(error.code).startswith(f"{sys.executable}: ")
        if is_printed and main.__dict__.get("__spec__") is None:
            cancel()
        raise


def _leave_by_the_same_door(call: Callable[..., object] | CodeType, *arguments: object) -> int:
    try:
        _native.interpreter.call_at_bottom(call, arguments)
    except SystemExit:
        raise
    except BaseException as error:
        sys.excepthook = _hook_without_our_frames(error)
        raise
    return 0


def _hook_without_our_frames(error: BaseException) -> Callable[..., None]:
    """An excepthook for ``error``, with which the program has ended. It restores the program's hook and calls that."""
    theirs = getattr(sys, "excepthook", None)
    own = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename == _HERE:
        own = own.tb_next

    def hook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
        if value is not error:
            return sys.__excepthook__(kind, value, traceback)
        sys.last_traceback = own
        value = value.with_traceback(own)
        if theirs is None:
            del sys.excepthook
            print("sys.excepthook is missing", file=sys.stderr)
            return sys.__excepthook__(kind, value, own)
        sys.excepthook = theirs
        try:
            theirs(kind, value, own)
        except SystemExit:
            raise
        except BaseException as second:
            below = second.__traceback__ and second.__traceback__.tb_next
            second.__context__ = None
            print("Error in sys.excepthook:", file=sys.stderr)
            sys.__excepthook__(type(second), second.with_traceback(below), below)
            print("\nOriginal exception was:", file=sys.stderr)
            sys.__excepthook__(kind, value, own)

    return hook


def _new_main(path: str | None, loader: SourceFileLoader | SourcelessFileLoader | None) -> ModuleType:
    """A new ``__main__`` with the interpreter's names. The old one is kept, because its code still runs."""
    main = ModuleType("__main__")
    names: dict[str, Any] = {"__builtins__": sys.modules["builtins"], "__loader__": loader}
    if path is not None:
        names["__file__"] = path
        if sys.version_info < (3, 15):
            names["__cached__"] = None
    if sys.version_info < (3, 14):
        names["__annotations__"] = {}
    main.__dict__.update(names)
    _replaced.append(sys.modules.get("__main__"))
    sys.modules["__main__"] = main
    return main


_replaced: list[ModuleType | None] = []
_HERE = run.__code__.co_filename


def _first_on_path(folder: str, *, always: bool = False) -> None:
    """Replaces this command's folder at the beginning of ``sys.path``; with -P or -I there is no such folder."""
    if not sys.flags.safe_path and sys.path:
        sys.path[0] = folder
    elif always or not sys.flags.safe_path:
        sys.path.insert(0, folder)
    else:
        return
    _give_way(folder)


def _give_way(folder: str) -> None:
    """Lets the program find its own modules, if this package has imported library modules with the same names.

    From now on an import may find a module of the program. So code that runs beside or after the program imports
    nothing, and native code gets library modules from ``_native`` by name.
    """
    ours = [name for name in _brought() if name.partition(".")[0] in sys.stdlib_module_names - _OF_INTERPRETER]
    theirs = set()
    for top in {name.partition(".")[0] for name in ours}:
        is_file = getattr(getattr(sys.modules.get(top), "__spec__", None), "has_location", False)
        if is_file:  # built-in and frozen modules come before any file
            found = PathFinder.find_spec(top, [folder])
            if found is not None and found.loader is not None:
                theirs.add(top)
    for name in ours:
        if name.partition(".")[0] in theirs:
            _native.interpreter.cover(name, sys.modules.pop(name))


def _brought() -> list[str]:
    """The modules that this command has imported. Modules before ``site`` were there before it, as for any program:
    some ``sitecustomize`` imports ``re``.
    """
    names = list(sys.modules)
    is_known = not sys.flags.no_site and "site" in names
    return names[names.index("site") + 1 :] if is_known else names


_OF_INTERPRETER = frozenset({"encodings"})
"""Modules that are imported from files before any program begins."""


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _is_container(path: str) -> bool:
    """Whether the import system can import from it: a directory or a zip file, not a plain script."""
    for hook in sys.path_hooks:
        try:
            hook(path)
        except ImportError:
            continue
        return True
    return False


def _load_compiled(content: bytes, path: str) -> CodeType:
    if content[:4] != MAGIC_NUMBER:
        raise ValueError(f"Bad magic number in .pyc file: {path}")
    code = marshal.loads(content[PYC_HEADER:])
    if not isinstance(code, CodeType):
        raise ValueError(f"Bad code object in .pyc file: {path}")
    return code


def _is_text(content: bytes) -> bool:
    """Whether the source can be decoded. If it can't, the interpreter's own error is better, when it reads the file."""
    if b"\0" in content:
        return False
    try:
        content.decode(tokenize.detect_encoding(io.BytesIO(content).readline)[0])
    except (SyntaxError, UnicodeError, LookupError):
        return False
    return True


def _ask_interpreter(path: str) -> int:
    """Runs the interpreter for a file that can't be decoded, so that it prints its own error."""
    return os.spawnv(os.P_WAIT, sys.executable, [sys.executable, path])


def _fail(error: BaseException) -> int:
    """Prints the interpreter's error, without frames, for a program that could not begin."""
    sys.__excepthook__(type(error), error.with_traceback(None), None)
    return 1
