"""Completed records of this process."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from .api import SavedRecord


@dataclass(frozen=True)
class Cache:
    """Option `cache`: keeps completed records in this process, so that a duplicate needs no call."""

    entries_max: int
    """Maximum number of records. The least recently used one is removed first."""
    max_age_ms: int
    """Maximum age of a record. A record removed by another process is replayed for as long."""


class RecordCache:
    """Cache of records. Can be used by several threads."""

    def __init__(self, bounds: Cache, now: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._now = now
        self._mutex = threading.Lock()
        # JSON text, so that no caller changes what the next one gets.
        self._entries: OrderedDict[tuple[str, str], tuple[str | None, str, float]] = OrderedDict()

    def get(self, scope: str, key: str, fingerprint: str | None) -> SavedRecord | None:
        """Returns the record that was kept with the same fingerprint, unless it is too old."""
        with self._mutex:
            entry = self._entries.get((scope, key))
            if entry is None or entry[0] != fingerprint:
                return None
            if self._now() >= entry[2]:
                del self._entries[scope, key]
                return None
            self._entries.move_to_end((scope, key))
        return cast(SavedRecord, json.loads(entry[1]))

    def set(
        self, scope: str, key: str, fingerprint: str | None, record: SavedRecord, ttl_seconds: int | None
    ) -> None:
        """Keeps a record, at most for `ttl_seconds`."""
        age_s = self._bounds.max_age_ms / 1000
        until_s = self._now() + (age_s if ttl_seconds is None else min(age_s, ttl_seconds))
        with self._mutex:
            self._entries.pop((scope, key), None)
            self._entries[scope, key] = (fingerprint, json.dumps(record), until_s)
            if len(self._entries) > self._bounds.entries_max:
                self._entries.popitem(last=False)

    def delete(self, scope: str, key: str) -> None:
        with self._mutex:
            self._entries.pop((scope, key), None)
