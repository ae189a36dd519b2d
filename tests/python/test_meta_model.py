"""Random requests of meta tracing against a slow model of INVISO's rules: answers, patterns, calls of call-backs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from meta_tools import Runtime, mfa, other, work

WORK, OTHER = mfa(work), mfa(other)
MISSING = ("meta_tools", "missing", 1)
WILD = ("meta_tools", "_", 1)
EVEN: list[Any] = [([2, "_"], [], [])]
ALL: list[Any] = [("_", [], [("return_trace",)])]
BAD: list[Any] = [("no clause",)]
SPECS = {"empty": [], "even": EVEN, "all": ALL, "bad": BAD, "none": "no list"}


class Model:
    """The initiated functions with their match specifications."""

    def __init__(self) -> None:
        self.functions: dict[Any, dict[str, Any]] = {}
        self.suspended = False

    def ask(self, name: str, function: Any, *rest: Any) -> Any:
        if self.suspended and name not in ("suspend", "cancel_suspension"):
            return "error", "suspended"
        return getattr(self, name)(function, *rest)

    def init_tpm(self, function: Any) -> Any:
        if function == WILD:
            return "error", "bad_mfa"
        if function in self.functions:
            return "error", "already_initiated"
        self.functions[function] = {"anonymous": None, "named": []}
        return "ok"

    def tpm(self, function: Any, spec: str, initiates: bool) -> Any:
        if function == WILD or spec == "none":
            return "error", "badarg"
        if initiates:
            answer = self.init_tpm(function)
            if answer != "ok":
                return answer
        if function not in self.functions:
            return "error", "not_initiated"
        if spec == "bad" or function == MISSING:
            return "ok", 0
        self.functions[function] = {"anonymous": SPECS[spec], "named": []}
        return "ok", 1

    def tpm_ms(self, function: Any, name: str, spec: str) -> Any:
        if function not in self.functions:
            return "error", "not_initiated"
        if spec in ("bad", "none") or function == MISSING:
            return "ok", 0
        known = self.functions[function]
        known["anonymous"] = None
        known["named"] = [(name, SPECS[spec] or [("_", [], [])])] + [one for one in known["named"] if one[0] != name]
        return "ok", 1

    def ctpm_ms(self, function: Any, name: str) -> Any:
        known = self.functions.get(function, {"named": []})
        known["named"] = [one for one in known["named"] if one[0] != name]
        return "ok"

    def ctpm(self, function: Any) -> Any:
        return "ok" if self.functions.pop(function, None) is not None else ("error", "bad_mfa")

    def suspend(self, reason: Any) -> Any:
        self.suspended = True
        self.functions.clear()
        return "ok"

    def cancel_suspension(self, _: Any) -> Any:
        self.suspended = False
        return "ok"

    def pattern(self, function: Any) -> Any:
        """The trace session's pattern for a function; False for none."""
        known = self.functions.get(function)
        if known is None:
            return False
        if known["anonymous"] is not None:
            return known["anonymous"]
        joined = [clause for _, spec in known["named"] for clause in spec]
        return joined or False

    def takes(self, function: Any, arguments: list[Any]) -> bool:
        """Whether a call of it reaches the call-back."""
        pattern = self.pattern(function)
        return pattern is not False and (
            pattern == [] or any(head == "_" or head[0] == arguments[0] for head, *_ in pattern)
        )


function = st.sampled_from([WORK] * 6 + [OTHER] * 2 + [MISSING, WILD])
name = st.sampled_from(["a", "b", "c"])
spec = st.sampled_from(list(SPECS))
step = st.one_of(
    st.tuples(st.just("init_tpm"), function),
    st.tuples(st.just("tpm"), function, spec, st.booleans()),
    st.tuples(st.just("tpm_ms"), function, name, spec),
    st.tuples(st.just("tpm_ms"), function, name, spec),
    st.tuples(st.just("ctpm_ms"), function, name),
    st.tuples(st.just("ctpm"), function),
    st.tuples(st.just("suspend"), st.just("why")),
    st.tuples(st.just("cancel_suspension"), st.none()),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(step, max_size=25))
def test_requests_against_the_model(steps: list[Any]) -> None:
    seen: list[Any] = []

    def call(pid: Any, what: Any, data: Any) -> Any:
        seen.append(what[1])
        return "ok", data, None

    with tempfile.TemporaryDirectory() as folder:
        runtime, model = Runtime(Path(folder)), Model()
        assert runtime.begin() == ("ok", [("ti_log", "ok")])
        try:
            for request, *rest in steps:
                assert runtime.ask(request, *_arguments(request, rest, call)) == model.ask(request, *rest), (
                    request,
                    rest,
                )
                for known in (work, other):
                    assert runtime.patterns(known) == model.pattern(mfa(known))
                seen.clear()
                work(1), work(2), other()
                runtime.settle()
                expected = [[n, 0] for n in (1, 2) if model.takes(WORK, [n, 0])]
                assert seen == expected + [[]] * model.takes(OTHER, [None])
        finally:
            runtime.component.end()


def _arguments(request: str, rest: list[Any], call: Any) -> list[Any]:
    """The request to the component for a step of the model."""
    match request, rest:
        case "init_tpm", [mfa]:
            return [*mfa, call]
        case "tpm", [mfa, spec, initiates]:
            return [*mfa, SPECS[spec], *([call] if initiates else [])]
        case "tpm_ms", [mfa, name, spec]:
            return [*mfa, name, SPECS[spec]]
        case "ctpm_ms", [mfa, name]:
            return [*mfa, name]
        case "ctpm", [mfa]:
            return [*mfa]
        case "cancel_suspension", _:
            return []
    return rest
