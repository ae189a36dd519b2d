"""A request through whole services, beside others over the same pools and connections: it has its events only."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import inviso
import pytest
from inviso import seq_trace
from inviso.seq_trace import Entry
from subjects import seq_request
from trace_tools import HERE, in_threads

httpx = pytest.importorskip("httpx")
for package in ("starlette", "uvicorn", "h11"):
    pytest.importorskip(package)
from inviso.propagate.httpx import attach  # noqa: E402

PATIENCE = 60.0


@contextmanager
def service(*words: str) -> Iterator[str]:
    """Another node, which serves; its address."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    serving = subprocess.Popen(
        [sys.executable, "-m", "subjects.seq_request", *words],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert serving.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(serving.stdout.readline())}"
    finally:
        serving.terminate()
        serving.wait(PATIENCE)
        serving.stdout.close()


@pytest.fixture
def collector() -> Iterator[seq_trace.Collector]:
    seq_trace.reset_trace()
    inviso.set_node("client@lan")
    with seq_trace.Collector() as collector:
        yield collector
        seq_trace.set_token(None)
        seq_trace.reset_trace()
    inviso.set_node("nonode@nohost")


def label_of(order: int) -> Any:
    """Every third request has no token."""
    return None if order % 3 == 2 else ("order", order)


def buy(client: Any, order: int) -> None:
    label = label_of(order)
    seq_trace.set_token(None) if label is None else seq_request.begin(label)
    answer = client.get(f"/{order}").json()
    assert answer == [f"{what} {order}" for what in ("packed", "reserved", "priced", "in stock")]
    assert seq_trace.get_token("label") == (None if label is None else ("label", label))
    seq_trace.set_token(None)


@contextmanager
def services(loop: str, client: str) -> Iterator[tuple[str, Callable[[], list[seq_trace.Output]]]]:
    """The shop's address, and a function that gets the events of all nodes but this one."""
    pytest.importorskip(loop)
    pytest.importorskip(client)
    with service("stock") as stock, service("shop", stock, loop, client) as shop:

        def outputs() -> list[seq_trace.Output]:
            texts: list[str] = []
            for url in (stock, shop):
                with urllib.request.urlopen(url + "/output", timeout=PATIENCE) as answer:
                    texts += json.load(answer)
            return [seq_trace.Output.from_json(text) for text in texts]

        yield shop, outputs


# the shop's event loop, and its client of the stock
KINDS = [("asyncio", "httpx"), ("asyncio", "aiohttp"), ("uvloop", "aiohttp")]

# All events of a request, in order: tag, sender, receiver, and the number of the event before. A print has its text in
# place of a sender; the order's number is the second part of the text.
HOPS = [
    ("send", "client", "handler", None),  # 0
    ("receive", "client", "handler", 0),
    ("print", "asked", "handler", 0),
    ("send", "handler", "worker", 0),  # 3: into the queue
    ("receive", "handler", "worker", 3),
    ("print", "pack", "worker", 3),
    ("send", "worker", "handler", 3),  # 6: a future's result
    ("receive", "worker", "handler", 6),
    ("send", "handler", "thread", 6),  # 8: a call in the pool of threads
    ("receive", "handler", "thread", 8),
    ("print", "reserve", "thread", 8),
    ("send", "thread", "handler", 8),  # 11
    ("receive", "thread", "handler", 11),
    ("send", "handler", "process", 11),  # 13: a call in the pool of processes
    ("receive", "handler", "process", 13),
    ("print", "price", "process", 13),
    ("send", "process", "handler", 13),  # 16
    ("receive", "process", "handler", 16),
    ("send", "handler", "stock", 16),  # 18: the request to the second service
    ("receive", "handler", "stock", 18),
    ("print", "stock", "stock", 18),
    ("send", "stock", "handler", 18),  # 21
    ("receive", "stock", "handler", 21),
    ("print", "answered", "handler", 21),
    ("send", "handler", "client", 21),  # 24
    ("receive", "handler", "client", 24),
]
PRINTS = [hop[1] for hop in HOPS if hop[0] == "print"]
NODES = {
    "client": "client@lan", "handler": "shop@lan", "worker": "shop@lan", "thread": "shop@lan", "stock": "stock@lan",
}  # fmt: skip


