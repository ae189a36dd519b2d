"""Pools of processes that work on request: two of `multiprocessing`, one of `concurrent.futures`."""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor


def square(number):
    return number * number


def main():
    kind = sys.argv[1]
    if kind in ("fork", "spawn"):
        pool = multiprocessing.get_context(kind).Pool(2)
        run = pool.map
    else:
        pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver"))
        run = pool.map
    with pool:
        sum(run(square, range(20), chunksize=1))  # they are all there
        print("ready", flush=True)
        for line in sys.stdin:
            print(sum(run(square, range(int(line)), chunksize=5)), flush=True)
    # the pools of multiprocessing have sent SIGTERM, without waiting for their workers
    sys.exit(3)


if __name__ == "__main__":
    main()
