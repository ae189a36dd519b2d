"""A node whose answers have another form is an error in its place: the other nodes keep theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from inviso import Cluster
from inviso.cluster import Answers
from inviso.control._control import Found
from inviso.terms import Atom
from test_runtime_arguments import TERMS, variants

OK = Atom("ok")
INFO = {
    "written": 3,
    "lost": 0,
    "ended": None,
    "suspended": None,
    "overload_check_failed": 0,
    "files": [],
    "meta": None,
}
ABOUT = {
    **{"node": "good@here", "pid": 1, "program": "p.py", "python": "3.11.7", "log_dir": "/logs", "tag": "t"},
    **{"state": ("tracing", ("suspended", "why")), "info": INFO, "control": ("other@here", 7)},
}
GOOD: dict[str, Any] = {
    **{"info": INFO, "counts": [("m", "f", 1, 2, 3)], "count": 3, "tpl": [1, 2], "tf": [5], "change_options": None},
    **{"stop_tracing": "idle", "log_paths": "no_log", "init_tracing": [("trace_log", "ok")]},
}


class Nodes:
    """In place of a control's nodes: one that answers well, and one whose answer to a request is another."""

    def __init__(self, request: str, answer: Any) -> None:
        self.request, self.answer = request, answer

    def call(self, names: Iterable[str] | None, request: str, *arguments: Any) -> list[Any]:
        asked = ["bad@here", "good@here"] if names is None else list(names)
        return [(node, (OK, self._of(node, request))) for node in asked]

    def call_each(self, asked: list[tuple[str, Any]], request: str) -> list[Any]:
        return self.call([node for node, _ in asked], request)

    def _of(self, node: str, request: str) -> Any:
        return self.answer if (node, request) == ("bad@here", self.request) else GOOD.get(request, "ok")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster("no-such-node") as made:
        yield made


def asked(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, request: str, answer: Any, work: Any) -> Answers:
    nodes = Nodes(request, answer)
    with monkeypatch.context() as patched:
        for name in ("call", "call_each"):
            patched.setattr(cluster._control, name, getattr(nodes, name))
        found: Answers = work(cluster)
    str(found), repr(found), found.rows()
    return found


CALLS: dict[str, tuple[str, Callable[[Cluster], Answers]]] = {
    "logs": ("info", lambda cluster: cluster.logs()),
    "counts": ("counts", lambda cluster: cluster.counts()),
    "count": ("count", lambda cluster: cluster.count("m:f")),
    "patterns": ("tpl", lambda cluster: cluster.patterns("m:f")),
    "flags": ("tf", lambda cluster: cluster.flags("call")),
    "stop": ("info", lambda cluster: cluster.stop()),
    "trace, functions": ("tpl", lambda cluster: cluster.trace("m:f")),
    "trace, processes": ("tf", lambda cluster: cluster.trace("m:f")),
}


@pytest.mark.parametrize(("request_", "work"), CALLS.values(), ids=CALLS)
def test_an_answer_of_another_form(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, request_: str, work: Callable[[Cluster], Answers]
) -> None:
    good = asked(cluster, monkeypatch, request_, GOOD[request_], work)
    assert sorted(good) == ["bad@here", "good@here"] and good.errors == {}
    wrong = 0
    for answer in [*TERMS, *variants(GOOD[request_])]:
        found = asked(cluster, monkeypatch, request_, answer, work)
        assert found["good@here"] == good["good@here"], answer
        assert ("bad@here" in found) != ("bad@here" in found.errors), answer
        wrong += "bad@here" in found.errors
    assert wrong > 20


def test_where_a_log_is_may_be_unknown(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is needed only if the process ends before :meth:`Cluster.stop`."""
    for answer in [*TERMS, *variants(INFO)]:
        found = asked(cluster, monkeypatch, "info", answer, lambda cluster: cluster.trace("m:f"))
        assert (dict(found), found.errors) == ({"bad@here": 3, "good@here": 3}, {}), answer


def test_the_error_has_the_answer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(cluster, monkeypatch, "counts", [("m", "f", 1)], lambda cluster: cluster.counts())
    assert found.errors["bad@here"].reason == ("bad_answer", [("m", "f", 1)])


def test_a_status_of_another_form(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for about in [*variants(ABOUT), *({**ABOUT, name: None} for name in ABOUT)]:
        if not isinstance(about, dict) or not {"node", "pid"} <= about.keys():
            continue
        bad = {**about, "node": "bad@here", "pid": 2}
        monkeypatch.setattr(cluster, "found", lambda bad=bad: [Found(bad), Found(ABOUT)])
        found = cluster.status()
        str(found)
        assert found["good@here"]["state"] == "tracing"
        assert ("bad@here" in found) != ("bad@here" in found.errors)
