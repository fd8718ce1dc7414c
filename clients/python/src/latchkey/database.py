"""Databases of `with_transaction`: transactions of psycopg and SQLAlchemy."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Union, cast

from .commit_once import Rows, Values

if TYPE_CHECKING:
    import asyncio

    from psycopg import AsyncConnection, Connection
    from sqlalchemy import Connection as AlchemyConnection
    from sqlalchemy import CursorResult
    from sqlalchemy.ext.asyncio import AsyncConnection as AlchemyAsyncConnection
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

Tx = TypeVar("Tx")
Tx_co = TypeVar("Tx_co", covariant=True)
Psycopg = TypeVar("Psycopg", bound="Connection[Any]")
AsyncPsycopg = TypeVar("AsyncPsycopg", bound="AsyncConnection[Any]")
Alchemy = TypeVar("Alchemy", bound="AlchemyConnection | Session")
AsyncAlchemy = TypeVar("AsyncAlchemy", bound="AlchemyAsyncConnection | AsyncSession")

_PRUNE_EVERY_S = 60.0


@dataclass(frozen=True)
class Transaction(Generic[Tx]):
    """Open transaction. Statements name their values like `:scope`."""

    tx: Tx
    """The driver's own object, for the statements of `work`."""
    query: Callable[[str, Values], Rows]


@dataclass(frozen=True)
class AsyncTransaction(Generic[Tx]):
    """Open transaction of coroutines."""

    tx: Tx
    query: Callable[[str, Values], Awaitable[Rows]]


class _Pruning:
    def __init__(self) -> None:
        self._pruned_at_s = float("-inf")

    def starts_prune(self) -> bool:
        """Returns true at most once a minute: expired rows should then be deleted."""
        now = time.monotonic()
        if now - self._pruned_at_s < _PRUNE_EVERY_S:
            return False
        self._pruned_at_s = now
        return True


class Database(_Pruning, Generic[Tx]):
    """Postgres database with the table of `table_sql()`. Create one per process."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Transaction[Tx]]]) -> None:
        """`begin`: begins a transaction; the end of the context commits it, an exception rolls it back."""
        super().__init__()
        self.begin = begin


class AsyncDatabase(_Pruning, Generic[Tx]):
    """Postgres database with the table of `table_sql()`, for coroutines. Create one per event loop."""

    def __init__(self, begin: Callable[[], AbstractAsyncContextManager[AsyncTransaction[Tx]]]) -> None:
        """`begin`: begins a transaction; the end of the context commits it, an exception rolls it back."""
        super().__init__()
        self.begin = begin
        self.tasks: set[asyncio.Task[Any]] = set()
        """Background tasks. Kept here because the event loop has only weak references."""


def psycopg(connect: Callable[[], AbstractContextManager[Psycopg]]) -> Database[Psycopg]:
    """Uses psycopg 3: `psycopg(pool.connection)`, or `psycopg(lambda: Connection.connect(url))`. `work` gets the connection."""
    from psycopg.rows import tuple_row

    @contextmanager
    def begin() -> Iterator[Transaction[Psycopg]]:
        with connect() as connection, connection.transaction():

            def query(text: str, values: Values) -> Rows:
                with connection.cursor(row_factory=tuple_row) as cursor:
                    cursor.execute(_psycopg_text(text), values)
                    return cursor.fetchall() if cursor.description else []

            yield Transaction(connection, query)

    return Database(begin)


def psycopg_async(
    connect: Callable[[], Union[AbstractAsyncContextManager[AsyncPsycopg], Awaitable[AsyncPsycopg]]],
) -> AsyncDatabase[AsyncPsycopg]:
    """Uses psycopg 3 with asyncio: `psycopg_async(pool.connection)`, or `psycopg_async(lambda: AsyncConnection.connect(url))`."""
    from psycopg.rows import tuple_row

    @asynccontextmanager
    async def begin() -> AsyncIterator[AsyncTransaction[AsyncPsycopg]]:
        opened = connect()
        context = await opened if inspect.isawaitable(opened) else opened
        async with cast("AbstractAsyncContextManager[AsyncPsycopg]", context) as connection:
            async with connection.transaction():

                async def query(text: str, values: Values) -> Rows:
                    async with connection.cursor(row_factory=tuple_row) as cursor:
                        await cursor.execute(_psycopg_text(text), values)
                        return await cursor.fetchall() if cursor.description else []

                yield AsyncTransaction(connection, query)

    return AsyncDatabase(begin)


class _Begins(Protocol[Tx_co]):
    def begin(self) -> AbstractContextManager[Tx_co]: ...


class _AsyncBegins(Protocol[Tx_co]):
    def begin(self) -> AbstractAsyncContextManager[Tx_co]: ...


def sqlalchemy(engine: _Begins[Alchemy]) -> Database[Alchemy]:
    """Uses SQLAlchemy 2: an `Engine`, of which `work` gets a connection, or a `sessionmaker`, of which it gets a session."""
    from sqlalchemy import text as text_of

    @contextmanager
    def begin() -> Iterator[Transaction[Alchemy]]:
        with engine.begin() as tx:

            def query(text: str, values: Values) -> Rows:
                return _rows_of(tx.execute(text_of(text), values))

            yield Transaction(tx, query)

    return Database(begin)


def sqlalchemy_async(engine: _AsyncBegins[AsyncAlchemy]) -> AsyncDatabase[AsyncAlchemy]:
    """Uses SQLAlchemy 2 with asyncio: an `AsyncEngine` or an `async_sessionmaker`."""
    from sqlalchemy import text as text_of

    @asynccontextmanager
    async def begin() -> AsyncIterator[AsyncTransaction[AsyncAlchemy]]:
        async with engine.begin() as tx:

            async def query(text: str, values: Values) -> Rows:
                return _rows_of(await tx.execute(text_of(text), values))

            yield AsyncTransaction(tx, query)

    return AsyncDatabase(begin)


def _psycopg_text(text: str) -> bytes:
    return re.sub(r":(\w+)", r"%(\1)s", text).encode()


def _rows_of(result: object) -> Rows:
    cursor = cast("CursorResult[Any]", result)
    return [tuple(row) for row in cursor] if cursor.returns_rows else []
