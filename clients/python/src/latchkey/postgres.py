"""Exactly one effect: transactions of Postgres that also write their outcome."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib.resources
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, cast, overload

from .aio import AsyncLatchkey
from .aio import drive as drive_async
from .client import Latchkey, drive
from .commit_once import (
    Claim,
    Commit,
    Committed,
    DatabaseEffect,
    Probe,
    Prune,
    Query,
    Statements,
    Transact,
    Work,
    commit_once,
    forget_row,
    prune_rows,
)
from .database import (
    AsyncDatabase,
    AsyncTransaction,
    Database,
    Transaction,
    psycopg,
    psycopg_async,
    sqlalchemy,
    sqlalchemy_async,
)
from .errors import NothingHappened
from .once import VALUE_CODEC
from .options import AsyncOnceOptions, OnceOptions
from .outcomes import (
    Busy,
    Outcome,
    Raised,
    Ran,
    Replayed,
    ReusedKey,
    TakenOver,
    Unavailable,
    Unknown,
    UnknownCommit,
)
from .steps import Environment, Lock

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "AsyncDatabase",
    "AsyncTransaction",
    "AsyncTransactionOptions",
    "Database",
    "Transaction",
    "TransactionOptions",
    "TransactionOutcome",
    "UnknownCommit",
    "forget",
    "psycopg",
    "psycopg_async",
    "sqlalchemy",
    "sqlalchemy_async",
    "table_sql",
    "with_transaction",
]

R = TypeVar("R")
T = TypeVar("T")
Tx = TypeVar("Tx")

TransactionOutcome = Union[Ran[T], Replayed[T], Busy, TakenOver, ReusedKey, Unavailable, UnknownCommit]
"""Outcome of `with_transaction`. What was committed is `Ran`, whether or not its record is saved."""


class TransactionOptions(OnceOptions, total=False):
    """Options of `with_transaction`. `on_taken_over` defaults to `run`, since the table knows whether an earlier attempt was committed."""

    claim_ms: int
    """Milliseconds to wait for a concurrent transaction of the same key. Default 5 000."""
    commit_ms: int
    """Milliseconds to wait for the answer to the commit, and again to find out whether it was committed. Default 10 000."""


class AsyncTransactionOptions(AsyncOnceOptions, total=False):
    """Options of `with_transaction` for coroutines."""

    claim_ms: int
    """Milliseconds to wait for a concurrent transaction of the same key. Default 5 000."""
    commit_ms: int
    """Milliseconds to wait for the answer to the commit, and again to find out whether it was committed. Default 10 000."""


def table_sql() -> str:
    """Returns the statements that create the table, for a migration."""
    return importlib.resources.files("latchkey").joinpath("latchkey-outcomes.sql").read_text("utf-8")


@overload
def with_transaction(
    latchkey: Latchkey,
    database: Database[Tx],
    scope: str,
    key: str,
    work: Callable[[Tx, Lock], T],
    **options: Unpack[TransactionOptions],
) -> TransactionOutcome[T]: ...


@overload
def with_transaction(
    latchkey: AsyncLatchkey,
    database: AsyncDatabase[Tx],
    scope: str,
    key: str,
    work: Callable[[Tx, Lock], Awaitable[T]],
    **options: Unpack[AsyncTransactionOptions],
) -> Coroutine[Any, Any, TransactionOutcome[T]]: ...


def with_transaction(
    latchkey: Latchkey | AsyncLatchkey,
    database: Database[Any] | AsyncDatabase[Any],
    scope: str,
    key: str,
    work: Callable[[Any, Lock], Any],
    **options: Any,
) -> Any:
    """Runs `work` in a transaction, in which its result is written, too: its changes in this database happen exactly once per scope and key.
    Effects outside of the database are not covered. `work` must leave the end of the transaction to the library.

    Raises what `once` raises. After an exception of `work`, its transaction is rolled back and the lock released.
    """
    bounds = {name: options.pop(name) for name in ("claim_ms", "commit_ms") if name in options}
    claim = Claim(scope, key, options.get("fingerprint"), options.get("ttl_seconds"), **bounds)
    options.setdefault("on_taken_over", "run")
    if isinstance(latchkey, AsyncLatchkey) and isinstance(database, AsyncDatabase):
        return _run_async(latchkey, database, claim, work, options)
    if isinstance(latchkey, Latchkey) and isinstance(database, Database):
        return _run(latchkey, database, claim, work, options)
    raise TypeError("Latchkey: Latchkey takes a Database, AsyncLatchkey takes an AsyncDatabase")


@overload
def forget(latchkey: Latchkey, database: Database[Any], scope: str, key: str) -> None: ...


@overload
def forget(
    latchkey: AsyncLatchkey, database: AsyncDatabase[Any], scope: str, key: str
) -> Coroutine[Any, Any, None]: ...


def forget(
    latchkey: Latchkey | AsyncLatchkey, database: Database[Any] | AsyncDatabase[Any], scope: str, key: str
) -> Coroutine[Any, Any, None] | None:
    """Deletes the row of an operation and then its record, so that it can run again. Repeating it is safe."""
    if isinstance(latchkey, AsyncLatchkey) and isinstance(database, AsyncDatabase):
        return _forget_async(latchkey, database, scope, key)
    if isinstance(latchkey, Latchkey) and isinstance(database, Database):
        _transact(database, forget_row(scope, key))
        latchkey.remove_record(scope, key)
        return None
    raise TypeError("Latchkey: Latchkey takes a Database, AsyncLatchkey takes an AsyncDatabase")


async def _forget_async(latchkey: AsyncLatchkey, database: AsyncDatabase[Any], scope: str, key: str) -> None:
    await _transact_async(database, forget_row(scope, key))
    await latchkey.remove_record(scope, key)


class _Call(Generic[T]):
    """State of one call of `with_transaction`, beside that of its `once`."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._committed: Committed[T] | None = None
        self._failure: BaseException | None = None
        self._thrown: BaseException | None = None

    def commit(self) -> Commit[Committed[T]]:
        return commit_once(self._claim, VALUE_CODEC, Environment())

    def value(self, committed: Committed[T]) -> T:
        """Returns what `work` of `once` returns, or raises what it raises."""
        self._committed = committed
        if isinstance(committed, (Ran, Replayed)):
            return committed.value
        text = "Latchkey: the transaction has no result"
        is_known = not isinstance(committed, UnknownCommit)
        self._thrown = NothingHappened(text) if is_known else RuntimeError(text)
        raise self._thrown

    def rolled_back(self, error: BaseException) -> NothingHappened:
        """Returns what `work` of `once` raises after an exception in the transaction."""
        self._failure = error
        self._thrown = NothingHappened("Latchkey: the transaction is rolled back")
        return self._thrown

    def finish(self, finished: Outcome[T] | Raised) -> TransactionOutcome[T]:
        """Returns the outcome: what was committed counts, whether or not its record is saved."""
        committed = self._committed
        if isinstance(finished, Raised):
            if finished.error is not self._thrown:
                raise finished.error
            if committed is None:
                raise cast(BaseException, self._failure)
            return committed
        if isinstance(committed, Ran):
            return Ran(committed.value, guarded=not isinstance(finished, Ran) or finished.guarded)
        if committed is not None:
            return committed
        # Without a transaction, only a result that `on_taken_over` recovered is saved.
        return Replayed(finished.value) if isinstance(finished, Unknown) else finished


