"""Checks of arguments that several functions take."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from inviso.errors import BadArg, is_text, shown
from inviso.match_spec._compile import compiled, derives, word

if TYPE_CHECKING:
    from inviso import _native
    from inviso._native.process import Pid

__all__ = ["check_process", "list_of", "mfa_of", "one_of", "spec_of", "why_not_here"]


def check_process(where: str, argument: str, pid: Pid) -> None:
    why = why_not_here(pid)
    if why is not None:
        raise BadArg(where, argument, why)


def why_not_here(pid: Pid) -> str | None:
    if not pid.is_local():
        return f"{shown(pid)} is a process of another node; pass one of this node"
    if pid.kind == "queue":
        return f"{shown(pid)} is a queue, which doesn't run; pass a thread or task that uses it"
    return None


def list_of(where: str, argument: str, values: Any) -> list[Any]:
    # no isinstance() with an abstract class: a pattern may trace its code
    if isinstance(values, (str, bytes, dict)) or not hasattr(type(values), "__iter__"):
        raise BadArg(where, argument, f"{shown(values)} is not a list; pass a list such as ['call']")
    return list(values)


def one_of(where: str, argument: str, kind: str, value: Any, known: Any) -> Any:
    if isinstance(value, str) and value in known:
        return known[value] if isinstance(known, dict) else value
    near = difflib.get_close_matches(value, list(known), 1) if isinstance(value, str) else []
    mend = f"did you mean {near[0]!r}?" if near else f"pass one of {', '.join(known)}"
    raise BadArg(where, argument, f"unknown {kind} {shown(value)}; {mend}")


def mfa_of(where: str, argument: str, mfa: Any, *, wildcards: bool) -> tuple[str | None, str | None, int | None]:
    if not (isinstance(mfa, tuple) and len(mfa) == 3):
        raise BadArg(where, argument, f"{shown(mfa)} is not an MFA; pass (module, qualified name, arity)")
    module, name, arity = mfa
    if not isinstance(module, str):
        raise BadArg(where, argument, f"the module {shown(module)} is not a str; pass its __name__")
    if not isinstance(name, str):
        raise BadArg(where, argument, f"the function {shown(name)} is not a str; pass its __qualname__")
    for part in (module, name):
        if not is_text(part):
            raise BadArg(
                where, argument, f"{shown(part)} has a lone surrogate, and no name has one; pass a name without"
            )
    if "*" in name or "*" in module.removesuffix(".**") or module == ".**":
        why = f"{shown(module if '*' in module else name)} has a '*' that stands for nothing"
        raise BadArg(where, argument, f"{why}; 'package.**' as the module is a package and all below it, '_' is any")
    any_arity = isinstance(arity, str) and arity == "_"
    if not any_arity and (not isinstance(arity, int) or isinstance(arity, bool)):
        raise BadArg(where, argument, f"the arity {shown(arity)} is not an int; pass the number of parameters, or '_'")
    if not any_arity and not 0 <= arity < 1 << 31:
        arity = -1  # any int is allowed; no function has this one
    wild = module == "_", name == "_", any_arity
    if (any(wild) or module.endswith(".**")) and not wildcards:
        raise BadArg(where, argument, f"{shown(mfa)} has wildcards; name one function, with its arity")
    if module.endswith(".**") and wild != (False, True, True):
        why = (
            f"{shown(mfa)} names a function below a package; 'package.**' takes all its functions, "
            "with '_' as the last two"
        )
        raise BadArg(where, argument, why)
    if wild not in ((False, False, False), (False, False, True), (False, True, True), (True, True, True)):
        why = f"{shown(mfa)} is not a pattern; wildcards are (m, f, '_'), (m, '_', '_'), ('_', '_', '_')"
        raise BadArg(where, argument, why)
    return (None if wild[0] else module, None if wild[1] else name, None if wild[2] else arity)


def spec_of(where: str, spec: Any) -> tuple[str, _native.match_spec.MatchProgram | None]:
    if spec is True or spec is False:
        return "on" if spec else "off", None
    name = word(spec)
    if name in ("pause", "restart"):
        return name, None
    if derives(spec, list):
        return "on", compiled(where, spec, "call") if list.__len__(spec) else None
    why = f"{shown(spec)} is not a match specification; pass True, False, 'pause', 'restart' or []"
    raise BadArg(where, "match_spec", why)
