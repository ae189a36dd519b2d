"""`inviso.integrations.ray`, with a cluster of real processes."""

from __future__ import annotations

import doctest
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from framework_tools import Event, calls, example, nodes, program, tokens
from inviso import BadArg, Cluster
from inviso_tools import HOST, LIMIT, Child, Failed
from waiting import until

if sys.version_info >= (3, 15) or "t" in sys.abiflags:
    pytest.importorskip("ray")  # it has no build for these

from inviso.integrations import ray
from inviso.integrations.ray import carries

Events = Callable[[], list[Event]]

BODY = """
import os, sys
sys.stdout = sys.stderr  # what Ray tells of its workers is not an answer
import ray
from inviso import runtime, seq_trace
from inviso.integrations.ray import SETUP, carries
from subjects import orders

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"worker_process_setup_hook": SETUP})
runtime.listen("driver")
pack, pack_each, refuse, label, die = (ray.remote(carries(getattr(orders, name)))
                                       for name in ("pack", "pack_each", "refuse", "label", "die"))
bare_label = ray.remote(orders.label)

@ray.remote
@carries
def nested(number):
    return ray.get(pack.remote(number))

@ray.remote
@carries
def put(shelf, number):
    return ray.get(shelf.put.remote(number, times=2))

@ray.remote(num_returns=2)
@carries
def both(*numbers, **options):
    seq_trace.print((numbers, options))
    return numbers

shelf = ray.remote(carries(orders.Shelf)).options(num_cpus=0).remote(1)
desk = ray.remote(carries(orders.Desk)).options(num_cpus=0).remote()
packed = ray.get([pack.remote(0), pack.remote(1), shelf.put.remote(0), desk.put.remote(0)])

def is_traced(label):
    seq_trace.set_token("label", label)
    for flag in ("send", "receive", "print", "timestamp"):
        seq_trace.set_token(flag, True)
"""


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    """The environment of a program with a cluster: its sockets are in a folder with a short name, as they must be."""
    folder = tempfile.mkdtemp(prefix="ray")
    yield {"RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Iterator[Child]:
    place = tmp_path_factory.mktemp("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INVISO_DIR", str(place / "sockets"))
        with program(BODY, place, "ray.shutdown()", **settings) as made:
            yield made


@pytest.fixture
def logs(driver: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "logs"


@pytest.fixture
def traced(driver: Child, logs: Path) -> Iterator[Events]:
    """Writes tokens of all nodes to logs. Call the result once, when the program has no tokens left: it returns the
    events.
    """
    with tokens("driver", "ray-*", folder=logs) as events:
        yield events


def test_workers_are_nodes_and_traced_together(driver: Child, logs: Path) -> None:
    workers = nodes("ray-*")
    assert workers == {f"ray-{pid}": pid for pid in workers.values()}
    assert driver.ask("ray.get(shelf.place.remote())") in workers.values()
    words = [sys.executable, "-m", "inviso", "nodes", "ray-*"]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    # Ray may have begun one more meanwhile
    assert {line.split()[0] for line in shown.splitlines()} >= {f"{name}@{HOST}" for name in workers}
    with Cluster("ray-*", timeout=LIMIT) as cluster:
        cluster.trace("subjects.orders:weigh", folder=str(logs)).check()
        packed = driver.ask("ray.get([pack.remote(number) for number in range(20)])")
        result = cluster.stop().check()
    assert [weight for weight, _ in packed] == [2 * number for number in range(20)]
    done = Counter(pid for _, pid in packed)
    told = {int(name.partition("@")[0].removeprefix("ray-")): Path(each["log"]) for name, each in result.items()}
    counted = {pid: calls(path, "subjects.orders:weigh") for pid, path in told.items()}
    assert {pid: count for pid, count in counted.items() if count} == done


def test_a_token_goes_with_a_task(driver: Child, traced: Events) -> None:
    driver.ask("is_traced('order 7')")
    _, pid = driver.ask("ray.get(pack.remote(7))")
    assert driver.ask("seq_trace.get_token('label')") == ("label", "order 7")
    driver.ask("seq_trace.set_token(None)")
    sent, taken, printed = traced()
    worker = f"ray-{pid}"
    assert [sent[:2], taken[:2], printed[:2]] == [("driver", "send"), (worker, "receive"), (worker, "print")]
    assert sent.serial == taken.serial and printed.serial[0] == taken.serial[1] and printed.content == 7


@pytest.mark.parametrize(
    ("call", "value", "printed"),
    [
        ("ray.get(nested.remote(7))[0]", 14, [7]),
        ("ray.get(put.remote(shelf, 0)) > 0", True, [0]),
    ],
)
def test_a_task_that_calls_another_sends_its_token(
    driver: Child, traced: Events, call: str, value: object, printed: list[object]
) -> None:
    driver.ask("is_traced('order 8')")
    assert driver.ask(call) == value
    driver.ask("seq_trace.set_token(None)")
    first, taken, second, again, last = traced()
    tags = [event.tag for event in (first, taken, second, again, last)]
    assert tags == ["send", "receive", "send", "receive", "print"]
    assert first.serial == taken.serial and second.serial == again.serial
    assert taken.serial[1] == second.serial[0] and again.serial[1] == last.serial[0]
    assert first.node == "driver" and taken.node == second.node != again.node == last.node
    assert [last.content] == printed


@pytest.mark.parametrize(
    ("call", "value", "printed"),
    [
        ("[ray.get(each) for each in pack_each.remote(3)]", [0, 2, 4], [0, 1, 2]),
        ("ray.get(both.remote(1, 2))", [1, 2], [((1, 2), {})]),
        ("ray.get(both.options(name='two').remote(1, 2, a=3))", [1, 2], [((1, 2), {"a": 3})]),
        ("ray.get(shelf.put.remote(0, times=3)) > 0", True, [0]),
        ("[ray.get(each) for each in shelf.each.remote(2)]", [0, 2], [0, 1]),
        ("ray.get(desk.put.remote(4))", 8, [4]),
        ("[ray.get(each) for each in desk.each.remote(2)]", [0, 2], [0, 1]),
    ],
)
def test_whatever_is_called(driver: Child, traced: Events, call: str, value: object, printed: list[object]) -> None:
    driver.ask("is_traced('order 9')")
    assert driver.ask(call) == value
    driver.ask("seq_trace.set_token(None)")
    events = traced()
    assert [event.tag for event in events[:2]] == ["send", "receive"]
    assert [event.content for event in events if event.tag == "print"] == printed


def test_a_task_without_a_token_has_none(driver: Child) -> None:
    driver.ask("is_traced('order 10')")
    assert driver.ask("ray.get([label.remote() for _ in range(8)])") == ["order 10"] * 8
    assert driver.ask("ray.get([bare_label.remote() for _ in range(8)])") == [None] * 8
    driver.ask("seq_trace.set_token(None)")
    assert driver.ask("ray.get([label.remote() for _ in range(8)])") == [None] * 8


def test_what_is_wrong_with_a_call_is_said_as_without_us(driver: Child) -> None:
    driver.ask("is_traced('order 11')")
    with pytest.raises(Failed, match="KeyError"):
        driver.ask("ray.get(refuse.remote(7))")
    for call in ("pack.remote()", "pack.remote(1, 2)", "shelf.put.remote(1, twice=2)"):
        with pytest.raises(Failed, match=r"TypeError: (missing|too many|got an unexpected)"):
            driver.ask(call)
    driver.ask("seq_trace.set_token(None)")
    assert driver.ask("ray.get([bare_label.remote() for _ in range(8)])") == [None] * 8
    for made in ("pack", "ray.remote(orders.Shelf)", "shelf"):
        with pytest.raises(Failed, match=r"BadArg: carries/1, target: .* put @carries below @ray\.remote"):
            driver.ask(f"carries({made})")


def test_what_is_no_token_changes_nothing(driver: Child) -> None:
    for argument in ("'01-nonsense'", "17", "b'01-'"):
        assert driver.ask(f"ray.get(label.remote(_inviso_seq_trace={argument}))") is None


def test_a_worker_that_comes_later_is_a_node(driver: Child, tmp_path: Path) -> None:
    before = nodes("ray-*")
    busy = [pid for _, pid in driver.ask("ray.get([pack.remote(number) for number in range(8)])")]
    for pid in set(busy):
        os.kill(pid, signal.SIGKILL)
    later = driver.ask("ray.get(pack.remote(1))")[1]
    assert later not in busy and f"ray-{later}" in nodes("ray-*")
    until(lambda: not any(f"ray-{pid}" in nodes("ray-*") for pid in busy))
    assert before.keys() - {f"ray-{pid}" for pid in busy} <= nodes("ray-*").keys()
    # a task whose worker dies is run again, by a worker that is a node
    driver.ask("""
@ray.remote(max_retries=1)
@carries
def once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        orders.die()
    return orders.label(), os.getpid()
""")
    driver.ask("is_traced('order 12')")
    name, pid = driver.ask(f"ray.get(once.remote({str(tmp_path / 'begun')!r}))")
    driver.ask("seq_trace.set_token(None)")
    assert name == "order 12" and f"ray-{pid}" in nodes("ray-*")


def test_functions_are_as_they_were() -> None:
    class Base:
        def one(self) -> int:
            return 1

    @carries
    class Derived(Base):
        """Of two."""

        def two(self, *, times: int = 1) -> int:
            return 2 * times

        @classmethod
        def three(cls) -> type:
            return cls

    assert (Derived().one(), Derived().two(times=2), Derived.three()) == (1, 4, Derived)
    assert (Derived.__name__, Derived.__module__, Derived.__doc__) == ("Derived", __name__, "Of two.")
    assert not hasattr(Base.one, "_inviso") and carries(Derived).two is Derived.two
    for wrong in (3, "work", len):
        with pytest.raises(BadArg, match=r"put @carries below @ray\.remote"):
            carries(wrong)  # type: ignore[type-var]


def test_examples_of_docstrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVISO_DIR", str(tmp_path / "sockets"))
    assert doctest.testmod(ray) == (0, 7)


def test_the_example_of_the_docs(tmp_path: Path, settings: dict[str, str]) -> None:
    path = tmp_path / "weighing.py"
    path.write_text(example("ray"))
    env = {**os.environ, **settings}
    words = [sys.executable, str(path)]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line.partition(": ('")[2].partition("'")[0] for line in done.stdout.splitlines() if line] == [
        *("send", "receive", "send", "receive", "print"),
    ]