def _run(
    latchkey: Latchkey,
    database: Database[Tx],
    claim: Claim,
    work: Callable[[Tx, Lock], T],
    options: dict[str, Any],
) -> TransactionOutcome[T]:
    call: _Call[T] = _Call(claim)

    def work_of_once(lock: Lock) -> T:
        def perform(effect: DatabaseEffect) -> None:
            match effect:
                case Transact(statements, commit_s):
                    _transact(database, statements, lambda tx: work(tx, lock), commit_s)
                case Probe(statements, timeout_s):
                    _within(timeout_s, lambda: _transact(database, statements))
                case Prune():
                    if database.starts_prune():
                        _start(lambda: _transact(database, prune_rows()))
                case pause:
                    time.sleep(pause.seconds)

        try:
            committed = drive(call.commit(), perform)
        except BaseException as error:
            raise call.rolled_back(error) from error
        return call.value(committed)

    finished: Outcome[T] | Raised
    try:
        finished = latchkey.once(claim.scope, claim.key, work_of_once, **options)
    except BaseException as error:
        finished = Raised(error)
    return call.finish(finished)


def _transact(
    database: Database[Tx],
    statements: Statements[None],
    work: Callable[[Tx], Any] | None = None,
    commit_s: float | None = None,
) -> None:
    """Runs statements in a transaction. With `commit_s`, another thread commits, since no driver bounds the wait for the answer."""
    context = database.begin()
    transaction = context.__enter__()

    def perform(effect: Query | Work) -> Any:
        if isinstance(effect, Query):
            return transaction.query(effect.text, effect.values)
        return work(transaction.tx) if work is not None else None

    try:
        drive(statements, perform)
    except BaseException as error:
        with contextlib.suppress(Exception):
            context.__exit__(type(error), error, error.__traceback__)
        raise
    if commit_s is None:
        context.__exit__(None, None, None)
    else:
        _within(commit_s, lambda: context.__exit__(None, None, None))


