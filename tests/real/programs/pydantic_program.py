"""pydantic: validators, serializers and factories in Python, called from Rust; their errors; threads."""

from __future__ import annotations

import dataclasses
import sys
import threading
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import pydantic
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    WrapValidator,
    computed_field,
    field_serializer,
    field_validator,
    model_validator,
)

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
    except pydantic.ValidationError as error:
        return f"ValidationError: {[(e['type'], e['loc'], e['msg']) for e in error.errors(include_url=False)]}"
    except Exception as error:
        return f"{type(error).__name__}: {error} caused by {error.__cause__!r}"


def wrapped(value: Any, inner: Any) -> Any:
    try:
        return step(inner(value))
    except pydantic.ValidationError:
        return -1


Price = Annotated[Decimal, BeforeValidator(lambda text: step(str(text).removeprefix("$")))]
Lenient = Annotated[int, WrapValidator(wrapped)]


class Item(BaseModel):
    kind: Literal["item"] = "item"
    name: str = Field(min_length=2)
    price: Price
    rating: Lenient = 0
    tags: set[str] = Field(default_factory=lambda: step({"new"}))

    @field_validator("name")
    @classmethod
    def lower(cls, name: str) -> str:
        assert name != "nothing", "there is no such thing"
        if name == "broken":
            raise LookupError("not a validation error")
        return step(name.lower())

    @field_serializer("price")
    def shown(self, price: Decimal) -> str:
        if price > 1000:
            raise OverflowError("too dear")
        return step(f"${price}")

    @computed_field
    def expensive(self) -> bool:
        return step(self.price > 50)


class Gift(BaseModel):
    kind: Literal["gift"]
    to: str


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    rows: list[T]
    day: date

    @model_validator(mode="after")
    def whole(self) -> Page[T]:
        if len(self.rows) > 100:
            raise ValueError("too many rows")
        return step(self)


@dataclasses.dataclass
class Point:
    x: int
    y: int

    def __post_init__(self) -> None:
        step(self.x)


Thing = Annotated[Item | Gift, Field(discriminator="kind")]
THINGS = TypeAdapter(list[Thing])
POINTS = TypeAdapter(dict[str, Point])


def rows(number: int) -> list[dict[str, Any]]:
    return [{"name": f"Thing {n}", "price": f"${n}.50", "rating": "x" if n % 3 else n} for n in range(number)]


def values() -> None:
    page = Page[Item].model_validate({"rows": rows(40), "day": "2024-02-29"})
    print(len(page.rows), sum(row.rating for row in page.rows), page.model_dump_json()[:120])
    print(
        Page[Item].model_validate_json(page.model_dump_json(exclude={"rows": {"__all__": {"expensive", "kind"}}}))
        == page
    )
    print(THINGS.validate_python([{"kind": "gift", "to": "Ann"}, {"kind": "item", "name": "Cup", "price": 3}]))
    print(POINTS.validate_json('{"a": {"x": 1, "y": "2"}}'), POINTS.dump_python({"b": Point(3, 4)}))
    print(sorted(Page[Item].model_json_schema()["$defs"]))

    @pydantic.validate_call
    def scale(by: int, *values: Price) -> list[Decimal]:
        return [step(by * value) for value in values]

    print(scale("2", "$1", 3), refused(lambda: scale("x")))


def errors() -> None:
    for _ in range(20):
        refused(lambda: Item(name="x", price="y"))
    print(refused(lambda: Item(name="x", price="y")))
    print(refused(lambda: Item(name="nothing", price=1)))
    print(refused(lambda: Item(name="broken", price=1)))
    print(refused(lambda: THINGS.validate_python([{"kind": "car"}, {}])))
    print(refused(lambda: Page[Item](rows=rows(101), day=date(2024, 1, 1))))
    print(refused(lambda: POINTS.validate_json('{"a": ')))
    print(refused(lambda: Item(name="yacht", price=5000).model_dump()))
    print(refused(lambda: Page[int].model_validate_json('{"rows": ["a", 1, null], "day": "x"}')))


def threads() -> None:
    seen: list[int] = []

    def work() -> None:
        for _ in range(10):
            refused(lambda: Item(name="nothing", price=1))
            page = Page[Item].model_validate({"rows": rows(10), "day": "2024-02-29"})
        seen.append(len(page.model_dump_json()))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(seen)


def main() -> int:
    values()
    errors()
    threads()
    print("steps", steps)
    return 9


if __name__ == "__main__":
    sys.exit(main())
