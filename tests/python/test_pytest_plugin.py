"""pytest's plugin: in runs of pytest inside this one, and in a few separate runs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from inviso import log, trace
from inviso._pytest import _limits, _measured, _merged, _recorder, _settings  # noqa: F401  # inner runs forget what they import

ROOT = Path(__file__).parents[2]
PLUGIN = ("-p", "_inviso_pytest", "-p", "no:cacheprovider")
"""Loads plugins by name only. Inner runs begin faster, and the entry point need not be installed."""

SHOP = """
PRICES = {"tea": 3, "milk": 1}

def price(name):
    return PRICES[name]

def total(order):
    return sum(price(name) for name in order)
"""

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("_inviso_pytest") is None, reason="the plugin is not installed"
)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with the module ``shop``. No session is left, and those of the outer run are unchanged."""
    for name in (
        "INVISO_PATTERNS",
        "INVISO_EVENTS",
        "INVISO_LIMIT",
        "INVISO_RING_BYTES",
        "INVISO_CONFIG",
        "PYTEST_ADDOPTS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(shop=SHOP)
    return pytester


def run(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    """A run inside this process. It leaves no session."""
    before = trace.session_info("all")
    result = project.runpytest_inprocess(*PLUGIN, *words)
    assert trace.session_info("all") == before
    return result


def test_the_last_events_of_a_failed_test(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest, shop
        def test_passes(): assert shop.total(["tea"]) == 3
        def test_fails(): shop.total(["milk", "cake"])
        @pytest.fixture
        def broken(): shop.price("salt")
        def test_fixture(broken): pass
        def test_calls_nothing(): assert 0
        @pytest.mark.xfail
        def test_expected(): shop.price("oil")
    """)
    result = run(project, "--inviso-on-fail", "--inviso-returns")
    result.assert_outcomes(passed=1, failed=2, errors=1, xfailed=1)
    result.stdout.fnmatch_lines([
        "*inviso: 2 events*",
        "* ms (MainThread) call shop:price('salt')",
        "* ms (MainThread) exception from shop:price/1: error ('KeyError', ('salt',))",
        "*inviso: 8 events*",
        "* ms (MainThread) call shop:total(?'milk', 'cake'?)",
        "* ms (MainThread) returned from shop:price/1 -> 1",
        "* ms (MainThread) call shop:price('cake')",
        "* ms (MainThread) exception from shop:total/1: error ('KeyError', ('cake',))",
        "log: *test_fails-call.log",
        "no call of shop in this test",
    ])  # fmt: skip
    text = str(result.stdout)
    assert "'tea'" not in text and "'oil'" not in text  # of tests that did not fail
    (path,) = re.findall(r"^log: (.*test_fails-call.log)$", text, re.MULTILINE)
    assert ["cake"] in [message[3][2] for message in log.read(path) if message[2] == "call"]


def test_calls_alone_without_an_option(project: pytest.Pytester) -> None:
    project.makepyfile("import shop\ndef test_fails(): shop.total(['tea', 'cake'])")
    text = str(run(project, "--inviso-on-fail").stdout)
    assert re.findall(r"^ +[\d.]+ ms \(MainThread\) (.*)$", text, re.MULTILINE)[2:] == [
        "call shop:price('tea')",
        "call shop:price('cake')",
    ]


def test_of_many_events_the_last_ones(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import shop
        def test_fails():
            for n in range(5000): shop.price("tea")
            shop.price("cake")
    """)
    text = str(run(project, "--inviso-on-fail", "--inviso-events=3", "--inviso-returns").stdout)
    title, *lines = re.findall(r"^-+ (inviso: .*?) -+$|^ +[\d.]+ ms \(MainThread\) (.*)$", text, re.MULTILINE)
    assert re.fullmatch(r"inviso: the last 3 of \d{3,4} events", title[0])
    assert [line[1] for line in lines] == [
        "returned from shop:price/1 -> 3", "call shop:price('cake')",
        "exception from shop:price/1: error ('KeyError', ('cake',))"
    ]  # fmt: skip


def test_what_long_runs_keep_is_bounded(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_recorder, "FORGET", 3)
    project.makepyfile("""
        import shop
        def test_a(): shop.price("tea")
        def test_b(): shop.price("tea")
        def test_c(): shop.price("cake")
    """)
    (path,) = re.findall(r"^log: (.*)$", str(run(project, "--inviso-on-fail").stdout), re.MULTILINE)
    assert [message[3][2] for message in log.read(path) if message[2] == "call"] == [["cake"]]


def test_events_of_threads_and_tasks(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import asyncio, threading, shop
        async def order(name):
            await asyncio.sleep(0)
            return shop.price(name)
        def test_thread():
            thread = threading.Thread(target=shop.price, args=("tea",), name="till")
            thread.start()
            thread.join()
            async def both():
                await asyncio.gather(asyncio.create_task(order("milk"), name="order 7"), order("tea"))
            asyncio.run(both())
            assert 0
    """)
    text = str(run(project, "--inviso-on-fail").stdout)
    assert "(till) call shop:price('tea')" in text and "(order 7) call shop:price('milk')" in text


def test_limits_on_calls(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest, shop, threading
        @pytest.mark.inviso(calls={"shop:price": 2, "shop:total": range(1, 3)}, max_calls={"shop:price": 2})
        def test_right(): shop.total(["tea", "milk"])
        @pytest.mark.inviso(calls={"shop:price": 1, "shop:prize": 1}, max_calls={"shop:total": 0})
        def test_wrong():
            shop.total(["tea", "milk"])
            list(map(shop.price, ["tea"]))
        @pytest.mark.inviso(calls={"shop:price": 300})
        def test_threads():
            threads = [threading.Thread(target=shop.total, args=(["tea"] * 100,)) for n in range(3)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        @pytest.mark.inviso(calls={"shop:price": 5})
        def test_own_error(): assert shop.price("tea") == 4
        @pytest.mark.xfail(strict=True)
        @pytest.mark.inviso(calls={"shop:price": 5})
        def test_expected(): pass
        @pytest.fixture
        def before(): shop.price("tea")
        @pytest.mark.inviso(calls={"shop.**": 0})
        def test_without_fixtures(before): pass
    """)
    result = run(project, "--strict-markers")
    result.assert_outcomes(passed=3, failed=2, xfailed=1)
    result.stdout.fnmatch_lines([
        "shop:price was called 3 times; the mark says 1",
        "      2 x shop:price/1 from shop:total.<locals>.<genexpr>/1 (*shop.py:7)",
        "      1 x shop:price/1 from test_limits_on_calls:test_wrong/0 (*test_limits_on_calls.py:7)",
        "shop:prize was called 0 times; the mark says 1; did you mean 'shop:price'?",
        "shop:total was called 1 time; the mark says 0",
        "E * assert 3 == 4",
    ])  # fmt: skip


def test_limits_on_words_and_time(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest, shop
        pytestmark = pytest.mark.inviso(words=1_000_000, ms=60_000)
        def test_within(): shop.total(["tea"])
        @pytest.mark.inviso(words=1)
        def test_words(): shop.total(["tea", "milk"])
        @pytest.mark.inviso(ms=0, calls={"shop:price": 3})
        def test_ms(): shop.total(["tea", "milk"])
    """)
    result = run(project)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines([
        "the functions of the project allocated * words (* bytes); the mark allows 1 word (8 bytes)",
        "  shop:total/1 *",
        "shop:price was called 2 times; the mark says 3",
        "      (callers are shown only if the mark has neither words nor ms)",
        "the functions of the project took * ms; the mark allows 0 ms",
    ])  # fmt: skip


@pytest.mark.parametrize("style", ["asyncio", "anyio"])
def test_limits_of_async_tests(project: pytest.Pytester, style: str) -> None:
    plugin = {"asyncio": "pytest_asyncio.plugin", "anyio": "anyio.pytest_plugin"}[style]
    pytest.importorskip(plugin.partition(".")[0])
    project.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    project.makepyfile(f"""
        import asyncio, pytest, shop
        pytestmark = pytest.mark.{style}
        @pytest.fixture
        def anyio_backend(): return "asyncio"
        async def order(*names):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return shop.total(names)
        @pytest.mark.inviso(calls={{"shop:price": 3, "test_limits_of_async_tests:order": 2}})
        async def test_right(): await asyncio.gather(order("tea"), order("tea", "milk"))
        @pytest.mark.inviso(calls={{"shop:total": 1}})
        async def test_wrong(): await asyncio.gather(order("tea"), order("milk"))
    """)
    result = run(project, "-p", plugin, "-W", "ignore::pytest.PytestConfigWarning")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "shop:total was called 2 times; the mark says 1",
        "      2 x shop:total/1 from test_limits_of_async_tests:order/1 (*.py:8)",
    ])  # fmt: skip


WRONG = [
    ("calls={'shop:pr*': 1}", "calls: 'shop:pr*' has a '*' that stands for nothing"),
    (
        "calls={'shop:price': '1'}",
        "calls: '1' is no number of calls of shop:price; give an int, or range(1, 4) for 1 to 3",
    ),
    ("calls={'shop:price': -1}", "calls: -1 is no number of calls"),
    ("calls={'shop:price': range(3, 1)}", "calls: range(3, 1) is no number of calls"),
    ("calls={}", "calls: {} names no function"),
    (
        "max_calls={'shop:price': range(3)}",
        "max_calls: range(0, 3) is no number of calls of shop:price; give the most, an int",
    ),
    ("words=1.5", "words: 1.5 is no limit; give the most words of 8 bytes, an int"),
    ("ms='1'", "ms: '1' is no limit; give the most milliseconds, a number"),
    ("call={'shop:price': 1}", "call: there is no such limit; there are calls, max_calls, words, ms"),
    ("{'shop:price': 1}", "calls: it takes arguments by name"),
    ("", "calls: it takes arguments by name"),
]


def test_wrong_marks_end_the_run(project: pytest.Pytester) -> None:
    tests = [f"@pytest.mark.inviso({arguments})\ndef test_{n}(): pass\n" for n, (arguments, _) in enumerate(WRONG)]
    project.makepyfile("\n".join(["import pytest", *tests, "def test_right(): pass"]))
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    for n, (_, why) in enumerate(WRONG):
        assert f"ERROR: test_wrong_marks_end_the_run.py::test_{n}: @pytest.mark.inviso, {why}" in str(result.stderr)
    assert "passed" not in str(result.stdout)


@pytest.mark.parametrize(
    ("words", "table", "why"),
    [
        (["--inviso=call"], "", "argument --inviso: 'call' can't be measured; give calls, time, memory"),
        (["--inviso-events=0"], "", "argument --inviso-events: '0' is not a number of events"),
        (
            ["--inviso-on-fail", "--inviso-pattern=a*"],
            "",
            "inviso: --inviso-pattern: ['a*'] (command line) is wrong: 'a*' has",
        ),
        (
            ["--inviso-on-fail"],
            "events = 'all'",
            "inviso: events: 'all' (*pyproject.toml) is wrong; give a number from 1",
        ),
        (
            ["--inviso=time"],
            "event = 3",
            "inviso: event: there is no such setting (*pyproject.toml); there are patterns,",
        ),
    ],
)
def test_wrong_options_and_settings(project: pytest.Pytester, words: list[str], table: str, why: str) -> None:
    project.makepyprojecttoml(f"[tool.inviso]\n{table}\n")
    project.makepyfile("def test_a(): pass")
    result = run(project, *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{why.replace('[', '[[]')}*"])


def test_settings_are_read_for_an_option_only(project: pytest.Pytester) -> None:
    project.makepyprojecttoml("[tool.inviso]\nevent = 3\n")
    project.makepyfile("def test_a(): pass")
    run(project).assert_outcomes(passed=1)


def test_a_project_without_modules(project: pytest.Pytester) -> None:
    (project.path / "shop.py").unlink()
    project.makepyfile("def test_a(): pass")
    result = run(project, "--inviso=calls")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: inviso: there is no package and no module in *name functions with --inviso-pattern*"]
    )


def test_tables_and_properties(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import shop
        def test_a(): shop.total(["tea", "milk"])
        def test_b(): shop.price("tea")
    """)
    result = run(project, "--inviso=calls,time,memory", "--junitxml=junit.xml")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([
        "=* inviso: calls =*", "shop:total/1 * 1 *", "shop:price/1 * 3 *", "=* inviso: time =*", "=* inviso: memory =*"
    ])  # fmt: skip
    cases = ElementTree.parse(project.path / "junit.xml").iter("testcase")
    found = {
        case.get("name"): {p.get("name"): int(p.get("value", "")) for p in case.iter("property")} for case in cases
    }
    assert found["test_a"]["inviso_calls"] == 4 and found["test_b"]["inviso_calls"] == 1
    assert found["test_a"]["inviso_time_ns"] > 0 and found["test_a"]["inviso_memory_bytes"] % 8 == 0


def test_settings_of_the_project(project: pytest.Pytester) -> None:
    project.makepyprojecttoml("[tool.inviso]\npatterns = ['shop:price']\nlimit = 1\nevents = 1\nreturns = true\n")
    project.makepyfile("import shop\ndef test_a(): shop.total(['tea', 'cake'])")
    result = run(project, "--inviso=calls", "--inviso-on-fail")
    result.stdout.fnmatch_lines(["*inviso: the last 1 of 4 events*", "shop:price/1 * 2 *"])
    assert "shop:total" not in str(result.stdout).partition("inviso: calls")[2]
    result = run(project, "--inviso=calls", "--inviso-pattern=shop:total", "--inviso-pattern=json")
    assert "shop:price" not in str(result.stdout).partition("inviso: calls")[2]


def test_which_modules_are_the_projects(tmp_path: Path) -> None:
    for name in (
        "src/shop/__init__.py",
        "tests/__init__.py",
        "data/readme.txt",
        "tool.py",
        "conftest.py",
        "test_x.py",
        "x_test.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert _settings.own_modules(tmp_path) == [("shop.**", "_", "_"), ("tool", "_", "_")]


def test_the_fixture_is_a_session_of_the_test(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import shop
        from inviso import trace
        seen = []
        def test_a(tracer):
            tracer.function(("shop", "price", "_"), True, ["local"])
            tracer.process("all", True, ["call"])
            shop.total(["tea", "milk"])
            assert [message[3][2] for message in tracer.drain()] == [["tea"], ["milk"]]
            seen.append(tracer)
        def test_b(): assert not seen[0].is_alive()
    """)
    run(project).assert_outcomes(passed=2)


def test_it_is_found_and_can_be_left_out(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(each.name == "inviso" for each in entry_points(group="pytest11")):
        pytest.skip("the package is not installed with its entry points")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    project.makepyfile("def test_a(tracer): pass")
    project.runpytest_inprocess("-p", "no:asyncio", "-p", "no:inviso").assert_outcomes(errors=1)
    project.runpytest_inprocess("-p", "no:asyncio").assert_outcomes(passed=1)


def test_with_xdist_there_is_one_result(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    project.makepyfile("""
        import pytest, shop
        @pytest.mark.parametrize("n", range(6))
        def test_a(n): shop.total(["tea"] * (n + 1))
        def test_b(): shop.price("cake")
        @pytest.mark.inviso(calls={"shop:price": "1"})
        def test_c(): pass
    """)
    junit = project.path / "junit.xml"
    words = ("-p", "xdist", "-n2", "--inviso=calls,time", "--inviso-on-fail", f"--junitxml={junit}")
    before = trace.session_info("all")
    result = project.runpytest_inprocess(*PLUGIN, *words)
    assert trace.session_info("all") == before
    result.assert_outcomes(passed=6, failed=1, errors=1)
    result.stdout.fnmatch_lines([
        "@pytest.mark.inviso, calls: '1' is no number of calls of shop:price*",
        "* ms (MainThread) call shop:price('cake')",
        "=* inviso: calls =*", "shop:total/1 * 6 *", "shop:price/1 * 22 *", "=* inviso: time =*", "shop:price/1 * 22 *",
    ])  # fmt: skip
    values = [
        int(p.get("value", "")) for p in ElementTree.parse(junit).iter("property") if p.get("name") == "inviso_calls"
    ]
    assert sum(values) == 6 + 6 + 22


def test_a_worker_that_crashed_is_told() -> None:
    merged = _merged.Merged(_settings.Settings([("shop", "_", "_")], ("calls",), 10, 200, False, 65536))
    row = ["shop", "f", 1, "shop.py", 3, 2, 2]
    for output in ({"inviso": {"calls": [row]}}, {"inviso": {"calls": [row]}}, {}):
        merged.pytest_testnodedown(type("Node", (), {"workeroutput": output})(), None)
    written: list[str] = []

    class Reporter:
        def section(self, title: str, **_: Any) -> None:
            written.append(title)

        write = write_line = lambda self, text: written.append(text)

    merged.pytest_terminal_summary(Reporter())  # type: ignore[arg-type]
    assert written[0] == "inviso: calls" and "shop:f/1      4" in written[1]
    assert written[2] == "inviso: 1 worker crashed: what it measured is lost"


def test_nothing_is_imported_before_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    program = """
        import sys, pytest
        status = pytest.main([*sys.argv[1:], "-q"])
        assert "_inviso_pytest" in sys.modules
        print([name for name in sys.modules if name.partition(".")[0] == "inviso"])
        status = status or pytest.main([*sys.argv[1:], "-q", "--inviso=calls", "--inviso-pattern=json", "-W", "error"])
        # of a plugin's distribution pytest would change all modules as it imports them
        print(type(sys.modules["inviso.trace"].__loader__).__module__.partition(".")[0], status)
    """
    words = [sys.executable, "-c", textwrap.dedent(program), *PLUGIN]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "[]" in lines and re.fullmatch(r"_?frozen_importlib\w* 0", lines[-1]), done.stdout


def test_the_entry_point() -> None:
    assert '[project.entry-points.pytest11]\ninviso = "_inviso_pytest"\n' in (ROOT / "pyproject.toml").read_text()


def test_the_page(project: pytest.Pytester) -> None:
    """Its examples are a module and its tests."""
    shop, *tests = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(), re.DOTALL)
    project.makepyfile(shop=shop, test_shop="\n".join(tests))
    run(project, "-W", "error", "--strict-markers").assert_outcomes(passed=4)


def test_a_test_that_replaces_files_keeps_its_own_error(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import os, shop, time
        def test_first(monkeypatch):
            for name in ("mkdir", "scandir", "listdir"): monkeypatch.setattr(os, name, lambda *a, **k: 1 / 0)
            monkeypatch.setattr(time, "monotonic_ns", lambda: 1 / 0)
            shop.price("cake")
        def test_second(monkeypatch):
            import inviso.log
            monkeypatch.setattr(inviso.log, "read", lambda *a, **k: 1 / 0)
            shop.price("cake")
        def test_third(): shop.price("cake")
    """)
    result = run(project, "--inviso-on-fail")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines([
        "*- inviso: 1 event -*", "* ms (MainThread) call shop:price('cake')",
        "the events can't be shown: ZeroDivisionError: division by zero", "log: *002-*test_second-call.log",
        "*- inviso: 1 event -*",
    ])  # fmt: skip
    assert str(result.stdout).count("KeyError: 'cake'") >= 3


def test_a_log_is_named_after_its_test(project: pytest.Pytester) -> None:
    name = "test_" + "名" * 80
    project.makepyfile(f"""
        import pytest, shop
        @pytest.mark.parametrize("x", ["a/b", "../c"])
        def test_each(x): shop.price("cake")
        def {name}(): shop.price("cake")
    """)
    text = str(run(project, "--inviso-on-fail").stdout)
    logs = re.findall(r"^log: .*/(.*)\.log$", text, re.MULTILINE)
    file = "test_a_log_is_named_after_its_test-py"
    assert logs[:2] == [f"001-{file}-test_each-a-b-call", f"002-{file}-test_each-c-call"]
    assert logs[2].startswith(f"003-{file}-test_名") and len(logs[2].encode()) < 200


def test_no_folder_of_logs_stays_without_a_failure(project: pytest.Pytester) -> None:
    project.makepyfile("import shop\ndef test_passes(): shop.price('tea')")
    for words in ((), ("-p", "no:tmpdir")):
        run(project, "--inviso-on-fail", *words).assert_outcomes(passed=1)
    assert not list(project.path.glob("basetemp*/**/inviso*"))


@pytest.mark.parametrize("words", [(), ("-p", "xdist.plugin", "-n", "1")])
def test_collecting_alone_shows_no_table(project: pytest.Pytester, words: tuple[str, ...]) -> None:
    if words:
        pytest.importorskip("xdist")
    project.makepyfile("import shop\ndef test_passes(): shop.price('tea')")
    assert "inviso: calls" not in str(run(project, "--inviso=calls", "--collect-only", *words).stdout)


@pytest.mark.parametrize("name", ["tests", "tests/test_order", "cart/test_order", "order_test"])
def test_tests_inside_a_package_are_not_the_project(project: pytest.Pytester, name: str) -> None:
    files = {"store/__init__": "", "store/prices": SHOP, "store/testimony": "def said(): return 1"}
    files |= {f"store/{folder}/__init__": "" for folder in [name.rpartition("/")[0]] if folder}
    files[f"store/{name}"] = """
import pytest
from store import prices, testimony
class Helper:
    def total(self): return [bytes(100) for _ in range(1000)], prices.total(["tea"]), testimony.said()
def test_passes(): assert Helper().total()
@pytest.mark.inviso(words=2000)
def test_within(): assert Helper().total()
def test_fails():
    Helper().total()
    assert 0
"""
    for path, text in files.items():
        (project.path / path).parent.mkdir(parents=True, exist_ok=True)
        (project.path / f"{path}.py").write_text(text)
    (project.path / "shop.py").unlink()
    result = run(project, "--inviso=calls", "--inviso-on-fail", f"store/{name}.py", "-o", "pythonpath=.")
    result.assert_outcomes(passed=2, failed=1)
    text = str(result.stdout)
    assert re.search(r"^store.prices:total/1 +3 ", text, re.MULTILINE) and "store.testimony:said/0 " in text
    assert (
        "Helper" not in text.partition("= FAILURES")[2].partition("- inviso: ")[2] and "call store.prices:total" in text
    )
    named = str(
        run(project, "--inviso=calls", "--inviso-pattern=store.**", f"store/{name}.py", "-o", "pythonpath=.").stdout
    )
    assert "Helper.total/1 " in named, "a pattern that names them takes them"


def test_a_copy_that_checks_arguments_is_no_call(project: pytest.Pytester) -> None:
    """Celery makes such a copy of each task."""
    project.makepyfile(
        tasks="""
        def task(function):
            made = {"__name__": function.__module__}
            exec(f"def {function.__name__}(x): return 1", made)
            function.check = made[function.__name__]
            return function
        @task
        def add(x): return x
        class Cart: pass
        exec("def only(x): return x")
    """
    )
    project.makepyfile("""
        import pytest, tasks
        @pytest.mark.inviso(calls={"tasks:add": 1, "tasks:only": 1})
        def test_right():
            tasks.add.check(1)
            tasks.add(1)
            tasks.only(1)
        @pytest.mark.inviso(calls={"tasks:add": 1})
        def test_wrong(): tasks.add.check(1)
    """)
    result = run(project, "--inviso=calls")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "tasks:add was called 0 times; the mark says 1*",
        "      (1 of a copy made by exec, as Celery does to check arguments, don't count)",
        "tasks:only/1 *1 *",
    ])  # fmt: skip
