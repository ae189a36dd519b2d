"""Tables of messages, as other libraries read them."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import BadArg, export, trace

from tests.python.export_tools import call_and_return, log, pid

A, B = pid(0), pid(1)
MESSAGES = [
    ("trace_ts", A, "call", ("shop", "order", ["tea"]), 10),
    ("trace_ts", A, "send", {"n": 1}, B, 20),
    ("trace", B, "receive", {"n": 1}),
    ("drop", 5),
    ("trace_ts", A, "return_from", ("shop", "order", 1), 3.5, 30),
    ("seq_trace", "label", ("send", (0, 1), A, B, "m")),
    ("trace_ts", A, "gc_minor_start", [("generation", 0)], 4, 40),
]
COLUMNS = {
    "ts": [10, 20, None, None, 30, None, 40],
    "kind": ["trace", "trace", "trace", "drop", "trace", "seq_trace", "trace"],
    "tag": ["call", "send", "receive", "drop", "return_from", "send", "gc_minor_start"],
    "pid": [repr(A), repr(A), repr(B), None, repr(A), repr(A), repr(A)],
    "module": ["shop", None, None, None, "shop", None, None],
    "function": ["order", None, None, None, "order", None, None],
    "arity": [1, None, None, None, 1, None, None],
    "other": [None, repr(B), None, None, None, repr(B), None],
    "args": ["['tea']", None, None, None, None, None, None],
    "value": [None, "{'n': 1}", "{'n': 1}", None, "3.5", "'m'", "[('generation', 0)]"],
    "scheduler": [None, None, None, None, None, None, 4],
    "label": [None, None, None, None, None, "'label'", None],
    "serial_current": [None, None, None, None, None, 1, None],
    "dropped": [None, None, None, 5, None, None, None],
}


def test_pyarrow_reads_it() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(export.arrow(MESSAGES))
    table.validate(full=True)
    assert {name: table[name].to_pylist() for name in COLUMNS} == COLUMNS
    names = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    assert table.schema.field("pid").type == names
    assert pyarrow.schema(export.arrow([])) == table.schema
    assert pyarrow.table(export.arrow([])).num_rows == 0


def test_polars_reads_it() -> None:
    polars = pytest.importorskip("polars")
    for frame in (polars.DataFrame(export.arrow(MESSAGES)), export.arrow(MESSAGES).to_polars()):
        assert frame["tag"].dtype == polars.Categorical
        assert {name: frame[name].to_list() for name in COLUMNS} == COLUMNS


def test_pandas_reads_it() -> None:
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    frame = export.arrow(MESSAGES).to_pandas()
    assert frame["tag"].astype(str).tolist() == COLUMNS["tag"]
    assert frame["ts"].isna().tolist() == [value is None for value in COLUMNS["ts"]]
    assert isinstance(frame["pid"].dtype, pandas.CategoricalDtype)


def test_duckdb_reads_it() -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.from_arrow(export.arrow(MESSAGES))
    found = duckdb.sql("select tag, sum(ts) from rows where kind = 'trace' group by tag order by tag").fetchall()
    assert rows.columns[:2] == ["ts", "unique"]
    assert found == [("call", 10), ("gc_minor_start", 40), ("receive", None), ("return_from", 30), ("send", 20)]


def test_parquet_is_the_same_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    summary = export.parquet(MESSAGES, tmp_path / "trace.parquet")
    assert (summary.messages, summary.dropped) == (6, 5)
    table = parquet.read_table(tmp_path / "trace.parquet")
    assert {name: table[name].to_pylist() for name in COLUMNS} == COLUMNS
    out = io.BytesIO()
    export.FORMATS["parquet"](log(tmp_path / "log", MESSAGES), out)
    assert parquet.read_table(io.BytesIO(out.getvalue())).num_rows == len(MESSAGES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "trace.parquet"]


PARQUET = """
import io, sys
sys.modules["pyarrow"] = None
{more}
from inviso import export
out = io.BytesIO()
export.parquet([("trace", 1)], out)
print(out.getvalue()[:4])
"""


@pytest.mark.parametrize("more", ["", 'sys.modules["polars"] = None'])
def test_parquet_without_pyarrow(more: str) -> None:
    if not more:
        pytest.importorskip("polars")
    done = subprocess.run([sys.executable, "-c", PARQUET.format(more=more)], capture_output=True, text=True, timeout=60)
    if more:
        assert "ModuleNotFoundError: pyarrow is missing: pip install 'inviso[arrow]'" in done.stderr
    else:
        assert done.stdout.strip() == "b'PAR1'", done.stderr


def test_row_groups_of_parquet_have_several_batches(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    messages = call_and_return(40_000, 300)
    export.parquet(log(tmp_path / "log", messages), tmp_path / "trace.parquet")
    file = parquet.ParquetFile(tmp_path / "trace.parquet")
    groups = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
    assert groups == [64_000, 16_000]
    assert file.read(["function"])["function"].to_pylist() == [m[3][1] for m in messages]


def test_many_batches_go_on_with_their_dictionaries(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    messages = call_and_return(100_000, 300)
    path = log(tmp_path / "log", messages)
    rows = export.arrow(path, values="none")
    for _ in range(2):  # a log can be read again
        reader = pyarrow.RecordBatchReader.from_stream(rows)
        batches = list(reader)
        assert len(batches) == 13  # of 16,000 rows at most
        table = pyarrow.Table.from_batches(batches)
        table.validate(full=True)
        assert table["ts"].to_pylist() == [m[-1] for m in messages]
        assert table["function"].to_pylist() == [m[3][1] for m in messages]
        for before, batch in zip(batches[1:], batches[3:], strict=False):  # two threads make them in turns
            first, last = (batch.column("function").dictionary.to_pylist() for batch in (before, batch))
            assert last[: len(first)] == first
    assert rows.summary().messages == 200_000
    assert repr(rows) == "<rows of 200000 trace messages>"


@pytest.mark.parametrize("reader", ["pandas", "polars", "duckdb"])
def test_batches_with_dictionaries_of_their_own_are_read(reader: str, tmp_path: Path) -> None:
    module = pytest.importorskip(reader)
    pytest.importorskip("pyarrow")
    messages = call_and_return(50_000, 300)
    rows = export.arrow(log(tmp_path / "log", messages), values="none")
    if reader == "pandas":
        functions = rows.to_pandas()["function"].tolist()
    elif reader == "polars":
        functions = rows.to_polars()["function"].to_list()
    else:
        functions = [name for (name,) in module.sql("select function from rows").fetchall()]
    assert functions == [m[3][1] for m in messages]


def test_a_table_that_is_read_in_part_leaves_no_thread(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = log(tmp_path / "log", call_and_return(100_000, 300))
    before = len(os.listdir("/proc/self/task"))
    reader = pyarrow.RecordBatchReader.from_stream(export.arrow(path))
    names = [reader.read_next_batch().num_rows for _ in range(3)]
    assert names == [16_000] * 3
    del reader
    gc.collect()
    assert len(os.listdir("/proc/self/task")) <= before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: no other threads read")
def test_a_forked_child_is_told_that_it_can_not_go_on(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = log(tmp_path / "log", call_and_return(100_000, 300))
    code = f"""
