"""Decorator for functions and queue consumers."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .aio import AsyncLatchkey
from .canonical_json import canonical_json
from .client import Latchkey
from .options import AsyncOnceBounds, OnceBounds
from .outcomes import unwrap
from .steps import Lock

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Unpack

    P = ParamSpec("P")
T = TypeVar("T")


@overload
def idempotent(
    latchkey: Latchkey,
    *,
    key: Callable[P, str],
    scope: str | None = None,
    fingerprint: Callable[P, str | None] | None = None,
    **options: Unpack[OnceBounds],
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


@overload
def idempotent(
    latchkey: AsyncLatchkey,
    *,
    key: Callable[P, str],
    scope: str | None = None,
    fingerprint: Callable[P, str | None] | None = None,
    **options: Unpack[AsyncOnceBounds],
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]: ...


def idempotent(
    latchkey: Latchkey | AsyncLatchkey,
    *,
    key: Callable[..., str],
    scope: str | None = None,
    fingerprint: Callable[..., str | None] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Runs a function at most once per key, and returns its saved result for duplicate calls.

    `key` and `fingerprint` get the arguments of the function. `scope` defaults to the function's name. `fingerprint` defaults to a hash
    of the arguments, which must then be JSON. The decorated function raises `LatchkeyOutcomeError` for an outcome without a known
    result.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        name = scope if scope is not None else function.__name__

        def options_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
            own = fingerprint(*args, **kwargs) if fingerprint else _hash(signature, args, kwargs)
            return {**options, "fingerprint": own}

        if isinstance(latchkey, AsyncLatchkey):
            if not inspect.iscoroutinefunction(function):
                raise TypeError("Latchkey: AsyncLatchkey takes coroutine functions, Latchkey takes functions")

            @functools.wraps(function)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                async def work(_lock: Lock) -> Any:
                    return await function(*args, **kwargs)

                return unwrap(await latchkey.once(name, key(*args, **kwargs), work, **options_of(args, kwargs)))

            return call_async
        if inspect.iscoroutinefunction(function):
            raise TypeError("Latchkey: AsyncLatchkey takes coroutine functions, Latchkey takes functions")

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            def work(_lock: Lock) -> Any:
                return function(*args, **kwargs)

            return unwrap(latchkey.once(name, key(*args, **kwargs), work, **options_of(args, kwargs)))

        return call

    return decorate


def _hash(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Returns the hex SHA-256 of the arguments. A keyword argument has the same hash as a positional one."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    values = [*bound.args, bound.kwargs] if bound.kwargs else list(bound.args)
    return hashlib.sha256(canonical_json(values)).hexdigest()
