"""Options of the clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypedDict, Union

from .outcomes import Recovery
from .steps import Lock


class _Bounds(TypedDict, total=False):
    ttl_seconds: int | None
    """Seconds that the result is kept. Default: that of the service (one day)."""
    lock_seconds: int
    """Seconds that the lock is held without an extension. It is extended after each third of this time. Default 60, at most 900."""
    wait_ms: int
    """Milliseconds to wait while another caller holds the lock. Default 10 000; 0 returns `Busy` at once."""
    acquire_ms: int
    """Milliseconds to retry an acquisition without a usable answer. Default 10 000; 0: no retry."""
    save_ms: int
    """Milliseconds to retry a save without a usable answer. Default 30 000; 0: no retry."""
    on_unavailable: Literal["run", "refuse"]
    """Action if no lock can be acquired. Default `refuse`: the outcome is `Unavailable`. `run` runs `work` without a lock, and its
    result is not saved."""


class OnceBounds(_Bounds, total=False):
    """Options of `Latchkey.once` except the fingerprint."""

    on_taken_over: Union[Literal["run", "refuse"], Callable[[Lock], Recovery]]
    """Action if an earlier caller's lock ended without a result. Default `refuse`: the outcome is `TakenOver`. A callback can look for
    the earlier effect."""


class AsyncOnceBounds(_Bounds, total=False):
    """Options of `AsyncLatchkey.once` except the fingerprint."""

    on_taken_over: Union[Literal["run", "refuse"], Callable[[Lock], Union[Recovery, Awaitable[Recovery]]]]
    """Action if an earlier caller's lock ended without a result. Default `refuse`: the outcome is `TakenOver`. A callback can look for
    the earlier effect."""


class OnceOptions(OnceBounds, total=False):
    """Options of `Latchkey.once`."""

    fingerprint: str | None
    """Hash of the caller's input, 1 to 255 characters. The same key with another fingerprint is `ReusedKey`."""


class AsyncOnceOptions(AsyncOnceBounds, total=False):
    """Options of `AsyncLatchkey.once`."""

    fingerprint: str | None
    """Hash of the caller's input, 1 to 255 characters. The same key with another fingerprint is `ReusedKey`."""


class Tracer(Protocol):
    """Tracer of the OpenTelemetry API, as far as it is used."""

    def start_as_current_span(
        self,
        name: str,
        *,
        attributes: Mapping[str, str],
        record_exception: bool,
        set_status_on_exception: bool,
    ) -> AbstractContextManager[Any]: ...