def _start(function: Callable[[], R]) -> concurrent.futures.Future[R]:
    """Runs a function in a daemon thread, which does not delay the end of the process."""
    future: concurrent.futures.Future[R] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="latchkey transaction", daemon=True).start()
    return future


def _within(seconds: float, function: Callable[[], R]) -> R:
    """Runs a function in a thread. Raises `TimeoutError` after these seconds, while the function goes on."""
    future = _start(function)
    concurrent.futures.wait([future], seconds)
    if not future.done():
        raise _no_answer()
    return future.result()


def _no_answer() -> TimeoutError:
    return TimeoutError("Latchkey: the database did not answer in time")


async def _run_async(
    latchkey: AsyncLatchkey,
    database: AsyncDatabase[Tx],
    claim: Claim,
    work: Callable[[Tx, Lock], Awaitable[T]],
    options: dict[str, Any],
) -> TransactionOutcome[T]:
    call: _Call[T] = _Call(claim)

    async def work_of_once(lock: Lock) -> T:
        try:
            committed = await commit_async(database, call.commit(), lambda tx: work(tx, lock))
        except BaseException as error:
            raise call.rolled_back(error) from error
        return call.value(committed)

    finished: Outcome[T] | Raised
    try:
        finished = await latchkey.once(claim.scope, claim.key, work_of_once, **options)
    except BaseException as error:
        finished = Raised(error)
    return call.finish(finished)


async def commit_async(
    database: AsyncDatabase[Tx], commit: Commit[Committed[T]], work: Callable[[Tx], Awaitable[T]]
) -> Committed[T]:
    """Does what `commit_once` yields. Raises the exception of `work` or of the database."""

    async def perform(effect: DatabaseEffect) -> None:
        match effect:
            case Transact(statements, commit_s):
                await _transact_async(database, statements, work, commit_s)
            case Probe(statements, timeout_s):
                await _within_async(database, timeout_s, _transact_async(database, statements))
            case Prune():
                if database.starts_prune():
                    _start_async(database, _transact_async(database, prune_rows()))
            case pause:
                await asyncio.sleep(pause.seconds)

    return await drive_async(commit, perform)


async def _transact_async(
    database: AsyncDatabase[Tx],
    statements: Statements[None],
    work: Callable[[Tx], Awaitable[Any]] | None = None,
    commit_s: float | None = None,
) -> None:
    context = database.begin()
    transaction = await context.__aenter__()

    async def perform(effect: Query | Work) -> Any:
        if isinstance(effect, Query):
            return await transaction.query(effect.text, effect.values)
        return await work(transaction.tx) if work is not None else None

    try:
        await drive_async(statements, perform)
    except BaseException as error:
        with contextlib.suppress(Exception):
            await context.__aexit__(type(error), error, error.__traceback__)
        raise
    if commit_s is None:
        await context.__aexit__(None, None, None)
    else:

        async def commit() -> None:
            await context.__aexit__(None, None, None)

        await _within_async(database, commit_s, commit())


def _start_async(database: AsyncDatabase[Any], coroutine: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
    task = asyncio.create_task(coroutine)
    database.tasks.add(task)

    def end(ended: asyncio.Task[R]) -> None:
        database.tasks.discard(ended)
        # An exception that nothing retrieves would be logged.
        if not ended.cancelled():
            ended.exception()

    task.add_done_callback(end)
    return task


async def _within_async(database: AsyncDatabase[Any], seconds: float, coroutine: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine in a task, which is cancelled after these seconds. Raises `TimeoutError` then. Cancelling the caller does not cancel
    it, so that the lost lock does not interrupt a commit."""
    task = _start_async(database, coroutine)
    timer = asyncio.get_running_loop().call_later(seconds, task.cancel)
    task.add_done_callback(lambda _task: timer.cancel())
    await asyncio.wait({task}, timeout=seconds)
    if not task.done() or task.cancelled():
        raise _no_answer()
    return task.result()
