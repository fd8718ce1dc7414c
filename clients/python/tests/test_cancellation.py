"""Cancellation of coroutines."""

from __future__ import annotations

import asyncio
from typing import Literal

import httpx
import pytest

from latchkey import AsyncLatchkey, Lock, Ran, TakenOver
from support import Network, dead_network, environment, lock, new_key

SCOPE = "python cancellation"


def open_latchkey() -> AsyncLatchkey:
    return AsyncLatchkey(environment("API_URL"), environment("API_KEY"))


def test_cancelled_caller_cancels_work_and_shortens_the_lock() -> None:
    async def main() -> None:
        key, started, ended = new_key(), asyncio.Event(), asyncio.Event()

        async def work(_lock: Lock) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with open_latchkey() as latchkey:
            task = asyncio.create_task(latchkey.once(SCOPE, key, work))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ended.is_set()

            async def again(_lock: Lock) -> int:
                return 1

            assert await latchkey.once(SCOPE, key, again, wait_ms=5000) == TakenOver("before")

    asyncio.run(main())


def test_result_of_work_that_finishes_despite_the_cancellation_is_saved() -> None:
    async def main() -> None:
        key, started = new_key(), asyncio.Event()

        async def work(_lock: Lock) -> str:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
            return "finished"

        async with open_latchkey() as latchkey:
            task = asyncio.create_task(latchkey.once(SCOPE, key, work))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            record = await latchkey.fetch_record(SCOPE, key)
            assert record is not None and record["body"] == "finished"

    asyncio.run(main())


def test_caller_cancelled_while_it_waits_leaves_no_lock() -> None:
    async def main() -> None:
        key = new_key()
        lock(SCOPE, key, lockSeconds=1)

        async def work(got: Lock) -> bool:
            return got.taken_over

        async with open_latchkey() as latchkey:
            task = asyncio.create_task(latchkey.once(SCOPE, key, work))
            await asyncio.wait({task}, timeout=0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await latchkey.once(SCOPE, key, work, wait_ms=3000, on_taken_over="run") == Ran(True)

    asyncio.run(main())


def test_many_operations_run_at_the_same_time_and_each_key_once() -> None:
    async def main() -> None:
        keys, runs = [new_key() for _ in range(10)], []

        async def work(got: Lock) -> int | None:
            runs.append(got)
            await asyncio.sleep(0)
            return got.fence

        async with open_latchkey() as latchkey:
            calls = [latchkey.once(SCOPE, key, work) for key in keys for _ in range(5)]
            outcomes = await asyncio.gather(*calls)
        assert sorted(each.kind for each in outcomes) == ["ran"] * 10 + ["replayed"] * 40
        assert len(runs) == 10

    asyncio.run(main())


@pytest.mark.parametrize("cancellations", [1, 2, 3])
def test_caller_cancelled_again_while_work_cleans_up_still_gives_the_lock_up_after_work(cancellations: int) -> None:
    async def main() -> None:
        key, started, is_clean = new_key(), asyncio.Event(), False

        async def work(_lock: Lock) -> None:
            nonlocal is_clean
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(cancellations):
                    try:
                        await asyncio.sleep(0.1)
                    except asyncio.CancelledError:
                        pass
                is_clean = True

        async with open_latchkey() as latchkey:
            task = asyncio.create_task(latchkey.once(SCOPE, key, work))
            await started.wait()
            for _ in range(cancellations):
                task.cancel()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert is_clean
            # Shortened to one second.
            assert await latchkey.once(SCOPE, key, work, wait_ms=5000) == TakenOver("before")

    asyncio.run(main())


def test_caller_cancelled_during_the_save_leaves_the_result_saved() -> None:
    async def main() -> None:
        key, saving = new_key(), asyncio.Event()

        class Slow(Network):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                if request.method == "PUT":
                    saving.set()
                    await asyncio.sleep(0.1)
                return await super().handle_async_request(request)

        async def work(_lock: Lock) -> str:
            return "saved"

        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY"), transport=Slow()) as latchkey:
            task = asyncio.create_task(latchkey.once(SCOPE, key, work))
            await saving.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            record = await latchkey.fetch_record(SCOPE, key)
            assert record is not None and record["body"] == "saved"

    asyncio.run(main())


def test_cancelled_caller_does_not_repeat_a_save_without_an_answer() -> None:
    async def main() -> None:
        started = asyncio.Event()
        network = dead_network(lambda request: request.method == "PUT")

        async def work(_lock: Lock) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY"), transport=network) as latchkey:
            task = asyncio.create_task(latchkey.once(SCOPE, new_key(), work))
            await started.wait()
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=5)
            assert done and task.cancelled()
        assert network.calls.count("PUT /v1/record") == 1

    asyncio.run(main())


def test_lock_lost_during_on_taken_over_is_taken_over_and_does_not_cancel_the_caller() -> None:
    async def main() -> None:
        key = new_key()
        lost = httpx.Response(409, json={"code": "lock_lost", "message": "Lost"})
        network = Network(lost, when=lambda request: request.url.path.endswith("/extend"))
        lock(SCOPE, key, lockSeconds=1)

        async def look(_lock: Lock) -> Literal["run"]:
            await asyncio.Event().wait()
            return "run"

        async def work(_lock: Lock) -> None: ...

        async with AsyncLatchkey(environment("API_URL"), environment("API_KEY"), transport=network) as latchkey:
            outcome = await latchkey.once(SCOPE, key, work, wait_ms=3000, lock_seconds=1, on_taken_over=look)
            assert outcome == TakenOver("before")

    asyncio.run(main())
