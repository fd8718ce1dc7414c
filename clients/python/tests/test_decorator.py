from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from latchkey import AsyncLatchkey, Latchkey, LatchkeyOutcomeError, idempotent
from latchkey.canonical_json import canonical_json
from support import environment, new_key


CANONICAL: list[dict[str, str]] = json.loads(
    (Path(__file__).parents[2] / "conformance/canonical-json.json").read_text("utf-8")
)


@pytest.fixture
def address() -> tuple[str, str]:
    return environment("API_URL"), environment("API_KEY")


def test_decorated_function_runs_once_per_key(address: tuple[str, str]) -> None:
    runs: list[str] = []
    with Latchkey(*address) as latchkey:

        @idempotent(latchkey, key=lambda order, note=None: order)
        def ship(order: str, note: str | None = None) -> dict[str, int]:
            runs.append(order)
            return {"parcels": len(runs)}

        key = new_key()
        assert [ship(key), ship(order=key), ship(key, None)] == [{"parcels": 1}] * 3
        assert latchkey.fetch_record("ship", key) is not None
        with pytest.raises(LatchkeyOutcomeError, match="reused_key"):
            ship(key, note="other arguments")
    assert runs == [key]


def test_decorated_coroutine_function_runs_once_per_key(address: tuple[str, str]) -> None:
    runs: list[str] = []

    async def main() -> None:
        async with AsyncLatchkey(*address) as latchkey:

            @idempotent(latchkey, key=lambda order: order, scope="orders", fingerprint=lambda order: None)
            async def ship(order: str) -> int:
                runs.append(order)
                return len(runs)

            key = new_key()
            # A coroutine, as `create_task` needs it.
            assert [await ship(key), await asyncio.create_task(ship(key))] == [1, 1]
            assert await latchkey.fetch_record("orders", key) is not None

    asyncio.run(main())
    assert len(runs) == 1


def test_decorator_refuses_a_function_of_the_other_kind(address: tuple[str, str]) -> None:
    async def coroutine_function() -> None: ...

    def function() -> None: ...

    with Latchkey(*address) as latchkey, pytest.raises(TypeError, match="AsyncLatchkey takes"):
        idempotent(latchkey, key=lambda: "k")(coroutine_function)
    with pytest.raises(TypeError, match="AsyncLatchkey takes"):
        idempotent(AsyncLatchkey(*address), key=lambda: "k")(function)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CANONICAL, ids=lambda case: case["json"][:20])
def test_canonical_json_is_that_of_the_library_in_typescript(case: dict[str, str]) -> None:
    assert canonical_json(json.loads(case["json"])).decode() == case["canonical"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1: 2}])
def test_canonical_json_refuses_what_is_not_json(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical_json(value)
