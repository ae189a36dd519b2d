"""Makes Python values from the JSON terms of the cases, and writes the terms for readers.

Atoms are ``Atom``; true, false and undefined are ``True``, ``False`` and ``None``. Lists of small integers stay lists.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable
from typing import Any

from .product import Missing, atom, inviso

__all__ = ["Term", "decode", "equal_keys", "is_atom", "text"]

Term = Any
"""A term as JSON has it."""

KINDS = ("a", "i", "f", "b", "bits", "il", "t", "m", "pid", "ref", "port", "fun", "ts", "any", "session", "weak")


def is_atom(term: Term, *names: str) -> bool:
    """Whether a JSON term is an atom, and one of these if any are named."""
    return isinstance(term, dict) and set(term) == {"a"} and (not names or term["a"] in names)


def decode(term: Term, named: Callable[[str, str], Any], *, spec: bool = False) -> Any:
    """The Python value of a term.

    ``named`` gives pids, references and ports by kind and name. In a match specification (``spec``) a head like
    ``[a|'_']`` becomes a ``Prefix``.
    """
    if isinstance(term, int | str):
        return term
    if isinstance(term, list):
        return [decode(t, named, spec=spec) for t in term]
    match term:
        case {"a": name}:
            return atom(name)
        case {"i": digits}:
            return int(digits)
        case {"f": number}:
            return float(number)
        case {"b": data}:
            return base64.b64decode(data)
        case {"bits": data, "n": bits}:
            return odd_term("BitString")(base64.b64decode(data), bits % 8)
        case {"il": elements, "tail": tail}:
            front = [decode(t, named, spec=spec) for t in elements]
            if spec and is_atom(tail, "_"):
                return odd_term("Prefix")(*front)
            return odd_term("ImproperList")(front, decode(tail, named, spec=spec))
        case {"t": elements}:
            return tuple(decode(t, named, spec=spec) for t in elements)
        case {"m": pairs}:
            items = [(decode(k, named, spec=spec), decode(v, named, spec=spec)) for k, v in pairs]
            return dict(items) if not equal_keys([k for k, _ in items]) else odd_term("Map")(items)
        case {"pid": name} | {"port": name} | {"ref": name} | {"session": name}:
            return named(next(iter(term)), name)
        case {"fun": True, "arity": int(arity)}:
            return fun(arity)
    raise ValueError(f"not a term: {term!r}")


def odd_term(name: str) -> Any:
    """A value of one of the product's classes for terms that Python has no type for."""
    found = getattr(inviso, name, None)
    if found is None:
        raise Missing(f"there is no inviso.{name}")
    return found


def equal_keys(keys: list[Any]) -> bool:
    """Whether a dict can't distinguish these keys, or can't hold them."""
    try:
        return len(set(keys)) < len(keys)
    except TypeError:
        return True


@functools.cache
def fun(arity: int) -> Any:
    """A function of this number of parameters, always the same one."""
    parameters = ", ".join(f"p{i}" for i in range(arity))
    return eval(f"lambda {parameters}: None")


def text(term: Term) -> str:
    """A term approximately as Erlang writes it."""
    if isinstance(term, list):
        return "[" + ",".join(map(text, term)) + "]"
    if not isinstance(term, dict):
        return repr(term)
    match term:
        case {"a": name}:
            return str(name)
        case {"i": value} | {"f": value}:
            return str(value)
        case {"b": data}:
            return f"<<{base64.b64decode(data)!r}>>"
        case {"s": string}:
            return repr(string)
        case {"il": elements, "tail": tail}:
            return "[" + ",".join(map(text, elements)) + "|" + text(tail) + "]"
        case {"t": elements}:
            return "{" + ",".join(map(text, elements)) + "}"
        case {"m": pairs}:
            return "#{" + ",".join(f"{text(k)}=>{text(v)}" for k, v in pairs) + "}"
        case {"pid": name} | {"ref": name} | {"port": name} | {"session": name} | {"weak": name}:
            return f"<{name}>" if "weak" not in term else f"<weak {name}>"
        case {"ts": kind} | {"any": kind}:
            return f"<any {kind}>"
        case {"value": shown}:
            return str(shown)
    return str(term)
