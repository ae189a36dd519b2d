"""The background thread, and its test of the current thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from inviso._background import Timer


def test_only_the_background_thread_itself_is_current() -> None:
    seen: list[bool] = []
    stepped = threading.Event()

    def step() -> float:
        seen.append(timer.is_current())
        stepped.set()
        return 30.0

    timer = Timer(step)
    assert not timer.is_current()
    timer.start(0.0)
    assert stepped.wait(30) and seen == [True]
    assert not timer.is_current()
    timer.end()


def in_a_thread(function: Callable[[], bool]) -> bool:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


@pytest.mark.parametrize("end", [Timer.stop, Timer.end])
def test_a_later_thread_with_the_identifier_of_the_ended_one_is_not_current(end: Callable[[Timer], None]) -> None:
    """The system may give a new thread the identifier of an ended one, so the identifier is forgotten at the end."""
    idents: list[int] = []
    timer = Timer(lambda: idents.append(threading.get_ident()) or 30.0)
    for _ in range(100):
        timer.start(0.0)
        while not idents:
            pass
        timer.stop()
        assert not in_a_thread(lambda: threading.get_ident() == idents[0] and timer.is_current())
        idents.clear()
    end(timer)