def said(hop: int, order: int, content: Any) -> bool:
    """Whether the content is that of this hop, for this order."""
    tag, who, whither, _ = HOPS[hop]
    if tag == "print":
        return bool(content == (who, order))
    match who, whither:
        case "handler", "worker":
            return bool(len(content) == 2 and content[0] == order)
        case "handler", "thread" | "process":
            module, name, arguments = content
            return bool((name, arguments) == ("reserve" if whither == "thread" else "price", [order])) and bool(module)
        case "worker", _:
            return bool(content == f"packed {order}")
        case "thread", _:
            return bool(content == f"reserved {order}")
        case "process", _ if tag == "receive":
            return bool(content == f"priced {order}")
        case "process", _:  # an object of the library's, with the result within
            return True
    return bool(len(content) == 2 and content[0] == "headers")


def is_header(entry: Entry) -> bool:
    return isinstance(entry.content, tuple) and entry.content[0] == "headers"


def is_connecting(entry: Entry) -> bool:
    """Whether the event is of the task that the client of the second service starts to connect."""
    return isinstance(entry.content, tuple) and entry.content[0] in ("spawn_request", "spawn_reply")


def check_connecting(entries: list[Entry], handler: Any) -> None:
    """Checks that the handler asks for a task, which answers."""
    assert [entry.tag for entry in entries] == ["send", "receive"] * 2
    task = entries[0].receiver
    assert [(entry.sender, entry.receiver) for entry in entries] == [(handler, task)] * 2 + [(task, handler)] * 2
    assert "anyio" in entries[0].content[4][0]
    assert entries[2].serial[0] == entries[0].serial[1]


def check(order: int, entries: list[Entry]) -> tuple[dict[str, Any], bool]:
    """Checks that the events are those of a request, in causal order. Returns each role's process, and whether it had
    to connect.
    """
    connecting = [entry for entry in entries if is_connecting(entry)]
    hops = [entry for entry in entries if not is_connecting(entry)]
    assert [entry.tag for entry in hops] == [hop[0] for hop in HOPS]
    who: dict[str, Any] = {}
    for n, (entry, (tag, whence, whither, after)) in enumerate(zip(hops, HOPS, strict=True)):
        at = f"order {order}, {n}: {entry}"
        role = whence if tag == "send" else whither
        assert who.setdefault(role, entry.process) == entry.process, at
        assert entry.node == NODES.get(role, entry.node) == entry.process.node, at
        assert said(n, order, entry.content), at
        previous, current = entry.serial
        assert previous < current, at
        if tag == "receive":
            assert after is not None and (entry.serial, entry.sender) == (hops[after].serial, hops[after].sender), at
            assert entry.content == hops[after].content or not is_header(entry), at
        elif after is not None:
            assert previous == hops[after].serial[1], at
        if tag == "send":
            assert entry.receiver.kind == "queue" or entry.receiver == hops[n + 1].process, at
    assert len(set(who.values())) == len(who) == 6
    assert who["process"].node.startswith("price")
    # one tree: each serial follows one that is there, but the first
    sent = [entry.serial for entry in entries if entry.tag != "receive"]
    assert all(previous in {current for _, current in sent} for previous, _ in sent[1:])
    if connecting:
        check_connecting(connecting, who["handler"])
        assert connecting[0].serial[0] == hops[18].serial[0]
    return who, bool(connecting)


def by_label(outputs: list[seq_trace.Output]) -> dict[Any, list[Entry]]:
    assert not any(output.dropped for output in outputs)
    found: dict[Any, list[Entry]] = defaultdict(list)
    for entry in seq_trace.merge(*outputs):
        found[entry.label].append(entry)
    return found


