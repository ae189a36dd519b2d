"""Patterns: a package and all below it, stars that match nothing, suggestions for a pattern that matches nothing."""

from __future__ import annotations

import json
import json.decoder
import pathlib
import sys
from typing import Any

import inviso
import pytest
from cli_tools import command, execute
from inviso import BadArg, dbg, tprof, trace
from inviso._pattern import covers, hint, outermost, parse

TREE = {
    "pkg/__init__.py": "from . import inner\ndef top(): return inner.below()\n",
    "pkg/inner.py": "def below(): return 1\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/late.py": "def late(): return 2\nclass C:\n    def method(self): return late()\n",
    "pkgs.py": "def other(): return 3\n",
    "main.py": (
        "import pkg, pkgs\nfor _ in range(3): pkg.top(); pkgs.other()\n"
        "from pkg.deep import late\nprint(late.C().method())\n"
    ),
}


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def on_path(tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tree))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pkg", "pkgs")]:
        monkeypatch.delitem(sys.modules, name)


def test_a_session_takes_a_package_and_all_below_it(on_path: None, session: trace.Session) -> None:
    import pkg  # type: ignore[import-not-found]
    import pkg.deep.late  # type: ignore[import-not-found]
    import pkgs  # type: ignore[import-not-found]

    assert session.function(("pkg.**", "_", "_"), True, ["call_count"]) >= 4
    pkg.top(), pkgs.other(), pkg.deep.late.C().method()
    counts = {
        mfa: session.info(mfa, "call_count")[1]
        for mfa in (
            ("pkg", "top", 0),
            ("pkg.inner", "below", 0),
            ("pkg.deep.late", "C.method", 1),
            ("pkgs", "other", 0),
        )
    }
    assert list(counts.values()) == [1, 1, 1, False]
    assert session.function(("pkg.**", "_", "_"), False, ["call_count"]) >= 4


def test_the_commands_take_a_package(tree: pathlib.Path) -> None:
    done = execute(command("tprof", "-p", "pkg.**", "--json", "out.json", "main.py"), cwd=tree)
    assert done.returncode == 0, done.stderr
    found = json.loads((tree / "out.json").read_text())["functions"]
    assert {(f["module"], f["function"], f["calls"]) for f in found if not f["function"].startswith("<")} >= {
        ("pkg", "top", 3), ("pkg.inner", "below", 3), ("pkg.deep.late", "late", 1), ("pkg.deep.late", "C.method", 1),
    }  # fmt: skip
    assert {f["module"] for f in found} <= {"pkg", "pkg.inner", "pkg.deep", "pkg.deep.late"}
    done = execute(command("trace", "-p", "pkg.**", "main.py"), cwd=tree)
    assert done.stderr.count("call pkg.inner:below()") == 3 and "call pkg.deep.late:late()" in done.stderr
    assert "pkgs" not in done.stderr


def test_dbg_takes_a_package(on_path: None, dbg_over: None) -> None:
    lines: list[Any] = []
    dbg.tracer("process", (lambda message, state: lines.append(message), None))
    dbg.p(inviso.self(), "c")
    answer = dbg.tpl("pkg.**", "_", [])
    assert answer[0] == "ok" and answer[1][0][2] >= 3
    sys.modules["pkg"].top()
    dbg.stop()
    assert [message[3][:2] for message in lines] == [("pkg", "top"), ("pkg.inner", "below")]


@pytest.mark.parametrize(
    "pattern",
    [
        "pandas.*",
        "*",
        "json:*",
        "json:load*",
        "j*n",
        "json.*:loads",
        "json.**.x",
        ".**",
        "json.**:loads",
        "json.**:loads:1",
    ],
)
def test_a_star_that_stands_for_nothing_is_refused(pattern: str, session: trace.Session) -> None:
    with pytest.raises(BadArg, match=r"'package\.\*\*'|package\.\*\*"):
        tprof.profile(len, "", pattern=pattern)
    module, function, arity = (*pattern.split(":"), "_", "_")[:3]
    with pytest.raises(BadArg, match=r"'package\.\*\*'"):
        session.function((module, function, int(arity) if arity.isdigit() else arity), True, ["local"])


def test_a_package_of_wildcards_is_no_one_function(session: trace.Session) -> None:
    with pytest.raises(BadArg, match="name one function"):
        session.info(("json.**", "loads", 1), "call_count")


def test_of_two_patterns_with_a_function_in_common_one_holds_the_other() -> None:
    patterns = [
        p
        for text in ("json.**", "json", "json.decoder", "json.decoder:f", "json.decoder.**", "jsonx")
        for p in parse(text, "f, p")
    ]
    assert outermost(patterns) == [("json.**", "_", "_"), ("jsonx", "_", "_")]
    assert not covers(("json", "_", "_"), ("json.**", "_", "_")) and covers(("_", "_", "_"), ("json.**", "_", "_"))


def test_what_is_near_is_said(tree: pathlib.Path) -> None:
    assert hint(("jsn", "_", "_")) == "did you mean 'json'?"
    assert hint(("json", "_", "_")) == "json is a package; 'json.**' takes what is below it, too"
    assert hint(("json.decoder", "JSONDecoder.decod", "_")) == "did you mean 'json.decoder:JSONDecoder.decode'?"
    assert hint(("json", "loads", 8)) == hint(("_", "_", "_")) == hint(("zzqqyy", "_", "_")) == ""
    done = execute(command("trace", "-p", "pkg:tap", "main.py"), cwd=tree)
    assert done.stderr.endswith("pkg:tap:_ matches no function; did you mean 'pkg:top'?\n")
    done = execute(command("tprof", "-p", "pkg.iner", "main.py"), cwd=tree)
    assert (
        "No call of a function that matches pkg.iner:_:_ was measured; did you mean 'pkg.inner'?"
        in done.stderr + done.stdout
    )
