"""Channels of messages in a log that another process wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from inviso import analysis
from inviso.analysis import Tables

PROGRAM = Path(__file__).parent / "subjects" / "shop_of_channels.py"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    path = tmp_path_factory.mktemp("channels") / "shop.log"
    done = subprocess.run([sys.executable, PROGRAM, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return analysis.tables(path)


def test_channels_have_classes_names_and_limits(tables: Tables) -> None:
    rows = [row for row in tables.channels.rows() if row["kind"] == "queue"]
    assert sorted((row["class"], row["name"], row["maxsize"]) for row in rows if row["name"]) == [
        ("__main__.Box", "parcels", 3),
        ("concurrent.futures.thread.ThreadPoolExecutor", "packers", None),
    ]
    assert {row["class"]: row["maxsize"] for row in rows if not row["name"]} == {
        "__main__.Odd": 2,
        "_queue.SimpleQueue": None,
        "asyncio.queues.Queue": 5,
        "concurrent.futures._base.Future": None,
    }
    assert all(row["class"] is None for row in tables.channels.rows() if row["kind"] == "mailbox")
