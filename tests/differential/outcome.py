"""The outcomes of a case, here and in Erlang, in the form of the case files; and their comparison."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable
from typing import Any

from tests.conformance.compare import Names, encode, same
from tests.conformance.product import BadArg, Ref, SystemLimit, inviso
from tests.conformance.terms import decode

from .erlang import Case
from .etf import Term, atom_name

__all__ = ["Here", "differs", "problem_class", "there"]

Outcome = dict[str, Any]

CLASSES = (
    ("empty_body", r"not return"),
    ("wrong_dialect", r"wrong dialect"),
    ("unbound_variable", r"unbound"),
    ("not_in_guard", r"guard context"),
    ("wrong_arity", r"wrong number of arg|with(out)? arguments|more than one arg"),
    ("wrong_context", r"called in this context"),
    ("bad_head", r"head is invalid"),
    ("bad_argument", r"non small|negative integer"),
    ("no_such_function", r"does_not_exist"),
    ("not_a_clause", r"tuple of arity"),
    ("variable_in_map_key", r"^Variable .*map key"),
    ("wildcard_in_map_key", r"^Underscore"),
    ("not_a_proper_list", r"proper list|expression part \["),
    ("not_a_list", r"a list"),
    ("not_a_call_nor_a_tuple", r"^\{"),
)
"""A class and what Erlang's words for it contain; the first that fits."""


def problem_class(text: str) -> str | None:
    """The class of a problem by Erlang's text; None for an unknown one, for example if its end is cut off."""
    return next((name for name, words in CLASSES if re.search(words, text, re.DOTALL)), None)


def there(answer: Term) -> Outcome:
    """The outcome in an answer of Erlang."""
    match answer:
        case {"t": [{"a": "ok"}, result, flags, warnings]}:
            return {"ok": result, "flags": sorted(map(atom_name, flags)), "warnings": warnings}
        case {"t": [{"a": "error"}, problems]}:
            return {"error": [problem(*p["t"]) for p in problems]}
        case {"t": [{"a": "exception"}, reason]}:
            return {"exception": reason}
    return {"died": answer}


def problem(severity: Term, text: Term) -> dict[str, Any]:
    """One problem by its class; its text too if that is not known."""
    words = base64.b64decode(text["b"]).decode(errors="replace")
    name = problem_class(words)
    return {"severity": atom_name(severity), "class": name} | ({} if name else {"text": words})


class Here:
    """The process, references, port and function that cases name, and a thread that is ``SELF``."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.names = Names()
        self.values: dict[tuple[str, str], Any] = {}
        for name in ("P1", "P2"):
            pid = inviso.spawn(self.over.wait)
            self.values["pid", name] = pid
            self.names.pids[pid] = name
        inviso.register("known_name", self.values["pid", "P1"])
        for name in ("R1", "R2"):
            self.values["ref", name] = Ref()
            self.names.ref(self.values["ref", name])
        self.port = self.values["port", "O1"] = inviso.Port()

    def close(self) -> None:
        """Lets the processes end."""
        self.over.set()
        inviso.unregister("known_name")

    def call(self, function: Callable[[], None]) -> None:
        """Runs a function in the process ``SELF``."""
        failed: list[BaseException] = []
        done = threading.Event()

        def body() -> None:
            try:
                self.values["pid", "SELF"] = inviso.self()
                self.names.pids[inviso.self()] = "SELF"
                function()
            except BaseException as error:
                failed.append(error)
            finally:
                done.set()

        inviso.spawn(body)
        done.wait()
        if failed:
            raise failed[0]

    def outcome(self, case: Case) -> Outcome:
        """This system's outcome of a case. Called in ``SELF``."""
        subject = decode(case.subject, self.named)
        spec = decode(case.spec, self.named, spec=True)
        try:
            answer = inviso.match_spec_test(subject, spec, case.mode)
        except BadArg as error:
            return {"exception": {"a": "badarg"}, "text": str(error)}
        except SystemLimit as error:
            return {"exception": {"a": "system_limit"}, "text": str(error)}
        except Exception as error:
            return {"raised": f"{type(error).__name__}: {error}"}
        if answer[0] == "error":
            return {"error": [{"severity": str(p.severity), "class": str(p.kind)} for p in answer[1]]}
        _, result, flags, warnings = answer
        term = self.with_names(encode(result, self.names))
        return {"ok": term, "flags": sorted(map(str, flags)), "warnings": len(warnings)}

    def named(self, kind: str, name: str) -> Any:
        """The value that a case names."""
        return self.values[kind, name]

    def with_names(self, term: Term) -> Term:
        """A term with the port's name and with functions, in place of the texts of values that are not copied."""
        if isinstance(term, list):
            return [self.with_names(t) for t in term]
        match term:
            case {"value": shown} if shown == repr(self.port):
                return {"port": "O1"}
            case {"value": str(shown)} if shown.startswith("<function "):
                return {"fun": True, "arity": 1}
            case dict():
                return {k: self.with_names(v) if isinstance(v, dict | list) else v for k, v in term.items()}
        return term


def differs(wanted: Outcome, got: Outcome) -> bool:
    """Whether an outcome differs from Erlang's. Parts that Erlang's text leaves open are not compared."""
    if "ok" in wanted and "ok" in got:
        flags = wanted["flags"] != got["flags"] or wanted["warnings"] != got["warnings"]
        return flags or not same(wanted["ok"], got["ok"])
    if "error" in wanted and "error" in got:
        ours, theirs = got["error"], wanted["error"]
        return len(ours) != len(theirs) or any(
            a["severity"] != b["severity"] or b["class"] not in (None, a["class"])
            for a, b in zip(ours, theirs, strict=True)
        )
    return "exception" not in wanted or wanted["exception"] != got.get("exception")