@pytest.mark.parametrize(("loop", "client"), KINDS)
def test_requests_at_once_over_the_same_pools_and_connections(
    loop: str, client: str, collector: seq_trace.Collector
) -> None:
    clients, times = 9, 6
    rejected = seq_trace.rejected()
    limits = httpx.Limits(max_connections=6, max_keepalive_connections=6)
    with services(loop, client) as (shop, others):
        with attach(httpx.Client(base_url=shop, timeout=PATIENCE, trust_env=False, limits=limits)) as session:

            def customer(n: int) -> None:
                for order in range(n * times, (n + 1) * times):
                    buy(session, order)

            in_threads(clients, customer)
        outputs = [collector.output(), *others()]
    assert sorted(output.node for output in outputs) == sorted({*NODES.values(), "price1@lan", "price2@lan"})
    found = by_label(outputs)
    orders = [order for order in range(clients * times) if label_of(order) is not None]
    assert sorted(found) == [label_of(order) for order in orders], "each label, and no event without one"
    checked = [check(order, found[label_of(order)]) for order in orders]
    # shared state
    for role, most in (("worker", 2), ("thread", 3), ("process", 2), ("stock", 3)):
        assert 1 <= len({who[role] for who, _ in checked}) <= most, role
    assert len({who["handler"] for who, _ in checked}) == len(orders)
    assert sum(connected for _, connected in checked) <= 3 * (client == "httpx")
    assert seq_trace.rejected() == rejected
    # and no message was received by two of them
    carriers = Counter(entry.content[1] for entries in found.values() for entry in entries if is_header(entry))
    assert len(carriers) == len(orders) * 4 and set(carriers.values()) == {2}


PICTURE = """
 client@lan   shop@lan    shop@lan    shop@lan   price1@lan   stock@lan
   client      handler     worker      thread      process      stock
      |---------->|           |           |           |           | {0,1}
      |           #           |           |           |           | {1,2}
      |           |---------->|           |           |           | {1,3}
      |           |           #           |           |           | {3,4}
      |           |<----------|           |           |           | {3,5}
      |           |---------------------->|           |           | {5,6}
      |           |           |           #           |           | {6,7}
      |           |<----------------------|           |           | {6,8}
      |           |---------------------------------->|           | {8,9}
      |           |           |           |           #           | {9,10}
      |           |<----------------------------------|           | {9,11}
      |           |---------------------------------------------->| {11,12}
      |           |           |           |           |           # {12,13}
      |           |<----------------------------------------------| {12,14}
      |           #           |           |           |           | {14,15}
      |<----------|           |           |           |           | {14,16}
"""


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
def test_a_request_to_services_that_have_served_others(client: str, collector: seq_trace.Collector) -> None:
    """The first token comes when pools and connections are there and all workers wait already."""
    with services("asyncio", client) as (shop, others):
        with attach(httpx.Client(base_url=shop, timeout=PATIENCE, trust_env=False)) as session:
            for order in (2, 5, 8, 9, 11):
                buy(session, order)
        outputs = [collector.output(), *others()]
    found = by_label(outputs)
    assert list(found) == [("order", 9)]
    (entries,) = found.values()
    who, connected = check(9, entries)
    assert not connected
    # nothing else happens to these processes: each event is numbered by the one before
    assert [entry.serial[1] for entry in entries if entry.tag != "receive"] == list(range(1, 17))
    assert [entry.after for entry in entries[:2]] == [None, 0] and None not in [entry.after for entry in entries[1:]]
    chart = seq_trace.chart(entries, names={pid: role for role, pid in who.items()}, width=120)
    drawn = [re.sub(r"\s*(\{[\d,]+\}).*", r" \1", line) for line in chart.text().splitlines()]
    assert "\n".join(drawn) == PICTURE.strip("\n")
    drawing = chart.svg()
    assert drawing.count('class="l"') == 6 and drawing.count('class="a"') == 10 and drawing.count('class="p"') == 6
    assert all(f">{role}</text>" in drawing for role in who)