import os, sys, pyarrow
from inviso import export
reader = pyarrow.RecordBatchReader.from_stream(export.arrow({str(path)!r}))
reader.read_next_batch(); reader.read_next_batch()
if os.fork() == 0:
    try:
        while True: reader.read_next_batch()
    except OSError as error:
        print(error, flush=True)
    del reader
    os._exit(0)
os.wait()
print(sum(batch.num_rows for batch in reader))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    child, parent = done.stdout.splitlines()
    assert "forked" in child and parent == str(200_000 - 32_000), done.stderr


def test_what_gives_messages_once_is_read_once() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with trace.session_create("once") as session:
        session.process(inviso.self(), True, ["send"])
        inviso.send(inviso.self(), "x")
        inviso.receive()
        session.process(inviso.self(), False, ["all"])
        rows = export.arrow(session)
    assert pyarrow.table(rows)["tag"].to_pylist() == ["send"]
    with pytest.raises(BadArg, match="keep the table"):
        pyarrow.table(rows)


def test_what_reading_raises_is_told() -> None:
    pyarrow = pytest.importorskip("pyarrow")

    def broken() -> Any:
        yield MESSAGES[0]
        raise KeyError("broken")

    rows = export.arrow(broken())
    assert rows.error is None
    with pytest.raises((OSError, pyarrow.ArrowException), match="broken"):
        pyarrow.table(rows)
    assert isinstance(rows.error, KeyError)
    rows = export.arrow([MESSAGES[0], object()])
    with pytest.raises((OSError, pyarrow.ArrowException), match="BadArg: arrow/1, source: a message that is no term"):
        pyarrow.table(rows)
    assert isinstance(rows.error, BadArg)
    with pytest.raises(BadArg, match="keep the table"):
        rows.to_arrow()


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt])
def test_what_we_read_ourselves_raises_the_sources_own_error(raised: type[BaseException], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("polars")

    def broken() -> Any:
        yield MESSAGES[0]
        raise raised("mine")

    for read in (
        lambda: export.parquet(broken(), tmp_path / "out"),
        lambda: export.arrow(broken()).to_arrow(),
        lambda: export.arrow(broken()).to_polars(),
    ):
        with pytest.raises(raised, match="^mine$"):
            read()
    with pytest.raises(BadArg, match="parquet/2, source: a message that is no term"):
        export.parquet([MESSAGES[0], object()], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_stream_that_nobody_reads_is_let_go_of() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for take in (lambda rows: None, lambda rows: rows.__arrow_c_stream__(), pyarrow.RecordBatchReader.from_stream):
        gone = threading.Event()

        class Last:
            def __iter__(self) -> Any:
                return self

            def __next__(self) -> Any:
                raise StopIteration

            def __del__(self, gone: threading.Event = gone) -> None:
                gone.set()

        rows = export.arrow(Last())
        taken = take(rows)
        del rows, taken
        gc.collect()
        assert gone.is_set()


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ModuleNotFoundError, match="pip install polars"):
        export.arrow(MESSAGES).to_polars()
