"""Finds out how a new interpreter was started, and removes our changes before its program runs."""

from __future__ import annotations

import os
import posix
import sys

from inviso import _native

__all__ = ["SITE", "has_hook", "place_of_program", "runs", "take_back_path", "uncover"]

SITE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_site")
"""A folder with a ``sitecustomize`` that starts us, for an interpreter in which this package is not installed."""

HOOK = "inviso_start.pth"


def has_hook() -> bool:
    """Whether each new interpreter starts us by itself: the package is installed, not only on the path."""
    site = sys.modules.get("site")
    if site is None:
        return False
    folders = [*site.getsitepackages(), site.getusersitepackages() if site.ENABLE_USER_SITE else ""]
    return any(posix.access(f"{folder}/{HOOK}", posix.R_OK) for folder in folders if folder)


def take_back_path(environment: dict[bytes, bytes]) -> None:
    """Removes our folder from ``PYTHONPATH`` and ``sys.path``."""
    ours = os.fsencode(SITE)
    value = environment.get(b"PYTHONPATH")
    if value == ours:
        del environment[b"PYTHONPATH"]
    elif value is not None and value.startswith(ours + b":"):
        environment[b"PYTHONPATH"] = value[len(ours) + 1 :]
    if SITE in sys.path:
        sys.path.remove(SITE)
        sys.path_importer_cache.pop(SITE, None)


def uncover(known: set[str], places: list[str | None]) -> None:
    """Removes modules that this package has imported, if the program has modules with the same names: it would not
    import its own.
    """
    theirs = {
        name.partition(".")[0]
        for place in places
        if place is not None and posix.access(place or ".", posix.R_OK)
        for name in posix.listdir(place or ".")
    }
    for name in list(sys.modules):
        top = name.partition(".")[0]
        if top in theirs and name not in known and top != "inviso":
            _native.interpreter.cover(name, sys.modules.pop(name))


def place_of_program(words: list[str]) -> str | None:
    """The folder that is first on the path at the start of a command line's program; None without one.

    >>> place_of_program(["python", "-X", "dev", "work/job.py", "-c"]), place_of_program(["python", "-m", "job"])
    ('work', '')
    """
    if sys.flags.safe_path:
        return None
    rest = iter(words[1:])
    for word in rest:
        if word in ("-X", "-W"):
            next(rest, None)
        elif word.startswith("-"):
            if word.startswith(("-c", "-m")) or word == "-" or (not word.startswith("--") and word[-1] in "cm"):
                return ""
        else:
            return word if os.path.isdir(word) else os.path.dirname(word)
    return ""


def runs(module: str, words: list[str] | None = None) -> bool:
    """Whether a command line is one by which ``multiprocessing`` runs this module of its own (None: this process's)."""
    begin = f"from {module} import "
    # 3.14.8 imports sys first
    return any(
        word.removeprefix("import sys; ").startswith(begin) for word in (sys.orig_argv if words is None else words)
    )
