"""The questions that an analysis answers in one query: SQL (DuckDB), pandas and polars, against known answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from export_tools import mfa, pid
from inviso import analysis

duckdb = pytest.importorskip("duckdb")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pytest.importorskip("pyarrow")

ONE, TWO, THREE = pid(1), pid(2), pid(3)


def at(time: int, who: Any, *what: Any) -> tuple[Any, ...]:
    return ("trace_ts", who, *what, time)


def story() -> list[Any]:
    """Messages from ONE to TWO (waits 1 to 100 ns) and one order to THREE, calls, steps, a collection, a loss."""
    messages: list[Any] = []
    for n in range(100):
        messages += [at(1000 * n, ONE, "send", n, TWO), at(1000 * n + n + 1, TWO, "receive", n)]
    messages += [
        at(200_000, ONE, "send", "a", THREE),
        at(200_010, ONE, "send", "b", THREE),
        at(200_030, THREE, "receive", "a"),
    ]
    place = mfa("work")
    messages += [
        at(300_000, TWO, "in", place),
        at(300_500, TWO, "out", place),
        at(300_600, THREE, "in", place),
        at(300_650, THREE, "out", place),
    ]
    messages += [
        at(400_000, ONE, "call", ("shop.orders", "order", [1])),
        at(400_100, ONE, "call", ("shop.orders", "price", [1])),
        at(400_110, ONE, "gc_major_start", [("generation", 2)]),
        at(400_160, ONE, "gc_major_end", [("generation", 2), ("collected", 3), ("duration", 50)]),
        at(400_300, ONE, "return_from", mfa("price"), "ok"),
        at(400_400, ONE, "return_from", mfa("order"), "ok"),
        at(400_500, TWO, "call", ("shop.orders", "price", [2])),
        at(400_600, TWO, "return_from", mfa("price"), "ok"),
        at(400_700, TWO, "call", ("shop.orders", "order", [3])),
        ("drop", 5),
        at(400_800, TWO, "gc_minor_start", [("generation", 0)]),
        at(400_810, TWO, "gc_minor_end", [("generation", 0), ("duration", 10)]),
    ]
    return messages


TABLES = analysis.tables(story())
ID = {row["pid"]: row["process_id"] for row in TABLES.processes.rows()}
FIRST, SECOND, THIRD = ID[str(ONE)], ID[str(TWO)], ID[str(THREE)]


def sql(query: str) -> list[tuple[Any, ...]]:
    names = {name: getattr(TABLES, name).to_arrow() for name in analysis._tables.NAMES if name in query}
    connection = duckdb.connect()
    for name, table in names.items():
        connection.register(name, table)
    return connection.sql(query).fetchall()


def wait_in_pandas() -> Any:
    frame = TABLES.messages.to_pandas().dropna(subset=["wait_ns"]).groupby("channel_id")["wait_ns"]
    return [
        tuple(map(int, row))
        for row in frame.quantile([0.5, 0.99], interpolation="lower").unstack().reset_index().to_numpy()
    ]


def wait_in_polars() -> Any:
    wait = polars.col("wait_ns").drop_nulls()
    frame = TABLES.messages.to_polars().filter(polars.col("wait_ns").is_not_null()).group_by("channel_id")
    return [
        tuple(map(int, row))
        for row in frame.agg(wait.quantile(0.5, "lower").alias("p50"), wait.quantile(0.99, "lower").alias("p99"))
        .sort("channel_id")
        .rows()
    ]


WAITS = [(SECOND, 50, 99), (THIRD, 30, 30)]


@pytest.mark.parametrize(
    "answer",
    [
        lambda: sql(
            "select channel_id, quantile_disc(wait_ns, 0.5), quantile_disc(wait_ns, 0.99) from messages where wait_ns "
            "is not null group by 1 order by 1"
        ),
        wait_in_pandas,
        wait_in_polars,
        lambda: sorted((row["of_id"], row["p50_ns"], row["p99_ns"]) for row in analysis.latency(TABLES).rows()),
    ],
)
def test_percentiles_of_waits_by_channel(answer: Callable[[], Any]) -> None:
    assert [tuple(row) for row in answer()] == WAITS


@pytest.mark.parametrize(
    "answer",
    [
        lambda: sql("select sender_id, channel_id, count(*) from messages group by 1, 2 order by 2"),
        lambda: [
            tuple(map(int, row))
            for row in TABLES.messages.to_pandas().groupby(["sender_id", "channel_id"]).size().reset_index().to_numpy()
        ],
        lambda: TABLES.messages.to_polars().group_by("sender_id", "channel_id").len().sort("channel_id").rows(),
    ],
)
def test_who_talks_to_whom(answer: Callable[[], Any]) -> None:
    assert [tuple(row) for row in answer()] == [(FIRST, SECOND, 100), (FIRST, THIRD, 2)]


@pytest.mark.parametrize(
    "answer",
    [
        lambda: sql(f"select max(depth_at_send) from messages where channel_id = {THIRD}")[0][0],
        lambda: TABLES.messages.to_pandas().query(f"channel_id == {THIRD}")["depth_at_send"].max(),
        lambda: TABLES.messages.to_polars().filter(polars.col("channel_id") == THIRD)["depth_at_send"].max(),
        lambda: max(row["depth"] for row in analysis.queue_depth(TABLES, THIRD).rows()) - 1,
    ],
)
def test_depth_of_a_queue(answer: Callable[[], Any]) -> None:
    assert answer() == 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda: sql("select process_id, duration_ns from steps order by duration_ns desc limit 1")[0],
        lambda: tuple(TABLES.steps.to_pandas().nlargest(1, "duration_ns")[["process_id", "duration_ns"]].to_numpy()[0]),
        lambda: TABLES.steps.to_polars().top_k(1, by="duration_ns").select("process_id", "duration_ns").rows()[0],
    ],
)
def test_the_longest_step(answer: Callable[[], Any]) -> None:
    assert tuple(answer()) == (SECOND, 500)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: sql("select function, process_id from calls where duration_ns is null"),
        lambda: list(
            TABLES.calls.to_pandas()
            .query("duration_ns.isnull()")[["function", "process_id"]]
            .itertuples(index=False, name=None)
        ),
        lambda: (
            TABLES.calls.to_polars().filter(polars.col("duration_ns").is_null()).select("function", "process_id").rows()
        ),
    ],
)
def test_calls_that_never_ended(answer: Callable[[], Any]) -> None:
    assert [tuple(row) for row in answer()] == [("shop.orders:order/1", SECOND)]


@pytest.mark.parametrize(
    "answer",
    [
        lambda: sql(
            "select function, sum(own_ns), sum(cumulative_ns) from profile"
            f" where process_id = {FIRST} group by 1 order by 1"
        ),
        lambda: list(
            TABLES.profile.to_pandas()
            .query(f"process_id == {FIRST}")
            .sort_values("function")[["function", "own_ns", "cumulative_ns"]]
            .itertuples(index=False, name=None)
        ),
        lambda: (
            TABLES.profile.to_polars()
            .filter(polars.col("process_id") == FIRST)
            .sort(polars.col("function").cast(str))
            .select("function", "own_ns", "cumulative_ns")
            .rows()
        ),
    ],
)
def test_own_and_cumulative_time(answer: Callable[[], Any]) -> None:
    assert [tuple(row) for row in answer()] == [("shop.orders:order/1", 200, 400), ("shop.orders:price/1", 200, 200)]


PAUSES = """select sum(gc.duration_ns) from gc join calls using (process_id) where function = 'shop.orders:order/1'
    and gc.start_mono_ns between calls.start_mono_ns and calls.start_mono_ns + calls.duration_ns"""


def pauses_in_pandas() -> Any:
    joined = TABLES.gc.to_pandas().merge(TABLES.calls.to_pandas(), on="process_id", suffixes=("", "_call"))
    end = joined["start_mono_ns_call"] + joined["duration_ns_call"]
    inside = (
        (joined["function"] == "shop.orders:order/1")
        & (joined["start_mono_ns"] >= joined["start_mono_ns_call"])
        & (joined["start_mono_ns"] <= end)
    )
    return joined[inside.fillna(False)]["duration_ns"].sum()


@pytest.mark.parametrize("answer", [lambda: sql(PAUSES)[0][0], pauses_in_pandas])
def test_collections_inside_a_request(answer: Callable[[], Any]) -> None:
    assert answer() == 50


@pytest.mark.parametrize(
    "answer",
    [
        lambda: sql("select avg((pairing = 'content')::int) from messages where receiver_id is not null")[0][0],
        lambda: (TABLES.messages.to_pandas().dropna(subset=["receiver_id"])["pairing"] == "content").mean(),
        lambda: (
            TABLES.messages.to_polars()
            .filter(polars.col("receiver_id").is_not_null())["pairing"]
            .cast(str)
            .eq("content")
            .mean()
        ),
    ],
)
def test_how_many_pairs_are_guessed(answer: Callable[[], Any]) -> None:
    assert answer() == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        lambda: sql("select sum(count) from losses where at_mono_ns between 400_000 and 401_000")[0][0],
        lambda: TABLES.losses.to_pandas()["count"].sum(),
        lambda: TABLES.losses.to_polars()["count"].sum(),
    ],
)
def test_what_was_lost_meanwhile(answer: Callable[[], Any]) -> None:
    assert answer() == 5


pytestmark = pytest.mark.filterwarnings("ignore::inviso.analysis.AnalysisWarning")
