"""Records and locks in memory, with the states and answers of the service."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Union

from ..api import SavedRecord

_TOMBSTONE_MS_MIN = 86_400_000
_TOMBSTONE_MS_MAX = 604_800_000
"""Bounds of the time for which a lock is remembered after its end."""


@dataclass(frozen=True)
class State:
    """State of a key. `over`: a lock whose time has passed. `released`: the mark of a released lock that was taken over."""

    kind: Literal["none", "held", "over", "released", "completed"]
    record: SavedRecord | None = None
    """Record of `completed`."""


@dataclass(frozen=True)
class Acquisition:
    """An empty text stands for an absent one."""

    ttl_ms: float
    lock_ms: float
    lock_token: str
    attempt_id: str
    fingerprint: str


@dataclass(frozen=True)
class Hit:
    record: SavedRecord


@dataclass(frozen=True)
class Mismatch: ...


@dataclass(frozen=True)
class Held:
    """Another caller holds the lock."""

    remaining_ms: float


@dataclass(frozen=True)
class Granted:
    lock_token: str
    fence: int
    expires_in_ms: float
    taken_over: bool


Acquired = Union[Hit, Mismatch, Held, Granted]


@dataclass(frozen=True)
class _Lock:
    until_ms: float
    """Time of the clock at which the lock ends."""
    token: str
    """Empty for the mark of a released lock whose key was taken over."""
    fence: int
    ttl_ms: float
    lock_ms: float
    taken_over: bool
    attempt_id: str
    fingerprint: str
    expires_at_ms: float = 0.0


@dataclass(frozen=True)
class _Saved:
    token: str
    fingerprint: str
    record: SavedRecord
    expires_at_ms: float


Address = tuple[str, str]


class MemoryRecords:
    """Every method is one step; the caller makes them one at a time."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        """`now_ms` returns the time in milliseconds since 1970."""
        self._entries: dict[Address, _Lock | _Saved] = {}
        self._now_ms = now_ms
        self._fence = 0

    def acquire(self, address: Address, asked: Acquisition) -> Acquired:
        """Returns the record, takes the lock, or reports its holder."""
        entry = self._find(address)
        if entry and entry.fingerprint and asked.fingerprint and entry.fingerprint != asked.fingerprint:
            return Mismatch()
        if isinstance(entry, _Saved):
            return Hit(entry.record)
        now_ms = self._now_ms()
        is_own = entry is not None and entry.attempt_id != "" and entry.attempt_id == asked.attempt_id
        if entry and not is_own and entry.until_ms > now_ms:
            return Held(entry.until_ms - now_ms)
        lock = _Lock(
            until_ms=now_ms + asked.lock_ms,
            token=entry.token if entry and is_own else asked.lock_token,
            fence=entry.fence if entry and is_own else self._next_fence(),
            ttl_ms=asked.ttl_ms,
            lock_ms=asked.lock_ms,
            taken_over=entry.taken_over if entry and is_own else entry is not None,
            attempt_id=asked.attempt_id,
            fingerprint=asked.fingerprint or (entry.fingerprint if entry else ""),
        )
        return self._hold(address, lock)

    def save(
        self, address: Address, lock_token: str, record: SavedRecord, ttl_ms: float | None, default_ttl_ms: float
    ) -> Literal["saved", "exists", "lost"]:
        """Saves a record. `ttl_ms` None: that of the lock, or else `default_ttl_ms`."""
        entry = self._find(address)
        if lock_token and (entry is None or entry.token != lock_token):
            return "lost"
        if isinstance(entry, _Saved):
            return "saved" if json.dumps(entry.record) == json.dumps(record) else "exists"
        kept_ms = ttl_ms if ttl_ms is not None else entry.ttl_ms if entry else default_ttl_ms
        if entry is None or not entry.token:
            self._next_fence()
        token, fingerprint = (entry.token, entry.fingerprint) if entry else ("", "")
        self._entries[address] = _Saved(token, fingerprint, record, self._now_ms() + kept_ms)
        return "saved"

    def extend(self, address: Address, lock_token: str, lock_ms: float | None) -> Granted | None:
        """Holds a lock from now on, also an expired one that was not taken over. None: it is lost."""
        entry = self._find(address)
        if not isinstance(entry, _Lock) or entry.token != lock_token:
            return None
        held_ms = min(lock_ms if lock_ms is not None else entry.lock_ms, entry.ttl_ms)
        granted = self._hold(address, replace(entry, until_ms=self._now_ms() + held_ms))
        return replace(granted, expires_in_ms=held_ms)

    def remove(self, address: Address, lock_token: str) -> bool:
        """Removes the record, or with a token releases that lock. Returns whether there was one."""
        entry = self._find(address)
        if entry is None or isinstance(entry, _Saved) != (lock_token == ""):
            return False
        if isinstance(entry, _Lock) and entry.token != lock_token:
            return False
        if isinstance(entry, _Lock) and entry.taken_over:
            self._hold(address, replace(entry, until_ms=0.0, token="", attempt_id=""))
        else:
            del self._entries[address]
        return True

    def state_of(self, address: Address) -> State:
        """Returns the state of a key."""
        entry = self._find(address)
        if entry is None:
            return State("none")
        if isinstance(entry, _Saved):
            return State("completed", entry.record)
        if entry.token == "":
            return State("released")
        return State("held" if entry.until_ms > self._now_ms() else "over")

    def _find(self, address: Address) -> _Lock | _Saved | None:
        entry = self._entries.get(address)
        if entry is None or entry.expires_at_ms > self._now_ms():
            return entry
        del self._entries[address]
        return None

    def _next_fence(self) -> int:
        # Fences grow also while the clock stands.
        self._fence = max(self._fence + 1, int(self._now_ms() * 1000))
        return self._fence

    def _hold(self, address: Address, lock: _Lock) -> Granted:
        tombstone_ms = min(max(lock.ttl_ms, _TOMBSTONE_MS_MIN), _TOMBSTONE_MS_MAX)
        expires_at_ms = max(lock.until_ms, self._now_ms()) + tombstone_ms
        self._entries[address] = replace(lock, expires_at_ms=expires_at_ms)
        return Granted(lock.token, lock.fence, lock.lock_ms, lock.taken_over)
