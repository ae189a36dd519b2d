"""The forms of answers that a cluster reads. A node of another host may be of another version, or answer anything."""

from __future__ import annotations

from typing import Any

__all__ = ["is_about", "is_added", "is_counts", "is_info", "is_number", "is_numbers"]


def is_number(answer: Any) -> bool:
    """A number, of ``count``."""
    return isinstance(answer, int)


def is_numbers(answer: Any) -> bool:
    """A list of numbers and errors, of ``tpl`` and ``tf``.

    >>> is_numbers([3, ("error", "badarg")]), is_numbers([3, "x"])
    (True, False)
    """
    return isinstance(answer, list) and all(isinstance(one, int) or _is_error(one) for one in answer)


def is_added(answer: Any) -> bool:
    """``new``, ``already_added``, or ``(adopted, state, status, tag)``."""
    match answer:
        case str() | (str(), _, _, _):
            return True
    return False


def is_counts(answer: Any) -> bool:
    """A list of module, function, arity, calls, measurement."""
    if not isinstance(answer, list):
        return False
    for row in answer:
        match row:
            case (str(), str(), int(), int(), int()):
                pass
            case _:
                return False
    return True


def is_info(answer: Any) -> bool:
    """A dict of numbers, texts and files, of ``info``."""
    match answer:
        case {"written": int(), "lost": int(), "ended": None | str(), "suspended": None | str(), "files": list(files)}:
            return all(isinstance(path, str) for path in files)
    return False


def is_about(answer: dict[str, Any]) -> bool:
    """Whether the parts of an answer to ``about`` that a table shows have their forms."""
    match answer:
        case {"python": str(), "program": str(), "state": state, "control": control, "info": info}:
            return _is_both(state) and _is_control(control) and (info is None or is_info(info))
    return False


def _is_error(term: Any) -> bool:
    return isinstance(term, tuple) and len(term) == 2 and bool(term[0] == "error")


def _is_both(state: Any) -> bool:
    match state:
        case None | (str(), str() | (str(), _)):
            return True
    return False


def _is_control(control: Any) -> bool:
    match control:
        case None | (str(), int()):
            return True
    return False
