"""Transactions on real Postgres, beside the real API."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import psycopg as driver
import pytest
import sqlalchemy as alchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

from commit_proxy import CommitProxy
from latchkey import (
    AsyncLatchkey,
    Busy,
    Latchkey,
    LatchkeyOutcomeError,
    Lock,
    NothingHappened,
    Ran,
    Recovered,
    Replayed,
    ReusedKey,
    TakenOver,
    UnknownCommit,
    unwrap,
)
from latchkey.postgres import (
    AsyncDatabase,
    Database,
    Transaction,
    forget,
    psycopg,
    psycopg_async,
    sqlalchemy,
    sqlalchemy_async,
    table_sql,
    with_transaction,
)
from support import Network, dead_network, environment, lock

Kind = Literal["psycopg", "psycopg async", "SQLAlchemy", "SQLAlchemy async"]
SCOPE = "charges"


def execute(text: str, *values: object) -> list[Any]:
    """Sends a statement as another program does."""
    with driver.connect(environment("POSTGRES_URL"), autocommit=True) as connection:
        cursor = connection.execute(text.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def charges_of(key: str) -> int:
    [[count]] = execute("SELECT count(*) FROM charges WHERE key = %s", key)
    return int(count)


def rows_of(key: str) -> list[Any]:
    return execute("SELECT status, headers, body FROM latchkey_outcomes WHERE key = %s", key)


def alchemy_url(url: str) -> str:
    return url.replace("postgresql://", "postgres://").replace("postgres://", "postgresql+psycopg://")


class Side:
    """Calls `with_transaction` with one driver. `work` may insert and then do what a function says."""

    def __init__(self, kind: Kind, url: str) -> None:
        self._kind = kind
        self._url = url

    def charge(
        self,
        key: str,
        then: Callable[[Lock], Any] = lambda _lock: "charged",
        network: Network | None = None,
        insert: str = "INSERT INTO charges (key) VALUES ('{key}')",
        **options: Any,
    ) -> Any:
        text = insert.format(key=key)
        network = network or Network()
        address = (environment("API_URL"), environment("API_KEY"))
        options = {"wait_ms": 0, **options}
        if "async" in self._kind:

            async def work_async(tx: Any, lock: Lock) -> Any:
                await tx.execute(alchemy.text(text) if "SQLAlchemy" in self._kind else text)
                return await asyncio.to_thread(then, lock)

            async def run() -> Any:
                async with AsyncLatchkey(*address, transport=network) as latchkey:
                    database = self._database_async()
                    outcome = await with_transaction(latchkey, database, SCOPE, key, work_async, **options)
                    if database.tasks:
                        await asyncio.wait(database.tasks, timeout=0.5)
                    return outcome

            return asyncio.run(run())

        def work(tx: Any, lock: Lock) -> Any:
            tx.execute(alchemy.text(text) if "SQLAlchemy" in self._kind else text)
            return then(lock)

        with Latchkey(*address, transport=network) as latchkey:
            return with_transaction(latchkey, self._database(), SCOPE, key, work, **options)

    def forget(self, key: str) -> None:
        address = (environment("API_URL"), environment("API_KEY"))

        async def run() -> None:
            async with AsyncLatchkey(*address) as latchkey:
                await forget(latchkey, self._database_async(), SCOPE, key)

        if "async" in self._kind:
            return asyncio.run(run())
        with Latchkey(*address) as latchkey:
            forget(latchkey, self._database(), SCOPE, key)

    def _database(self) -> Database[Any]:
        if self._kind == "SQLAlchemy":
            return sqlalchemy(alchemy.create_engine(alchemy_url(self._url), poolclass=NullPool))
        return psycopg(lambda: driver.connect(self._url))

    def _database_async(self) -> AsyncDatabase[Any]:
        if self._kind == "SQLAlchemy async":
            return sqlalchemy_async(create_async_engine(alchemy_url(self._url), poolclass=NullPool))
        return psycopg_async(lambda: driver.AsyncConnection.connect(self._url))


@pytest.fixture(params=["psycopg", "psycopg async", "SQLAlchemy", "SQLAlchemy async"])
def driver_kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def proxy() -> Iterator[CommitProxy]:
    proxy = CommitProxy(environment("POSTGRES_URL"))
    yield proxy
    proxy.close()


@pytest.fixture
def side(driver_kind: Kind, proxy: CommitProxy) -> Side:
    return Side(driver_kind, proxy.url)


def remove_record(key: str) -> None:
    with Latchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
        latchkey.remove_record(SCOPE, key)


def test_table_is_that_of_the_library_in_typescript() -> None:
    path = Path(__file__).parents[2] / "typescript" / "latchkey-outcomes.sql"
    assert table_sql() == path.read_text("utf-8")


def test_effect_and_outcome_are_committed_together_and_replayed(side: Side, key: str) -> None:
    value = {"text": "ä\u2028\ud800\u0000", "list": [1.5, None]}
    assert side.charge(key, lambda _lock: value) == Ran(value)
    assert side.charge(key) == Replayed(value)
    remove_record(key)
    assert side.charge(key) == Replayed(value)
    assert (charges_of(key), len(rows_of(key))) == (1, 1)
    with Latchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
        assert latchkey.fetch_record(SCOPE, key) == {"status": 200, "headers": {}, "body": value}


def test_ten_callers_without_any_lock_have_one_effect(side: Side, key: str) -> None:
    options: dict[str, Any] = {"acquire_ms": 0, "on_unavailable": "run"}
    with ThreadPoolExecutor(10) as threads:
        calls = [threads.submit(side.charge, key, network=dead_network(), **options) for _ in range(10)]
        outcomes = [call.result() for call in calls]
    assert sorted(outcome.kind for outcome in outcomes) == ["ran", *["replayed"] * 9]
    assert Ran("charged", guarded=False) in outcomes
    assert charges_of(key) == 1


@pytest.mark.parametrize("error", [ValueError("declined"), NothingHappened("marked"), KeyboardInterrupt("key")])
def test_exception_of_work_rolls_back_and_releases_the_lock(
    driver_kind: Kind, key: str, error: BaseException
) -> None:
    side = Side(driver_kind, environment("POSTGRES_URL"))
    if isinstance(error, KeyboardInterrupt) and "async" in driver_kind:
        error = RuntimeError("an event loop ends itself at KeyboardInterrupt")

    def fail(_lock: Lock) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        side.charge(key, fail)
    assert caught.value is error
    assert (charges_of(key), rows_of(key)) == (0, [])
    assert side.charge(key, lambda lock: lock.taken_over) == Ran(False)


def test_failed_statement_and_result_that_is_not_json_roll_back(side: Side, key: str) -> None:
    with pytest.raises((driver.Error, alchemy.exc.DBAPIError)):
        side.charge(key, insert="INSERT INTO missing VALUES ('{key}')")
    with pytest.raises(TypeError):
        side.charge(key, lambda _lock: object())
    assert (charges_of(key), rows_of(key)) == (0, [])


def test_commit_that_never_arrived_is_an_exception_and_the_next_call_runs(
    side: Side, proxy: CommitProxy, key: str
) -> None:
    proxy.fail_next("call")
    with pytest.raises((driver.Error, alchemy.exc.DBAPIError)):
        side.charge(key)
    assert charges_of(key) == 0
    assert side.charge(key) == Ran("charged")
    assert charges_of(key) == 1


def test_commit_whose_answer_was_lost_is_found_out_to_have_happened(
    side: Side, proxy: CommitProxy, key: str
) -> None:
    proxy.fail_next("answer")
    assert side.charge(key) == Ran("charged")
    assert side.charge(key) == Replayed("charged")
    assert charges_of(key) == 1


def test_commit_without_an_answer_is_found_out_to_have_happened(
    side: Side, proxy: CommitProxy, key: str
) -> None:
    proxy.fail_next("hang")
    assert side.charge(key, commit_ms=500) == Ran("charged")
    assert charges_of(key) == 1


def test_commit_that_cannot_be_found_out_is_unknown_and_a_later_call_finds_out(
    driver_kind: Kind, key: str
) -> None:
    proxy = CommitProxy(environment("POSTGRES_URL"))

    def cut(_lock: Lock) -> str:
        # From the commit on, the database is out of reach: no connection is accepted any more.
        proxy.fail_next("answer")
        proxy._listener.shutdown(2)
        return "charged"

    outcome = Side(driver_kind, proxy.url).charge(key, cut, commit_ms=300)
    proxy.close()
    assert isinstance(outcome, UnknownCommit)
    with pytest.raises(LatchkeyOutcomeError, match="call again with the same key"):
        unwrap(outcome)
    again = Side(driver_kind, environment("POSTGRES_URL"))
    assert again.charge(key, wait_ms=5000) == Replayed("charged")
    assert charges_of(key) == 1


def test_key_under_another_fingerprint_is_refused_by_service_and_table(side: Side, key: str) -> None:
    side.charge(key, fingerprint="a")
    assert side.charge(key, fingerprint="b") == ReusedKey()
    remove_record(key)
    assert side.charge(key, fingerprint="b") == ReusedKey()
    assert side.charge(key, fingerprint="a") == Replayed("charged")
    assert charges_of(key) == 1


def test_waits_for_a_concurrent_transaction_as_long_as_claim_ms(side: Side, key: str) -> None:
    with driver.connect(environment("POSTGRES_URL")) as holder:
        holder.execute("INSERT INTO latchkey_outcomes VALUES (%s, %s, NULL, NULL, NULL, NULL, now())", [SCOPE, key])
        assert side.charge(key, claim_ms=50) == Busy(1000)
        holder.rollback()
    assert side.charge(key) == Ran("charged")


def test_expired_row_is_replaced_and_forget_lets_the_operation_run_again(side: Side, key: str) -> None:
    side.charge(key)
    execute("UPDATE latchkey_outcomes SET expires_at = now() - interval '1 s' WHERE key = %s", key)
    remove_record(key)
    assert side.charge(key, ttl_seconds=7200) == Ran("charged")
    text = "SELECT extract(epoch FROM expires_at - now())::float8 FROM latchkey_outcomes WHERE key = %s"
    [[seconds]] = execute(text, key)
    assert 7100 < seconds <= 7200
    side.forget(key)
    assert side.charge(key) == Ran("charged")
    assert charges_of(key) == 3


def test_expired_rows_are_deleted_after_a_commit(side: Side, key: str) -> None:
    execute(
        "INSERT INTO latchkey_outcomes SELECT 'expired', n::text, NULL, NULL, NULL, NULL, now() "
        "FROM generate_series(1, 1200) n ON CONFLICT DO NOTHING"
    )
    side.charge(key)
    until_s = time.monotonic() + 5
    left = 1200
    while left == 1200 and time.monotonic() < until_s:
        [[left]] = execute("SELECT count(*) FROM latchkey_outcomes WHERE scope = 'expired'")
    assert left <= 200


def test_lost_lock_rolls_back_and_is_taken_over(side: Side, key: str) -> None:
    def lose(held: Lock) -> str:
        assert held.cancelled.wait(10)
        held.raise_if_lost()
        return "not reached"

    network = dead_network(lambda request: request.url.path.endswith("/extend"))
    assert side.charge(key, lose, network, lock_seconds=1) == TakenOver("during")
    assert (charges_of(key), rows_of(key)) == (0, [])


def test_takeover_runs_by_default_and_a_callback_can_recover(side: Side, key: str) -> None:
    lock(SCOPE, key, lockSeconds=1)
    assert side.charge(key, lambda held: held.taken_over, wait_ms=5000) == Ran(True)
    other = f"{key} recovered"
    lock(SCOPE, other, lockSeconds=1)
    network = dead_network(lambda request: request.method == "PUT")
    options: dict[str, Any] = {"on_taken_over": lambda _lock: Recovered("earlier"), "save_ms": 0}
    assert side.charge(other, network=network, wait_ms=5000, **options) == Replayed("earlier")
    assert charges_of(other) == 0


def test_commit_counts_although_its_record_is_not_saved(side: Side, key: str) -> None:
    network = dead_network(lambda request: request.method == "PUT")
    assert side.charge(key, network=network, save_ms=0, lock_seconds=1) == Ran("charged")
    assert side.charge(key, wait_ms=5000) == Replayed("charged")


def test_work_has_the_lock_timeout_of_its_session(key: str) -> None:
    def show(tx: driver.Connection[Any], _lock: Lock) -> str:
        return str(tx.execute("SHOW lock_timeout").fetchall()[0][0])

    url = environment("POSTGRES_URL")
    database = psycopg(lambda: driver.connect(url, options="-c lock_timeout=7s"))
    with Latchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
        assert with_transaction(latchkey, database, SCOPE, key, show, claim_ms=50) == Ran("7s")


def test_sessionmakers_of_sqlalchemy_give_work_a_session(key: str) -> None:
    url = alchemy_url(environment("POSTGRES_URL"))
    insert, values = alchemy.text("INSERT INTO charges (key) VALUES (:key)"), {"key": key}

    def work(session: Session, _lock: Lock) -> str:
        session.execute(insert, values)
        return "charged"

    async def work_async(session: AsyncSession, _lock: Lock) -> str:
        await session.execute(insert, values)
        return "charged"

    async def run() -> None:
        database = sqlalchemy_async(async_sessionmaker(create_async_engine(url, poolclass=NullPool)))
        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
            assert await with_transaction(latchkey, database, SCOPE, f"{key} async", work_async) == Ran("charged")
            await asyncio.wait(database.tasks, timeout=5)

    asyncio.run(run())
    database = sqlalchemy(sessionmaker(alchemy.create_engine(url, poolclass=NullPool)))
    with Latchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
        assert with_transaction(latchkey, database, SCOPE, key, work) == Ran("charged")
    assert (charges_of(key), len(rows_of(key))) == (2, 1)


def test_client_and_database_of_different_kinds_are_refused(key: str) -> None:
    database: Any = psycopg_async(lambda: driver.AsyncConnection.connect(environment("POSTGRES_URL")))
    with Latchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
        with pytest.raises(TypeError, match="AsyncDatabase"):
            with_transaction(latchkey, database, SCOPE, key, lambda _tx, _lock: 1)
        with pytest.raises(TypeError, match="AsyncDatabase"):
            forget(latchkey, database, SCOPE, key)


def test_cancelled_caller_rolls_back_and_releases_the_lock(key: str) -> None:
    started = threading.Event()

    async def run() -> None:
        async def work(tx: driver.AsyncConnection[Any], _lock: Lock) -> None:
            await tx.execute("INSERT INTO charges (key) VALUES (%s)", [key])
            started.set()
            await asyncio.sleep(60)

        database = psycopg_async(lambda: driver.AsyncConnection.connect(environment("POSTGRES_URL")))
        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
            task = asyncio.create_task(with_transaction(latchkey, database, SCOPE, key, work))
            assert await asyncio.to_thread(started.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    assert (charges_of(key), rows_of(key)) == (0, [])
    side = Side("psycopg", environment("POSTGRES_URL"))
    assert side.charge(key, lambda held: held.taken_over) == Ran(False)


def test_row_of_another_fingerprint_is_not_that_of_a_lost_commit(key: str) -> None:
    real = psycopg(lambda: driver.connect(environment("POSTGRES_URL")))
    begun: list[object] = []

    @contextmanager
    def losing() -> Iterator[Transaction[driver.Connection[Any]]]:
        begun.append(None)
        if len(begun) > 1:
            with real.begin() as transaction:
                yield transaction
            return
        with suppress(RollBack), real.begin() as transaction:
            yield transaction
            raise RollBack
        # The commit is lost, and another caller uses the key before the row is looked for.
        row = "INSERT INTO latchkey_outcomes VALUES (%s, %s, 'other', 200, '{}', '1', now() + interval '1 hour')"
        execute(row, SCOPE, key)
        raise driver.OperationalError("lost")

    with Latchkey(environment("API_URL"), environment("API_KEY")) as latchkey:
        outcome = with_transaction(latchkey, Database(losing), SCOPE, key, lambda _tx, _lock: 1, fingerprint="own")
    assert outcome == ReusedKey()


class RollBack(Exception): ...
