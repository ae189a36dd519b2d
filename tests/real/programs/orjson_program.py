"""orjson: a default function called from Rust, errors with causes, NumPy arrays, recursion; threads."""

import dataclasses
import datetime
import enum
import sys
import threading
import uuid
from collections import UserDict, deque
from typing import Any

import numpy as np
import orjson

steps = 0
lock = threading.Lock()


def step(value: Any) -> Any:
    global steps
    with lock:
        steps += 1
    return value


def refused(call: Any) -> str:
    try:
        return f"no error: {call()!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error} caused by {error.__cause__!r}"


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Order:
    number: int
    when: datetime.datetime
    lines: list[Any]


class Text(str):
    pass


def default(value: Any) -> Any:
    step(value)
    if isinstance(value, (set, frozenset, deque)):
        return sorted(value)
    if isinstance(value, UserDict):
        return dict(value)
    if isinstance(value, complex):
        return [value.real, value.imag]
    if value is Ellipsis:
        return value
    raise TypeError(f"no JSON for {type(value).__name__}")


def order(number: int) -> Order:
    return Order(number, datetime.datetime(2024, 1, 2, 3, 4, 5, number, datetime.UTC), [{3, 1, 2}, deque([number]), 1j])


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def main() -> int:
    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_UTC_Z
    print(orjson.dumps([order(n) for n in range(30)], default).decode()[-160:])
    print(
        orjson.dumps({1: Colour.RED, None: UserDict(a=1), "n": np.arange(6).reshape(2, 3)}, default, options).decode()
    )
    print(orjson.dumps([uuid.UUID(int=7), Text("sub"), datetime.date(2024, 2, 29), 0.1, 2**53]).decode())
    print(orjson.dumps({"b": [1, {"c": orjson.Fragment(b"[true]")}]}, option=orjson.OPT_INDENT_2).decode())
    print(orjson.loads(orjson.dumps({"a": [1, 2.5, None, "ä"]})))
    for _ in range(50):
        refused(lambda: orjson.dumps([object()], default))
        refused(lambda: orjson.loads("[1, 2"))
    print(refused(lambda: orjson.dumps([object()], default)))
    print(refused(lambda: orjson.dumps([object()])))
    print(refused(lambda: orjson.dumps(..., default)))
    print(refused(lambda: orjson.dumps({(1, 2): 3})))
    print(refused(lambda: orjson.dumps(2**70)), refused(lambda: orjson.dumps("\ud800")))
    print(refused(lambda: orjson.dumps(np.array([1j]), option=options)))
    print(refused(lambda: orjson.dumps(deep(2000))))
    print(
        refused(lambda: orjson.dumps([1], default=lambda v: 1 // 0)),
        refused(lambda: orjson.dumps([{1}], lambda v: 1 // 0)),
    )
    for text in ("", "[1,]", "{'a': 1}", b"\xff", "[" * 2000, 3):
        print(refused(lambda: orjson.loads(text)))  # noqa: B023
    seen: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            refused(lambda: orjson.dumps([object()], default))
        seen.append(len(orjson.dumps([order(n) for n in range(number)], default)))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(sorted(seen), "steps", steps)
    return 10


if __name__ == "__main__":
    sys.exit(main())
