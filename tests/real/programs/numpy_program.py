"""NumPy: Python functions called from ufuncs, sorts and iterators; Cython tracebacks of numpy.random; threads."""

import pickle
import sys
import threading
from typing import Any

import numpy as np

steps = 0
lock = threading.Lock()


def step(value: Any) -> Any:
    global steps
    with lock:
        steps += 1
    return value


class Money:
    """An object that arrays add, compare and refuse to divide."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __add__(self, other: "Money") -> "Money":
        return Money(step(self.cents + other.cents))

    def __lt__(self, other: "Money") -> bool:
        return step(self.cents < other.cents)

    def __truediv__(self, other: object) -> "Money":
        raise ArithmeticError(f"{self.cents} by {other}")


class Logged(np.ndarray):
    """A subclass that sees each ufunc that is applied to it."""

    def __array_finalize__(self, parent: Any) -> None:
        step(None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        step(ufunc)
        plain = [np.asarray(i) if isinstance(i, Logged) else i for i in inputs]
        return getattr(ufunc, method)(*plain, **options)


def refused(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except Exception as error:
        names, where = [], error.__traceback__
        while where is not None:
            names.append(where.tb_frame.f_code.co_name)
            where = where.tb_next
        return f"{type(error).__name__}: {str(error)[:60]} through {names}"


def callbacks() -> None:
    ufunc = np.frompyfunc(lambda a, b: step(a * b), 2, 1)
    print("frompyfunc", ufunc.reduce(np.arange(1, 10)), ufunc.outer([1, 2], [3, 4]).tolist())
    print("vectorize", np.vectorize(step, otypes=[int])(np.arange(12)).sum())
    print("apply", np.apply_along_axis(lambda row: step(row.sum()), 1, np.arange(12).reshape(3, 4)).tolist())
    print("fromiter", np.fromiter((step(n) for n in range(50)), dtype=np.int64).sum())
    money = np.array([Money(n * 7 % 5) for n in range(9)], dtype=object)
    print("objects", money.sum().cents, [m.cents for m in np.sort(money)])
    logged = np.arange(5).view(Logged)
    print("subclass", (logged + 1).tolist(), np.add.reduce(logged))
    with np.errstate(all="call", call=lambda kind, flag: step(None)):
        print("errstate", np.isinf(np.array([1.0, 2.0]) / 0.0).all())


def errors() -> None:
    random = np.random.default_rng(7)
    for _ in range(20):
        refused(lambda: random.choice([], 2))
    print(refused(lambda: random.choice([], 2)))
    print(refused(lambda: random.integers(5, 1)))
    print(refused(lambda: random.multivariate_normal([0, 0], [[1]])))
    print(refused(lambda: np.random.RandomState(1).shuffle(3)))
    print(refused(lambda: np.array([Money(1)]) / 2))
    print(refused(lambda: np.fromiter((1 // (3 - n) for n in range(5)), dtype=int)))
    print(refused(lambda: np.zeros(3) + np.zeros(4)))
    print(refused(lambda: np.frompyfunc(lambda a: {}[a], 1, 1)([1])))
    print(refused(lambda: np.linalg.inv(np.zeros((2, 2)))))
    with np.errstate(divide="raise"):
        print(refused(lambda: np.ones(2) / 0))


def threads() -> None:
    sums: dict[int, float] = {}

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(20):
            refused(lambda: random.choice([], 2))
        sums[seed] = round(float(random.standard_normal(1000).sum()), 6)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("threads", sorted(sums.items()))
    random = pickle.loads(pickle.dumps(np.random.default_rng(3)))
    print("pickled", random.permutation(6).tolist(), np.einsum("ij,jk->ik", np.eye(2), np.ones((2, 2))).tolist())


def main() -> int:
    callbacks()
    errors()
    threads()
    print("steps", steps)
    return 3


if __name__ == "__main__":
    sys.exit(main())
