"""`inviso.AsyncCluster`: the cluster's calls as coroutines."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path

import pytest
from inviso import AsyncCluster, BadArg, Cluster
from inviso.cluster._async import _Twin
from node_tools import HOST, Node


def test_every_call_of_a_cluster_is_there() -> None:
    named = {name for name, each in vars(Cluster).items() if not name.startswith("_") and inspect.isfunction(each)}
    assert named - {"found"} <= {name for name in dir(AsyncCluster) if not name.startswith("_")}
    assert inspect.signature(AsyncCluster.trace) == inspect.signature(Cluster.trace)
    assert AsyncCluster.stop.__doc__ == Cluster.stop.__doc__


def test_a_round_and_the_merged_log(shop: list[Node]) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        other = asyncio.create_task(turn())
        async with AsyncCluster("shop-*") as cluster:
            assert cluster.nodes == [node.name for node in shop] and not cluster.refused.errors
            before = turns
            assert set((await cluster.trace("__main__:work", folder="logs")).check().values()) == {1}
            assert turns > before + 1, "the loop went on meanwhile"
            for node in shop:
                node.run("work(1)")
            assert [row["records"] for row in (await cluster.stop()).check().values()] == [1, 1]
            merged = await cluster.merge("all.txt")
            assert merged.records == 2 and set(merged.nodes) == set(cluster.nodes)
        other.cancel()

    asyncio.run(main())
    assert [line.count("work") for line in Path("all.txt").read_text().splitlines()] == [1, 1]


def test_a_call_that_is_cancelled_goes_on_and_the_next_waits(shop: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = threading.Event(), threading.Event()
    done = []

    def slow(cluster: Cluster) -> None:
        began.set()
        done.append(go_on.wait(20))

    monkeypatch.setattr(AsyncCluster, "logs", _Twin(slow))

    async def main() -> None:
        async with AsyncCluster("shop-1") as cluster:
            call = asyncio.ensure_future(cluster.logs())
            await asyncio.to_thread(began.wait, 20)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            following = asyncio.ensure_future(cluster.status())
            finished, _ = await asyncio.wait([following], timeout=0.05)
            assert not finished and not done
            go_on.set()
            assert len(await following) == 1 and done == [True]

    asyncio.run(main())


def test_errors_are_those_of_a_cluster(shop: list[Node]) -> None:
    async def main() -> None:
        async with AsyncCluster("shop-1") as cluster, AsyncCluster("shop-1") as other:
            with pytest.raises(BadArg, match="nothing is asked for"):
                await cluster.trace()
            with pytest.raises(BadArg, match="no log has been copied"):
                await cluster.merge("all.txt")
            assert list(other.refused.errors) == [f"shop-1@{HOST}"]

    asyncio.run(main())
