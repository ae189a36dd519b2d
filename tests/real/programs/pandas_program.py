"""pandas: Cython that calls Python functions and fails at lookups, groups, windows, a parser with converters."""

import io
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd

steps = 0
lock = threading.Lock()


def step(value: Any) -> Any:
    global steps
    with lock:
        steps += 1
    return value


def refused(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:70]}"


ORDERS = "\n".join(["day,shop,items,price", *(f"2024-01-{n % 28 + 1:02},s{n % 3},{n % 5},{n}.5" for n in range(120))])


def orders() -> pd.DataFrame:
    return pd.read_csv(io.StringIO(ORDERS), parse_dates=["day"], converters={"items": lambda text: step(int(text))})


def tables(frame: pd.DataFrame) -> None:
    def total(group: pd.DataFrame) -> float:
        return step(float((group["items"] * group["price"]).sum()))

    by_shop = frame.groupby("shop")[["items", "price"]]
    print(by_shop.apply(total).to_dict())
    print(by_shop.agg({"items": lambda s: step(s.max()), "price": "mean"}).to_csv(lineterminator=";"))
    print(frame["shop"].map(step).value_counts().sort_index().to_dict())
    print(frame["price"].rolling(3).apply(lambda window: step(window.iloc[0]), raw=False).sum())
    print(frame.apply(lambda row: step(row["items"] + row["price"]), axis=1).sum())
    daily = frame.set_index("day").sort_index()["price"].resample("W").sum()
    print(daily.index[-1].isoformat(), daily.tolist())
    joined = frame.merge(pd.DataFrame({"shop": ["s0", "s2"], "town": ["Ulm", "Bonn"]}), how="left", on="shop")
    print(joined.pivot_table(index="town", columns="items", values="price", aggfunc="sum", dropna=False).to_json())
    print(
        pd.cut(frame["price"], 4).value_counts(sort=False).tolist(),
        frame.query("items > 2 and price < 20").index.tolist(),
    )


def errors(frame: pd.DataFrame) -> None:
    for name in ("there", "is", "none"):
        for _ in range(10):
            assert pd.Series([1, 2], index=["a", "b"]).get(name, "none") == "none"
    print(refused(lambda: frame["nothing"]))
    print(refused(lambda: frame.loc["x"]))
    print(refused(lambda: pd.to_datetime("the day after")))
    print(refused(lambda: pd.Timestamp(2024, 13, 1)))
    print(refused(lambda: pd.Series(["1", "x"]).astype(int)))
    print(refused(lambda: pd.to_numeric(pd.Series(["1", "x"]))))
    print(refused(lambda: pd.read_csv(io.StringIO("a,b\n1,2\n1,2,3\n"))))
    print(refused(lambda: frame.groupby("shop")["price"].apply(lambda group: 1 / (group.size - 40))))
    print(refused(lambda: pd.Index([1, 1]).reindex([1])))
    print(refused(lambda: pd.Interval(2, 1)))
    print(refused(lambda: pd.Period("x", "D")))
    print(refused(lambda: frame["shop"].map({"s0": 1}.__getitem__)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        print(refused(lambda: warnings.warn("as an error", UserWarning, stacklevel=1)))


def part(number: int) -> float:
    frame = orders()
    for _ in range(5):
        refused(lambda: frame["nothing"])
    return round(float(frame[frame["items"] == number]["price"].sum()), 3)


def main() -> int:
    frame = orders()
    tables(frame)
    errors(frame)
    with ThreadPoolExecutor(2) as pool:
        print(list(pool.map(part, range(4))))
    print("steps", steps)
    return 4


if __name__ == "__main__":
    sys.exit(main())
