"""Cases of match specifications: a specification, a subject, and the result of a run.

Each runs in a process of its own, ``SELF``. Before it ``P1``, ``P2``, ``R1``, ``R2`` and ``O1`` are made, in this
order. The name ``known_name`` is registered to ``P1``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from .compare import Names, encode, same
from .product import BadArg, Ref, inviso
from .terms import Term, decode, text

__all__ = ["SpecCase", "run"]

KEYS = {"id", "mode", "spec", "subject", "result"}


@dataclass(frozen=True, slots=True)
class SpecCase:
    """One case."""

    id: str
    mode: str
    spec: Term
    subject: Term
    result: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The case in the form of its file."""
        return {k: getattr(self, k) for k in KEYS}


class Stage:
    """The processes, references and the port that a case may name."""

    def __init__(self) -> None:
        self.names = Names()
        self.over = threading.Event()
        self.values: dict[tuple[str, str], Any] = {}
        for name in ("P1", "P2"):
            self.values["pid", name] = inviso.spawn(self.over.wait)
        self.values |= {("ref", name): Ref() for name in ("R1", "R2")}
        self.values["port", "O1"] = inviso.Port()

    def name(self, kind: str, name: str) -> Any:
        if (kind, name) == ("pid", "SELF"):
            return inviso.self()
        return self.values[kind, name]

    def outcome(self, case: SpecCase) -> dict[str, Any]:
        """The outcome, in the form of a case's result."""
        for (kind, name), value in self.values.items():
            if kind == "pid":
                self.names.pids[value] = name
            elif kind == "ref":
                self.names.ref(value)
        self.names.pids[inviso.self()] = "SELF"
        subject = decode(case.subject, self.name)
        spec = decode(case.spec, self.name, spec=True)
        try:
            answer = inviso.match_spec_test(subject, spec, case.mode)
        except BadArg as error:
            return {"exception": {"a": "badarg"}, "text": str(error)}
        if answer[0] == "error":
            return {
                "error": [{"severity": str(p.severity), "class": str(p.kind)} for p in answer[1]],
                "text": str(answer),
            }
        _, result, flags, warnings = answer
        return {"ok": encode(result, self.names), "flags": sorted(map(str, flags)), "warnings": len(warnings)}

    def close(self) -> None:
        inviso.unregister("known_name")
        self.over.set()


def run(case: SpecCase) -> str | None:
    """The first difference in words, or None."""
    stage = Stage()
    got: list[dict[str, Any]] = []
    done = threading.Event()

    def body() -> None:
        try:
            got.append(stage.outcome(case))
        except Exception as error:
            got.append({"raised": f"{type(error).__name__}: {error}"})
        finally:
            done.set()

    inviso.register("known_name", stage.values["pid", "P1"])
    try:
        inviso.spawn(body)
        done.wait()
    finally:
        stage.close()
    return difference(case.result, got[0])


def difference(expected: dict[str, Any], got: dict[str, Any]) -> str | None:
    """How an outcome differs from the expected one, in words."""
    if "ok" in expected and "ok" in got:
        if not same(expected["ok"], got["ok"]):
            return f"expected {text(expected['ok'])}, got {text(got['ok'])}"
        if sorted(expected["flags"]) != got["flags"]:
            return f"expected the flags {expected['flags']}, got {got['flags']}"
        if expected["warnings"] != got["warnings"]:
            return f"expected {expected['warnings']} warnings, got {got['warnings']}"
        return None
    for kind in ("error", "exception"):
        if kind in expected and expected[kind] == got.get(kind):
            return None
    shown = {k: v for k, v in got.items() if k != "text"}
    return f"expected {expected}, got {shown}" + (f" ({got['text']})" if "text" in got else "")
