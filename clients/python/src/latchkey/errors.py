"""Exceptions of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .outcomes import Busy, ReusedKey, TakenOver, Unavailable, Unknown, UnknownCommit

_texts = {
    "busy": "another caller holds the lock of this key",
    "taken_over": "a lock of this key ended without a result, so whether the operation has happened is uncertain",
    "reused_key": "the key was used with another fingerprint: use a new key for a new operation",
    "unknown": "the operation ran, but whether its result is saved is not known: pass `pending` to complete()",
    "unknown_commit": "whether the transaction was committed is not known: call again with the same key",
    "unavailable": "no lock could be acquired, and the operation did not run: try again later",
}


class LatchkeyOutcomeError(Exception):
    """Raised by `unwrap` for an outcome without a known result, and by `Lock.raise_if_lost`."""

    def __init__(
        self, outcome: Busy | TakenOver | ReusedKey | Unknown[Any] | UnknownCommit | Unavailable
    ) -> None:
        detail = getattr(outcome, "phase", None) or getattr(outcome, "reason", None)
        name = outcome.kind if detail is None else f"{outcome.kind}, {detail}"
        super().__init__(f"Latchkey: {_texts[outcome.kind]} ({name})")
        self.outcome = outcome
        self.__cause__ = getattr(outcome, "cause", None) or getattr(outcome, "error", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.outcome,)


class LatchkeyRequestError(Exception):
    """Raised for a call that the service refused, and that fails again if it is retried unchanged. `fetch_record` and `remove_record` also raise it
    if they get no answer."""

    def __init__(self, code: str, message: str, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(f"Latchkey: {message} ({code})")
        self.code = code
        """Error code of the service, such as `api_key_invalid`; `http_<status>` for an answer of another program, such as a proxy."""
        self.message = message
        self.status = status
        """HTTP status; None without an answer."""
        self.request_id = request_id

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.status, self.request_id)


class NothingHappened(Exception):
    """Raised by `work` before it had any effect: `raise NothingHappened("declined") from error`. The lock is then released, and the next
    call runs `work`. It gets `taken_over` only if this call got it."""
