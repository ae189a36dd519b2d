"""Known work for the profiler: every count below is exact.

leaf: 3 + 4 + 5 + 6 = 18 calls; twice: 2; step (a coroutine): 2 tasks, 1 call each; lambdas: 7 and 1.
"""

import asyncio
import sys
import threading


def leaf(n: int) -> int:
    return n + 1


def twice(n: int) -> int:
    return sum(leaf(i) for i in range(n))


async def step(n: int) -> int:
    total = 0
    for _ in range(n):
        await asyncio.sleep(0)
        total = leaf(total)
    return total


async def both() -> None:
    await asyncio.gather(step(5), step(6))


def main() -> None:
    thread = threading.Thread(target=twice, args=(3,), name="worker")
    thread.start()
    thread.join()
    twice(4)
    asyncio.run(both())
    many = lambda: None  # noqa: E731
    once = lambda: None  # noqa: E731
    for _ in range(7):
        many()
    once()
    print("done", *sys.argv[1:])


if __name__ == "__main__":
    main()
