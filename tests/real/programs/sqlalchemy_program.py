"""SQLAlchemy: the ORM over SQLite, Python functions called by SQLite, greenlets that wait for coroutines; threads."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, orm
from sqlalchemy.util import await_only, greenlet_spawn

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
        return f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"


class Base(orm.DeclarativeBase):
    pass


class Tags(sa.TypeDecorator[Any]):
    """A column whose values are made by Python at each row."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return ",".join(step(value))

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return step(value).split(",")


class Customer(Base):
    __tablename__ = "customer"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(unique=True)
    tags: orm.Mapped[Any] = orm.mapped_column(Tags)
    orders: orm.Mapped[list[Order]] = orm.relationship(back_populates="customer", cascade="all, delete-orphan")


class Order(Base):
    __tablename__ = "order"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    total: orm.Mapped[int]
    customer_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("customer.id"))
    customer: orm.Mapped[Customer] = orm.relationship(back_populates="orders")

    @orm.validates("total")
    def _positive(self, key: str, value: int) -> int:
        if step(value) < 0:
            raise ValueError(f"{key} is {value}")
        return value


class Largest:
    """An aggregate function of SQLite's."""

    def __init__(self) -> None:
        self.value = 0

    def step(self, value: int) -> None:
        self.value = max(self.value, value)

    def finalize(self) -> int:
        return step(self.value)


def connected(connection: sqlite3.Connection, record: Any) -> None:
    connection.create_function("half", 1, lambda value: step(value // 2))
    connection.create_function("fails", 1, lambda value: {}[value])
    connection.create_aggregate("largest", 1, Largest)  # type: ignore[arg-type]


def fill(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session, session.begin():
        for n in range(20):
            orders = [Order(total=n * k) for k in range(1, 4)]
            session.add(Customer(name=f"c{n}", tags=["new", str(n)], orders=orders))


def queries(engine: sa.Engine) -> None:
    with orm.Session(engine) as session:
        rows = session.execute(
            sa.select(Customer.name, sa.func.sum(Order.total)).join(Order).group_by(Customer.name).order_by(Customer.id)
        )
        print([tuple(row) for row in rows][:5])
        loaded = session.scalars(sa.select(Customer).options(orm.selectinload(Customer.orders)).order_by(Customer.id))
        print([(c.tags, len(c.orders)) for c in loaded][:3])
        print(session.scalar(sa.select(sa.func.largest(Order.total))))
        print(session.scalars(sa.select(Order.id).where(sa.func.half(Order.total) > 20).order_by(Order.id)).all())
        print(refused(lambda: session.scalars(sa.select(sa.func.fails(Order.total))).all()))
        print(refused(lambda: session.scalars(sa.select(Customer)).one()))
        print(refused(lambda: Order(total=-1)))
    with orm.Session(engine) as session:
        session.add(Customer(name="c1", tags=["twice"]))
        print(refused(session.commit))
        session.rollback()
        session.delete(session.get_one(Customer, 3))
        session.commit()
        print(session.scalar(sa.select(sa.func.count()).select_from(Order)))
    with engine.connect() as connection:
        print(refused(lambda: connection.execute(sa.text("select nothing"))))
        row = connection.execute(sa.select(sa.literal(1).label("one"), sa.literal("x").label("text"))).one()
        print(row.one, row._mapping["text"], refused(lambda: row.two), refused(lambda: row._mapping["two"]))
        nested = connection.begin_nested()
        connection.execute(sa.delete(Order))
        nested.rollback()
        print(connection.scalar(sa.text('select count(*) from "order"')))


def threads(engine: sa.Engine) -> None:
    seen: list[tuple[int, int]] = []

    def work(number: int) -> None:
        for _ in range(10):
            with orm.Session(engine) as session:
                found = session.scalars(sa.select(Order).where(Order.total > number)).all()
                refused(lambda: session.scalars(sa.select(sa.func.fails(Order.total))).all())
        seen.append((number, len(found)))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(sorted(seen))


async def later(value: int) -> int:
    await asyncio.sleep(0)
    if value == 3:
        raise LookupError("three")
    return step(value)


def blocking(engine: sa.Engine, number: int) -> Any:
    """Runs in a greenlet: waits for coroutines inside plain functions."""
    with engine.connect() as connection:
        value = await_only(later(number))
        return connection.scalar(sa.select(sa.literal(value) + await_only(later(1))))


async def greenlets(engine: sa.Engine) -> None:
    done = await asyncio.gather(*(greenlet_spawn(blocking, engine, n) for n in range(5)), return_exceptions=True)
    print([repr(result) for result in done])


def main() -> int:
    engine = sa.create_engine("sqlite:///shop.db", poolclass=sa.QueuePool, pool_size=3)
    event.listen(engine, "connect", connected)
    fill(engine)
    queries(engine)
    threads(engine)
    asyncio.run(greenlets(engine))
    engine.dispose()
    print("steps", steps)
    return 6


if __name__ == "__main__":
    sys.exit(main())
