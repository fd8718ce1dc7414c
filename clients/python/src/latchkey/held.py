"""Lock of a running operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from .outcomes import Raised, TakenOver
from .errors import LatchkeyOutcomeError
from .service import CALL_S_MAX, Call, Ok, Refused, extend_call, remove_call
from .steps import Environment, Pause, Steps, Unhold, debug, pause_s, repeat, send

_GIVE_UP_S_MAX = 2.0
"""Maximum seconds to give up a lock. If that fails, the lock expires."""
_SHORTENED_SECONDS = 1
"""Seconds that a lock is held after an exception of `work`."""


class HeldLock:
    """Lock that is extended after each third of its time."""

    def __init__(
        self,
        environment: Environment,
        address: tuple[str, str],
        token: str,
        lock_seconds: int,
        held_from_s: float,
        expires_in_ms: int,
    ) -> None:
        """`held_from_s`: time before the call that acquired the lock. The service holds it at least `expires_in_ms` from then on."""
        self.token = token
        self.stopped = False
        """Set by the driver before it stops the extension."""
        self.on_lost: list[Callable[[], object]] = []
        """Called when the lock is lost, or when its time has passed without an extension. Must not raise."""
        self._environment = environment
        self._scope, self._key = address
        self._lock_seconds = lock_seconds
        self._expires_at_s = held_from_s + expires_in_ms / 1000
        self._extend_at_s = held_from_s + expires_in_ms / 3000
        self._lost: Literal["no", "expired", "taken"] = "no"

    @property
    def is_lost(self) -> bool:
        """Whether the lock is lost, or its time has passed without an extension."""
        return self._lost != "no"

    def explains(self, result: Raised, cancelled: type[BaseException] | None) -> bool:
        """Returns whether an exception of `work` only reports that the lock is lost. `cancelled`: class of the exception by which the
        driver then cancels `work`."""
        if not self.is_lost:
            return False
        errors = (result.error, result.error.__cause__)
        if cancelled is not None and any(isinstance(each, cancelled) for each in errors):
            return True
        return any(isinstance(each, LatchkeyOutcomeError) and each.outcome == TakenOver("during") for each in errors)

    def extensions(self) -> Steps[None]:
        """Extends the lock until it is lost or `stopped`."""
        try:
            yield from self._extend()
        except Exception:
            # Without further extensions, the lock will end.
            self._lose("expired")
            raise

    def _extend(self) -> Steps[None]:
        failures = 0
        while True:
            yield Pause(max(0.0, self._extend_at_s - self._environment.now()))
            started_at_s = self._environment.now()
            if self.stopped:
                return
            left_s = self._expires_at_s - started_at_s
            if left_s <= 0:
                return self._lose("expired")
            call = extend_call(self._scope, self._key, self.token, self._lock_seconds, min(CALL_S_MAX, left_s))
            reply = yield from send(call)
            if self.stopped:
                return
            if isinstance(reply, Ok):
                failures = 0
                self._expires_at_s = started_at_s + reply.body["expiresInMs"] / 1000
                self._extend_at_s = started_at_s + reply.body["expiresInMs"] / 3000
                debug("lock extended", scope=self._scope)
                continue
            if isinstance(reply, Refused) and reply.code == "lock_lost":
                return self._lose("taken")
            # Another refusal, such as of a suspended tenant, does not end the lock: it is held until its time has passed.
            next_s = self._environment.now() + pause_s(failures, reply.retry_after_s, self._environment.random())
            self._extend_at_s = min(next_s, self._expires_at_s)
            failures += 1
            debug("extension repeated", scope=self._scope)

    def _lose(self, how: Literal["expired", "taken"]) -> None:
        self._lost = how
        debug("lock lost", scope=self._scope, how=how)
        for callback in self.on_lost:
            callback()

    def release(self) -> Steps[None]:
        """Releases the lock, since `work` had no effect under it. The service keeps the mark of an earlier takeover."""
        yield from self._give_up(lambda left_s: remove_call(self._scope, self._key, self.token, left_s))

    def shorten(self) -> Steps[None]:
        """Shortens the lock, so that the next caller soon gets it with `taken_over`."""
        yield from self._give_up(
            lambda left_s: extend_call(self._scope, self._key, self.token, _SHORTENED_SECONDS, left_s)
        )

    def _give_up(self, call: Callable[[float], Call]) -> Steps[None]:
        # An extension under way would make the lock long again.
        yield Unhold()
        if self._lost == "taken":
            return
        now = self._environment.now
        until_s = now() + _GIVE_UP_S_MAX
        reply = yield from repeat(self._environment, lambda: call(max(0.01, until_s - now())), until_s)
        if not isinstance(reply, Ok):
            debug("lock not given up", scope=self._scope, code=reply.code)
