"""Steps of `with_transaction`: statements and decisions, without a database."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, Union

from .api import SavedRecord
from .once import Codec
from .outcomes import Busy, Ran, Replayed, ReusedKey, UnknownCommit
from .service import json_bytes
from .steps import Environment, Pause, pause_s

R = TypeVar("R")
T = TypeVar("T")

Values = Mapping[str, Union[str, int, None]]
"""Values of a statement, by the names after its colons."""
Rows = Sequence[Sequence[Any]]

_TTL_SECONDS_DEFAULT = 86_400
_CLAIMS_MAX = 3
"""Maximum attempts to claim a row that another transaction deletes between the claim and the SELECT."""
_PRUNE_ROWS_MAX = 1000
_BUSY_RETRY_MS = 1000

_LOCK_TIMEOUT = """WITH before AS MATERIALIZED (SELECT current_setting('lock_timeout') AS value)
SELECT value, set_config('lock_timeout', :timeout, true) FROM before"""

_CLAIM = """INSERT INTO latchkey_outcomes AS held (scope, key, fingerprint, expires_at)
VALUES (:scope, :key, :fingerprint, clock_timestamp() + make_interval(secs => :seconds))
ON CONFLICT (scope, key) DO UPDATE
SET fingerprint = excluded.fingerprint, status = NULL, headers = NULL, body = NULL, expires_at = excluded.expires_at
WHERE held.expires_at <= clock_timestamp()
RETURNING set_config('lock_timeout', :before, true)"""

_FIND = "SELECT fingerprint, status, headers, body FROM latchkey_outcomes WHERE scope = :scope AND key = :key"

_WRITE = """UPDATE latchkey_outcomes
SET status = :status, headers = :headers, body = :body, expires_at = clock_timestamp() + make_interval(secs => :seconds)
WHERE scope = :scope AND key = :key
RETURNING scope"""

_FORGET = "DELETE FROM latchkey_outcomes WHERE scope = :scope AND key = :key"

_PRUNE = """DELETE FROM latchkey_outcomes
WHERE (scope, key) IN (
  SELECT scope, key FROM latchkey_outcomes
  WHERE expires_at <= clock_timestamp()
  ORDER BY expires_at
  LIMIT :rows
  FOR UPDATE SKIP LOCKED
)"""


@dataclass(frozen=True)
class Claim:
    """Operation that is committed at most once per scope and key."""

    scope: str
    key: str
    fingerprint: str | None = None
    ttl_seconds: int | None = None
    claim_ms: int = 5000
    commit_ms: int = 10_000


@dataclass(frozen=True)
class Query:
    """Sends a statement in the open transaction; its result is `Rows`."""

    text: str
    values: Values


@dataclass(frozen=True)
class Work:
    """Calls the caller's function with the open transaction; its result is that of the function."""


Statements = Generator[Union[Query, Work], Any, R]


@dataclass(frozen=True)
class Transact:
    """Runs statements in a transaction and commits it; an exception rolls it back."""

    statements: Statements[None]
    commit_s: float
    """Seconds to wait for the answer to the commit, then `TimeoutError`."""


@dataclass(frozen=True)
class Probe:
    """Runs statements in a transaction like `Transact`, apart from the caller, for a limited time."""

    statements: Statements[None]
    timeout_s: float


@dataclass(frozen=True)
class Prune:
    """Deletes expired rows in the background, if that is due."""


DatabaseEffect = Union[Transact, Probe, Prune, Pause]
Commit = Generator[DatabaseEffect, Any, R]
Committed = Union[Ran[T], Replayed[T], ReusedKey, Busy, UnknownCommit]


@dataclass(frozen=True)
class _Row:
    fingerprint: str | None
    status: int | None
    headers: str | None
    body: str | None


_End = Union[_Row, Literal["busy", "free"]]


class _Stop(Exception):
    """Rolls the transaction back without an exception of `work`."""

    def __init__(self, end: _End) -> None:
        super().__init__("Latchkey: the transaction is rolled back")
        self.end = end


@dataclass(frozen=True)
class _Written(Generic[T]):
    value: T
    body: str


def commit_once(claim: Claim, codec: Codec[T], environment: Environment) -> Commit[Committed[T]]:
    """Runs `work` in a transaction that also writes its result, unless the table already has one. Raises the exception of `work` or of the
    database, after which nothing is committed."""
    written: list[_Written[T]] = []
    try:
        yield Transact(_claim_and_work(claim, codec, written), claim.commit_ms / 1000)
    except _Stop as stop:
        return _outcome_of(stop.end, claim, codec)
    except BaseException as error:
        # Before the commit, an exception means that the transaction is rolled back.
        if not written:
            raise
        failure = error
    else:
        yield Prune()
        return Ran(written[0].value)
    return (yield from _resolve(claim, codec, environment, written[0], failure))


