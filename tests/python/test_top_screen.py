"""The screen of ``inviso top``: each key does what the footer shows, over real nodes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from cli_tools import opened_terminal
from inviso.top._live import Live
from node_tools import Node

pytest.importorskip("textual")

from inviso.top._screen import Opened, Pattern, Screen
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

LIMIT = 60.0
Keys = Callable[[Screen, "Pilot[None]"], Coroutine[Any, Any, None]]


def press(shop: list[Node], keys: Keys, **options: Any) -> None:
    """Runs the screen over the nodes, and the keys on it."""

    async def main() -> None:
        with Live(["shop-*"], timeout=10, **options) as live:
            screen = Screen(live, every=0.25)
            async with screen.run_test(size=(160, 50)) as pilot:
                await until(pilot, lambda: len(screen.refreshed.nodes) == len(shop))
                await asyncio.wait_for(keys(screen, pilot), LIMIT)

    asyncio.run(main())


async def until(pilot: Pilot[None], holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + LIMIT
    while True:
        await pilot.pause()
        if found := holds():
            return found
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def rows(screen: Screen, table: str) -> list[list[str]]:
    found = screen.screen_stack[0].query_one(f"#{table}", DataTable)
    return [[str(cell) for cell in found.get_row_at(at)] for at in range(found.row_count)]


def text(screen: Any, of: str) -> str:
    return str(screen.query_one(of, Static).render())


def test_nodes_and_processes_are_rows(shop: list[Node]) -> None:
    async def keys(screen: Screen, pilot: Pilot[None]) -> None:
        assert [row[0] for row in rows(screen, "nodes")] == [node.name for node in shop]
        assert {row[2] for row in rows(screen, "processes")} == {"MainThread"}
        assert not screen.query_one("#functions").display

    press(shop, keys)


@pytest.mark.parametrize(
    ("key", "by"), [("m", "messages"), ("l", "queue"), ("c", "calls"), ("t", "time"), ("n", "name")]
)
def test_keys_that_sort(shop: list[Node], key: str, by: str) -> None:
    async def keys(screen: Screen, pilot: Pilot[None]) -> None:
        screen.sort = "queue" if by != "queue" else "name"
        shop[1].run("inviso.send(inviso.self(), 'hello')")
        await until(pilot, lambda: screen.refreshed.nodes[shop[1].name].queue == 1)
        await pilot.press(key)
        assert screen.sort == by and f"sorted by {by}" in text(screen, "#told")
        if by == "queue":
            assert [(row[0], row[3]) for row in rows(screen, "processes")] == [(shop[1].name, "1"), (shop[0].name, "0")]

    press(shop, keys)


def test_a_pattern_is_started_and_stopped(shop: list[Node]) -> None:
    async def keys(screen: Screen, pilot: Pilot[None]) -> None:
        await pilot.press("p")
        await until(pilot, lambda: isinstance(screen.screen, Pattern))
        await pilot.press(*"__main__:work", "enter")
        counted = ("__main__:work:_",)
        await until(pilot, lambda: [node.counted for node in screen.refreshed.nodes.values()] == [counted, counted])
        shop[0].run("work(1)")
        await until(pilot, lambda: rows(screen, "functions") and rows(screen, "functions")[0][0] == "__main__:work/1")
        assert screen.query_one("#functions").display and "__main__:work" in text(screen, "#told")
        await pilot.press("x")
        await until(pilot, lambda: [node.state for node in screen.refreshed.nodes.values()] == ["-", "-"])
        assert rows(screen, "functions") == [] and not screen.query_one("#functions").display

    press(shop, keys)


def test_one_of_several_patterns_is_stopped(shop: list[Node]) -> None:
    async def keys(screen: Screen, pilot: Pilot[None]) -> None:
        await pilot.press("x")
        await until(pilot, lambda: len(screen.screen_stack) == 2)
        await pilot.press("down", "enter")
        await until(
            pilot, lambda: [node.counted for node in screen.refreshed.nodes.values()] == [("__main__:work:_",)] * 2
        )

    press(shop, keys, patterns=["__main__:work", "__main__:fails"])


def test_what_is_no_pattern_is_said_and_escape_gives_up(shop: list[Node]) -> None:
    async def keys(screen: Screen, pilot: Pilot[None]) -> None:
        said: list[str] = []
        screen.notify = lambda message, **_: said.append(message)  # type: ignore[method-assign]
        for words in (["_", "enter"], ["a", "colon", "b", "colon", "c", "enter"], ["q", "escape"], ["enter"]):
            await pilot.press("p")
            await until(pilot, lambda: isinstance(screen.screen, Pattern))
            await pilot.press(*words)
            await until(pilot, lambda: len(screen.screen_stack) == 1)
        await pilot.press("x")
        await until(pilot, lambda: len(said) == 3)
        assert said[0].startswith("every function is too many") and said[2] == "no pattern is counted; p starts one"
        assert [node.counted for node in screen.refreshed.nodes.values()] == [(), ()]

    press(shop, keys)


def test_one_process_is_opened_until_it_has_ended(shop: list[Node]) -> None:
    async def keys(screen: Screen, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: screen.refreshed.nodes[shop[0].name].counted)
        shop[0].run("work(1)")
        await pilot.press("n", "enter")
        opened = await until(pilot, lambda: screen.screen if isinstance(screen.screen, Opened) else None)
        assert opened.node == shop[0].name
        await until(
            pilot,
            lambda: "thread 'MainThread'" in text(opened, "#numbers") and opened.query_one("#own", DataTable).row_count,
        )
        assert str(opened.query_one("#own", DataTable).get_row_at(0)[0]) == "__main__:work/1"
        shop[0].kill()
        await until(pilot, lambda: "its process has ended" in text(opened, "#numbers"))
        await pilot.press("escape")
        await until(pilot, lambda: len(screen.screen_stack) == 1)
        assert rows(screen, "nodes")[0][:2] == [shop[0].name, "its process has ended"]

    press(shop, keys, patterns=["__main__:work"])


def test_brackets_of_a_program_are_text(shop: list[Node]) -> None:
    async def keys(screen: Screen, pilot: Pilot[None]) -> None:
        shop[0].run("threading.current_thread().name = '[red]x[/nothing]'")
        await until(pilot, lambda: any("nothing" in row[2] for row in rows(screen, "processes")))
        await pilot.press("n", "enter")
        await until(pilot, lambda: isinstance(screen.screen, Opened) and "nothing]" in text(screen.screen, "#numbers"))

    press(shop, keys)


def test_an_answer_after_the_end_is_ignored(shop: list[Node]) -> None:
    """The view ends while the nodes are asked."""

    async def main() -> None:
        with Live(["shop-*"], timeout=10) as live:
            screen = Screen(live, every=LIMIT)
            async with screen.run_test(size=(160, 50)) as pilot:
                await until(pilot, lambda: len(screen.refreshed.nodes) == len(shop))
            assert screen.screen_stack == []
            await screen.refresh_nodes()
            assert len(screen.refreshed.nodes) == len(shop)

    asyncio.run(main())


def test_an_answer_while_the_view_ends_is_ignored(shop: list[Node]) -> None:
    """Its tables go away one by one, and an answer comes between them."""

    class Ends(Screen):
        async def _close_all(self) -> None:
            await self.screen_stack[0].query_one("#told").remove()
            await self.refresh_nodes()
            self.answered = True
            await super()._close_all()

    async def main() -> None:
        with Live(["shop-*"], timeout=10) as live:
            screen = Ends(live, every=LIMIT)
            async with screen.run_test(size=(160, 50)) as pilot:
                await until(pilot, lambda: len(screen.refreshed.nodes) == len(shop))
            assert screen.answered

    asyncio.run(main())


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
def test_keys_that_end(shop: list[Node], key: str) -> None:
    async def keys(screen: Screen, pilot: Pilot[None]) -> None:
        await pilot.press(key)
        await until(pilot, lambda: not screen.is_running or screen._exit)

    press(shop, keys)


@pytest.mark.parametrize("number", [signal.SIGTERM, None])
def test_the_command_on_a_terminal(shop: list[Node], number: int | None) -> None:
    outer, inner = opened_terminal()
    words = [sys.executable, "-m", "inviso", "top", "shop-*", "-p", "__main__:work", "--every", "100ms"]
    top = subprocess.Popen(words, stdin=inner, stdout=inner, stderr=inner, env={**os.environ, "TERM": "xterm-256color"})
    try:
        os.close(inner)
        seen = b""
        while b"MainThread" not in seen:
            seen += os.read(outer, 1 << 16)
        if number is None:
            os.write(outer, b"q")
        else:
            top.send_signal(number)
        try:
            while os.read(outer, 1 << 16):
                pass
        except OSError:  # the other end is closed
            pass
        assert top.wait(LIMIT) == 0
    finally:
        top.kill()
        top.wait()
        os.close(outer)
