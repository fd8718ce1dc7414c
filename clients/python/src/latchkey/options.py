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
    """Seconds that the lock is held without an extension; it is extended after each third of them. Default 60, at most 900."""
    wait_ms: int
    """Milliseconds to wait while another caller holds the lock. Default 10 000; 0 returns `Busy` at once."""
    acquire_ms: int
    """Milliseconds to repeat an acquisition without a usable answer. Default 10 000; 0 does not repeat it."""
    save_ms: int
    """Milliseconds to repeat a save without a usable answer. Default 30 000; 0 does not repeat it."""
    on_unavailable: Literal["run", "refuse"]
    """What to do if no lock can be acquired. `run` runs `work` without a lock, and its result is not saved. Default `refuse`."""


class OnceBounds(_Bounds, total=False):
    """Options of `Latchkey.once` but the fingerprint."""

    on_taken_over: Union[Literal["run", "refuse"], Callable[[Lock], Recovery]]
    """What to do if an earlier caller's lock ended without a result. Default `refuse`. A callback looks for the earlier effect."""


class AsyncOnceBounds(_Bounds, total=False):
    """Options of `AsyncLatchkey.once` but the fingerprint."""

    on_taken_over: Union[Literal["run", "refuse"], Callable[[Lock], Union[Recovery, Awaitable[Recovery]]]]
    """What to do if an earlier caller's lock ended without a result. Default `refuse`. A callback looks for the earlier effect."""


class OnceOptions(OnceBounds, total=False):
    """Options of `Latchkey.once`."""

    fingerprint: str | None
    """Hash of the caller's input, 1 to 255 characters. The same key with another fingerprint is `ReusedKey`."""


class AsyncOnceOptions(AsyncOnceBounds, total=False):
    """Options of `AsyncLatchkey.once`."""

    fingerprint: str | None
    """Hash of the caller's input, 1 to 255 characters. The same key with another fingerprint is `ReusedKey`."""


class Tracer(Protocol):
    """The part of a tracer of the OpenTelemetry API that is used."""

    def start_as_current_span(
        self,
        name: str,
        *,
        attributes: Mapping[str, str],
        record_exception: bool,
        set_status_on_exception: bool,
    ) -> AbstractContextManager[Any]: ...
