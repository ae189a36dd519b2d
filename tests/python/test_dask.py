"""`inviso.integrations.dask`, with a cluster of real processes."""

from __future__ import annotations

import doctest
import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from framework_tools import Event, calls, example, nodes, program, tokens, until_nodes
from inviso import BadArg, Cluster, seq_trace
from inviso_tools import HOST, LIMIT, Child, Failed
from subjects import orders
from waiting import until

if sys.version_info >= (3, 15) or "t" in sys.abiflags:
    pytest.importorskip("distributed")  # where one of the packages that it needs can't be built

from dask._task_spec import Task
from inviso.integrations import dask

Events = Callable[[], list[Event]]

BODY = """
import os
import dask
import dask.distributed
from dask.distributed import Client, LocalCluster
from inviso import runtime, seq_trace
from inviso.integrations.dask import Plugin, install, result
from subjects import orders

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
client = Client(cluster)
runtime.listen("client")
install()
install()
client.register_plugin(Plugin("pack"))

def is_traced(label):
    seq_trace.set_token("label", label)
    for flag in ("send", "receive", "print", "timestamp"):
        seq_trace.set_token(flag, True)

def nested(number):
    with dask.distributed.worker_client() as other:
        return other.submit(orders.pack, number).result()[0]

def ends():
    client.close()
    cluster.close()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dask")


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[Child]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INVISO_DIR", str(place / "sockets"))
        with program(BODY, place, "ends()") as made:
            yield made


@pytest.fixture
def logs(client: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "logs"


@pytest.fixture
def traced(client: Child, logs: Path) -> Iterator[Events]:
    """Writes tokens of all nodes to logs. Call the result once, when the program has no tokens left: it returns the
    events.
    """
    until_nodes("pack-*", 2)
    with tokens("client", "pack-*", folder=logs) as events:
        yield events


def test_workers_are_nodes_and_traced_together(client: Child, logs: Path) -> None:
    workers = until_nodes("pack-*", 2)
    names = client.ask("dict(client.run(lambda dask_worker: (dask_worker.name, os.getpid())).values())")
    assert workers == {f"pack-{name}-{pid}": pid for name, pid in names.items()}
    words = [sys.executable, "-m", "inviso", "nodes", "pack-*"]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    assert [line.split()[0] for line in shown.splitlines()] == [f"{name}@{HOST}" for name in sorted(workers)]
    with Cluster("pack-*", timeout=LIMIT) as cluster:
        cluster.trace("subjects.orders:weigh", folder=str(logs)).check()
        packed = client.ask("client.gather(client.map(orders.pack, range(20), pure=False))")
        result = cluster.stop().check()
    assert [weight for weight, _ in packed] == [2 * number for number in range(20)]
    done = Counter(pid for _, pid in packed)
    assert {name: calls(Path(result[f"{name}@{HOST}"]["log"]), "subjects.orders:weigh") for name in workers} == {
        name: done[pid] for name, pid in workers.items()
    }


@pytest.mark.parametrize("function", ["pack", "pack_later"])
def test_a_token_goes_with_a_task_and_its_result(client: Child, traced: Events, function: str) -> None:
    client.ask("is_traced('order 7')")
    _, pid = client.ask(f"result(client.submit(orders.{function}, 7, pure=False))")
    assert client.ask("seq_trace.get_token('label')") == ("label", "order 7")
    client.ask("seq_trace.set_token(None)")
    (worker,) = (name for name, each in nodes("pack-*").items() if each == pid)
    sent, taken, printed, answered, back = traced()
    assert [sent[:2], taken[:2], printed[:2], answered[:2], back[:2]] == [
        ("client", "send"), (worker, "receive"), (worker, "print"), (worker, "send"), ("client", "receive"),
    ]  # fmt: skip
    assert sent.serial == taken.serial and back.serial == answered.serial
    assert printed.serial[0] == taken.serial[1] == answered.serial[0] and printed.content == 7


def test_each_task_of_a_graph_receives_its_one_message(client: Child, traced: Events) -> None:
    client.ask("is_traced('order 8')")
    client.ask("packed = [dask.delayed(orders.pack)(number) for number in range(4)]")
    assert client.ask("dask.delayed(orders.load)(packed).compute()") == 12
    client.ask("seq_trace.set_token(None)")
    events = traced()
    (sent,) = (event.serial for event in events if event.node == "client")
    received = [event for event in events if event.tag == "receive"]
    assert len(received) == 5 and {event.serial for event in received} == {sent}
    printed = [event.content for event in events if event.tag == "print"]
    assert sorted(printed[:-1]) == [0, 1, 2, 3] and printed[-1] == "loaded"


def test_fused_tasks_of_a_data_frame(client: Child, traced: Events) -> None:
    pytest.importorskip("pandas", exc_type=ImportError)
    client.ask("import dask.dataframe, pandas")
    client.ask("packs = lambda part: part.assign(weight=part.number.map(lambda number: orders.pack(number)[0]))")
    client.ask("frame = dask.dataframe.from_pandas(pandas.DataFrame({'number': range(6)}), npartitions=2)")
    client.ask("sums = frame.map_partitions(packs, meta={'number': int, 'weight': int}).weight.sum()")
    client.ask("is_traced('order 9')")
    assert client.ask("int(sums.compute())") == 30
    client.ask("seq_trace.set_token(None)")
    assert sorted(event.content for event in traced() if event.tag == "print") == [0, 1, 2, 3, 4, 5]


def test_a_task_that_submits_another_sends_its_token(client: Child, traced: Events) -> None:
    client.ask("is_traced('order 10')")
    assert client.ask("client.submit(nested, 7, pure=False).result()") == 14
    client.ask("seq_trace.set_token(None)")
    events = traced()
    (printed,) = (event for event in events if event.tag == "print")
    received = [event.serial for event in events if event.tag == "receive"]
    # the task's, then that of the task that it submitted; between them are messages of Dask itself in the worker
    assert len(received) == 2 and received[1][0] >= received[0][1]
    assert printed.serial[0] == received[1][1] and printed.content == 7


def test_a_task_without_a_token_has_none(client: Child) -> None:
    client.ask("is_traced('order 11')")
    assert client.ask("client.submit(orders.label, pure=False).result()") == "order 11"
    assert client.ask("client.gather(client.map(orders.label, range(8), pure=False))") == ["order 11"] * 8
    client.ask("seq_trace.set_token(None)")
    assert client.ask("client.gather(client.map(orders.label, range(8), pure=False))") == [None] * 8
    assert client.ask("result(client.submit(orders.label, pure=False)), seq_trace.get_token()") == (None, None)


@pytest.mark.parametrize("annotation", ["'01-nonsense'", "17", "None", "b'01-'"])
def test_what_is_no_token_changes_nothing(client: Child, annotation: str) -> None:
    client.ask(f"header = {{'inviso-seq-trace': {annotation}}}")
    client.ask("with dask.annotate(**header): future = client.submit(orders.label, pure=False)")
    assert client.ask("future.result()") is None


def test_errors_are_those_of_the_task(client: Child) -> None:
    client.ask("is_traced('order 12')")
    with pytest.raises(Failed, match="KeyError: 7"):
        client.ask("result(client.submit(orders.refuse, 7, pure=False))")
    client.ask("seq_trace.set_token(None)")
    assert client.ask("client.gather(client.map(orders.label, range(8), pure=False))") == [None] * 8


def test_a_result_comes_also_where_its_token_can_not_be_had(client: Child) -> None:
    client.ask("is_traced('order 13'); future = client.submit(orders.label, pure=False); future.result()")
    client.ask("kept = client.run_on_scheduler; client.run_on_scheduler = None")
    assert client.ask("result(future), orders.label()") == ("order 13", "order 13")
    assert "the token of the result of 'label-" in client.stderr()
    client.ask("client.run_on_scheduler = kept; seq_trace.set_token(None)")


def test_workers_that_come_later_are_nodes(client: Child) -> None:
    before = until_nodes("pack-*", 2)
    name, pid = sorted(before.items())[0]
    os.kill(pid, signal.SIGKILL)  # its nanny starts another worker of this name
    again = until(lambda: len(found := nodes("pack-*")) == 2 and name not in found and found)
    (new,) = again.keys() - before.keys()
    assert new == f"pack-{name.split('-')[1]}-{again[new]}"
    client.ask("client.restart()")
    assert not until_nodes("pack-*", 2).keys() & again.keys()
    client.ask("cluster.scale(3)")
    assert {each.split("-")[1] for each in until_nodes("pack-*", 3)} == {"0", "1", "2"}
    client.ask("client.wait_for_workers(3)")
    client.ask("cluster.scale(2)")
    until_nodes("pack-*", 2)


def test_a_task_that_goes_to_a_pool_of_processes() -> None:
    task = Task("label", orders.label)
    seq_trace.set_token("label", "order 14")
    carried = dask._Task(task, seq_trace.inject({})["inviso-seq-trace"], {})
    seq_trace.set_token(None)
    assert pickle.loads(pickle.dumps(carried))(()) == "order 14" and seq_trace.get_token() is None
    assert repr(carried) == repr(task) and carried.key == "label"


def test_examples_of_docstrings() -> None:
    assert doctest.testmod(dask) == (0, 5)
    for wrong in (7, SimpleNamespace(client=SimpleNamespace(asynchronous=True))):
        with pytest.raises(BadArg, match=r"result/2, future: .* is no future of a client that waits"):
            dask.result(wrong)


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    path = tmp_path / "packing.py"
    path.write_text(example("dask"))
    env = {**os.environ, "INVISO_DIR": str(tmp_path / "sockets")}
    words = [sys.executable, str(path)]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    tags = [line.partition(": ('")[2].partition("'")[0] for line in done.stdout.splitlines() if line]
    assert tags == ["send", "receive", "print", "send", "receive"]