def forget_row(scope: str, key: str) -> Statements[None]:
    """Deletes the row of an operation, so that it can run again."""
    yield Query(_FORGET, {"scope": scope, "key": key})


def prune_rows() -> Statements[None]:
    """Deletes up to 1 000 expired rows."""
    yield Query(_PRUNE, {"rows": _PRUNE_ROWS_MAX})


def _claim_and_work(claim: Claim, codec: Codec[T], written: list[_Written[T]]) -> Statements[None]:
    yield from _claim_row(claim, claim.claim_ms)
    value: T = yield Work()
    record = codec.to_record(value)
    body = _json(record["body"])
    values: Values = {
        "scope": claim.scope,
        "key": claim.key,
        "status": record["status"],
        "headers": _json(record["headers"]),
        "body": body,
        "seconds": claim.ttl_seconds or _TTL_SECONDS_DEFAULT,
    }
    rows: Rows = yield Query(_WRITE, values)
    if len(rows) != 1:
        raise RuntimeError("Latchkey: `work` must not commit or roll back")
    written.append(_Written(value, body))


def _claim_row(claim: Claim, claim_ms: float) -> Statements[None]:
    """Inserts the row of an operation or replaces an expired one. Raises `_Stop` if there is a live row, or another transaction holds it."""
    address = {"scope": claim.scope, "key": claim.key}
    try:
        timeouts: Rows = yield Query(_LOCK_TIMEOUT, {"timeout": f"{max(1, math.ceil(claim_ms))}ms"})
        values = {
            **address,
            "fingerprint": claim.fingerprint,
            "seconds": claim.ttl_seconds or _TTL_SECONDS_DEFAULT,
            "before": str(timeouts[0][0]),
        }
        for _ in range(_CLAIMS_MAX):
            claimed: Rows = yield Query(_CLAIM, values)
            if claimed:
                return
            found: Rows = yield Query(_FIND, address)
            if found:
                raise _Stop(_Row(*found[0]))
    except Exception as error:
        if _is_contention(error):
            raise _Stop("busy") from error
        raise
    raise _Stop("busy")


def _is_contention(error: BaseException | None) -> bool:
    """Returns whether an error means that another transaction is in the way: lock_not_available, serialization_failure."""
    while error is not None:
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if state in ("55P03", "40001"):
            return True
        # SQLAlchemy keeps the driver's exception as `orig`.
        error = getattr(error, "orig", None) or error.__cause__
    return False


def _outcome_of(end: _End, claim: Claim, codec: Codec[T]) -> Committed[T]:
    if not isinstance(end, _Row):
        return Busy(_BUSY_RETRY_MS)
    if None not in (end.fingerprint, claim.fingerprint) and end.fingerprint != claim.fingerprint:
        return ReusedKey()
    record: SavedRecord = {
        "status": 200 if end.status is None else end.status,
        "headers": json.loads(end.headers or "{}"),
        "body": json.loads(end.body or "null"),
    }
    return Replayed(codec.from_record(record))


def _resolve(
    claim: Claim, codec: Codec[T], environment: Environment, written: _Written[T], failure: BaseException
) -> Commit[Committed[T]]:
    """Finds out whether a transaction was committed after the answer to its commit was lost: a new claim waits for it to end. Raises the exception
    of the commit if it was not committed."""
    now = environment.now
    until_s = now() + claim.commit_ms / 1000
    failures = 0
    while True:
        end = yield from _probe(claim, max(0.001, until_s - now()))
        if end == "free":
            raise failure
        if isinstance(end, _Row):
            found = _outcome_of(end, claim, codec)
            is_own = isinstance(found, Replayed) and end.body == written.body
            return Ran(written.value) if is_own else found
        seconds = pause_s(failures, None, environment.random())
        if now() + seconds >= until_s:
            return UnknownCommit(failure)
        yield Pause(seconds)
        failures += 1


def _probe(claim: Claim, timeout_s: float) -> Commit[_End]:
    """Claims the row and rolls back. `busy` if the database does not answer."""

    def statements() -> Statements[None]:
        yield from _claim_row(claim, min(claim.claim_ms, timeout_s * 1000))
        raise _Stop("free")

    try:
        yield Probe(statements(), timeout_s)
    except _Stop as stop:
        return stop.end
    except Exception:
        return "busy"
    return "busy"


def _json(value: object) -> str:
    """Raises `TypeError` or `ValueError` for a value that is not JSON."""
    return json_bytes(value).decode()
