from __future__ import annotations

import json
import logging
import threading
from typing import Any, Literal

import httpx
import pytest

from conftest import OpenClient
from latchkey import (
    Busy,
    Cache,
    LatchkeyOutcomeError,
    LatchkeyRequestError,
    Lock,
    NothingHappened,
    Outcome,
    Ran,
    Recovered,
    Replayed,
    ReusedKey,
    TakenOver,
    Unavailable,
    Unknown,
    unwrap,
)
from support import Client, Network, call, dead_network, environment, lock, new_key

SCOPE = "python"


def is_save(request: httpx.Request) -> bool:
    return request.method == "PUT"


def is_extension(request: httpx.Request) -> bool:
    return request.url.path.endswith("/extend")


def refused(status: int, code: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "message": "Refused by the test"}, headers=headers)


def test_first_call_runs_work_and_a_duplicate_replays_its_result(client: Client, key: str) -> None:
    result = {"id": 1, "text": "ä\u2028\ud800", "none": None, "list": [1.5, True]}
    assert client.once(SCOPE, key, lambda _lock: result) == Ran(result)
    assert client.once(SCOPE, key, lambda _lock: "another") == Replayed(result)
    assert client.fetch_record(SCOPE, key) == {"status": 200, "headers": {}, "body": result}


def test_work_gets_fence_and_attempt_id_and_is_not_cancelled(client: Client, key: str) -> None:
    locks: list[Lock] = []
    client.once(SCOPE, key, locks.append)
    [got] = locks
    assert got.fence is not None and got.fence > 0
    assert (got.taken_over, got.cancelled.is_set(), len(got.attempt_id)) == (False, False, 36)
    got.raise_if_lost()


def test_busy_key_with_wait_ms_0_is_answered_at_once(client: Client, key: str) -> None:
    lock(SCOPE, key)
    outcome = client.once(SCOPE, key, lambda _lock: 1, wait_ms=0)
    assert isinstance(outcome, Busy) and 0 < outcome.retry_after_ms <= 1000


def test_caller_that_waits_for_a_busy_key_replays_the_result_of_the_other(client: Client, key: str) -> None:
    other = Client("sync")
    is_working, may_end = threading.Event(), threading.Event()

    def slow(_lock: Lock) -> str:
        is_working.set()
        may_end.wait(10)
        return "slow"

    thread = threading.Thread(target=other.once, args=(SCOPE, key, slow))
    thread.start()
    is_working.wait(10)
    threading.Timer(0.2, may_end.set).start()
    assert client.once(SCOPE, key, lambda _lock: "second") == Replayed("slow")
    thread.join(10)
    other.close()


def test_another_fingerprint_is_a_reused_key(client: Client, key: str) -> None:
    client.once(SCOPE, key, lambda _lock: 1, fingerprint="a")
    assert client.once(SCOPE, key, lambda _lock: 1, fingerprint="b") == ReusedKey()


@pytest.mark.parametrize("fates", [("lose call", "lose call"), ("lose answer",), (refused(503, "store_unavailable"),)])
def test_acquisition_without_an_answer_is_repeated_and_gets_its_own_lock(
    open_client: OpenClient, key: str, fates: Any
) -> None:
    assert open_client(Network(*fates)).once(SCOPE, key, lambda lock: lock.taken_over) == Ran(False)


def test_acquisition_whose_answers_are_all_lost_ends_as_unreachable_after_acquire_ms(
    open_client: OpenClient, key: str
) -> None:
    network = dead_network()
    outcome = open_client(network).once(SCOPE, key, lambda _lock: 1, acquire_ms=300)
    assert outcome == Unavailable("unreachable", 1000)
    assert 2 <= len(network.calls) <= 10


@pytest.mark.parametrize(
    ("status", "code", "headers", "reason", "retry_after_ms"),
    [
        (503, "store_unavailable", {"retry-after": "1"}, "store_unavailable", 1000),
        (503, "overloaded", {"retry-after": "2"}, "overloaded", 2000),
        (503, "body_dropped", {}, "overloaded", 1000),
        (502, None, {}, "unreachable", 1000),
        (429, "limit_exceeded", {"retry-after": "30"}, "limit_exceeded", 30_000),
    ],
)
def test_refusals_that_end_as_unavailable_name_their_reason(
    open_client: OpenClient, key: str, status: int, code: Any, headers: Any, reason: Any, retry_after_ms: int
) -> None:
    network = Network(*[refused(status, code, **headers) for _ in range(20)])
    client = open_client(network)
    assert client.once(SCOPE, key, lambda _lock: 1, acquire_ms=100) == Unavailable(reason, retry_after_ms)
    if status == 429:
        assert len(network.calls) == 1


def test_on_unavailable_run_runs_work_without_a_lock(open_client: OpenClient, key: str) -> None:
    client = open_client(dead_network())
    outcome = client.once(SCOPE, key, lambda lock: lock.fence, acquire_ms=100, on_unavailable="run")
    assert outcome == Ran(None, guarded=False)


def test_answer_over_1_mib_is_refused(open_client: OpenClient, key: str) -> None:
    network = Network(httpx.Response(200, content=b" " * (1024 * 1024 + 1)))
    with pytest.raises(LatchkeyRequestError, match="answer_too_long"):
        open_client(network).once(SCOPE, key, lambda _lock: 1)


@pytest.mark.parametrize(
    ("api_key", "key", "status", "code"),
    [("lk_test_" + "f" * 32, "k", 403, "api_key_invalid"), (None, "a\n", 400, "invalid_request")],
)
def test_call_that_can_never_succeed_raises_with_code_and_request_id(
    open_client: OpenClient, api_key: str | None, key: str, status: int, code: str
) -> None:
    client = open_client(None, api_key=api_key or environment("API_KEY"))
    with pytest.raises(LatchkeyRequestError) as raised:
        client.once(SCOPE, key, lambda _lock: 1)
    assert (raised.value.status, raised.value.code) == (status, code)
    assert raised.value.request_id and str(raised.value).endswith(f"({code})")


def test_exception_of_work_is_raised_unchanged_and_the_next_caller_is_told(client: Client, key: str) -> None:
    error = ValueError("broken")

    def fail(_lock: Lock) -> None:
        raise error

    with pytest.raises(ValueError) as raised:
        client.once(SCOPE, key, fail)
    assert raised.value is error
    # The lock of a minute was shortened to a second.
    assert client.once(SCOPE, key, lambda _lock: 1, wait_ms=5000) == TakenOver("before")
    # The refusal keeps the mark.
    assert client.once(SCOPE, key, lambda lock: lock.taken_over, on_taken_over="run") == Ran(True)


def test_nothing_happened_releases_the_lock(client: Client, key: str) -> None:
    def decline(_lock: Lock) -> None:
        raise NothingHappened("declined") from ValueError("cause")

    with pytest.raises(NothingHappened, match="declined"):
        client.once(SCOPE, key, decline)
    assert client.once(SCOPE, key, lambda lock: lock.taken_over, wait_ms=0) == Ran(False)


def test_result_that_is_not_json_counts_as_an_exception_of_work(client: Client, key: str) -> None:
    with pytest.raises(TypeError, match="the result of the operation is not JSON, so it is not saved"):
        client.once(SCOPE, key, lambda _lock: object())
    assert client.once(SCOPE, key, lambda _lock: 1, wait_ms=5000) == TakenOver("before")


@pytest.mark.parametrize(
    ("decide", "outcome", "runs"),
    [
        (lambda _lock: Recovered("found"), Replayed("found"), 0),
        (lambda _lock: "run", Ran("ran"), 1),
        (lambda _lock: "refuse", TakenOver("before"), 0),
    ],
)
def test_callback_decides_after_a_takeover(client: Client, key: str, decide: Any, outcome: Any, runs: int) -> None:
    lock(SCOPE, key, lockSeconds=1)
    ran: list[Lock] = []

    def work(lock: Lock) -> str:
        ran.append(lock)
        return "ran"

    assert client.once(SCOPE, key, work, wait_ms=5000, on_taken_over=decide) == outcome
    assert len(ran) == runs
    record = client.fetch_record(SCOPE, key)
    assert (record is None) == isinstance(outcome, TakenOver)


def test_exception_of_the_callback_is_raised_and_releases_the_lock(client: Client, key: str) -> None:
    lock(SCOPE, key, lockSeconds=1)

    def decide(_lock: Lock) -> Any:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        client.once(SCOPE, key, lambda _lock: 1, wait_ms=5000, on_taken_over=decide)
    assert client.once(SCOPE, key, lambda _lock: 1, wait_ms=0) == TakenOver("before")


def test_lock_is_extended_while_work_runs(open_client: OpenClient, key: str) -> None:
    network = Network("lose call", "lose answer", when=is_extension)
    extended = threading.Event()

    def work(lock: Lock) -> bool:
        # Longer than the lock lasts without an extension.
        extended.wait(2.5)
        return lock.cancelled.is_set()

    assert open_client(network).once(SCOPE, key, work, lock_seconds=1) == Ran(False)
    assert network.calls.count("POST /v1/record/extend") >= 4


def test_caller_that_is_told_that_its_lock_is_lost_is_cancelled(client: Client, key: str) -> None:
    def work(lock: Lock) -> str:
        token = lock_token(key)
        call("DELETE", "/v1/record", scope=SCOPE, key=key, lockToken=token)
        lock.cancelled.wait(5)
        lock.raise_if_lost()
        return "not cancelled"

    def lock_token(key: str) -> str:
        again = {"scope": SCOPE, "key": key, "attemptId": attempts[0], "lockSeconds": 3}
        return str(call("POST", "/v1/record", again)["lockToken"])

    attempts: list[str] = []

    def start(lock: Lock) -> str:
        attempts.append(lock.attempt_id)
        return work(lock)

    outcome = client.once(SCOPE, key, start, lock_seconds=3)
    assert outcome == TakenOver("during")
    with pytest.raises(LatchkeyOutcomeError, match="taken_over, during"):
        unwrap(outcome)


def test_lock_whose_extensions_have_no_answer_is_lost_after_its_time_and_the_result_still_saved(
    open_client: OpenClient, key: str
) -> None:
    network = dead_network(is_extension)

    def work(lock: Lock) -> str:
        assert lock.cancelled.wait(5)
        return "late"

    if (client := open_client(network)).kind == "sync":
        assert client.once(SCOPE, key, work, lock_seconds=1) == Ran("late")
    else:
        # A coroutine is cancelled, so that it has no result.
        assert client.once(SCOPE, key, work, lock_seconds=1) == TakenOver("during")


def test_save_without_an_answer_is_repeated(open_client: OpenClient, key: str) -> None:
    client = open_client(Network("lose answer", "lose call", refused(500, "internal"), when=is_save))
    assert client.once(SCOPE, key, lambda _lock: 1) == Ran(1)
    assert client.once(SCOPE, key, lambda _lock: 2) == Replayed(1)


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"<html>", b'{"cached": false}', b'{"ok": 1}'])
def test_answer_that_is_not_of_the_service_is_repeated(open_client: OpenClient, key: str, answer: bytes) -> None:
    network = Network(*[httpx.Response(200, content=answer) for _ in range(2)])
    assert open_client(network).once(SCOPE, key, lambda _lock: 1) == Ran(1)
    network = Network(*[httpx.Response(200, content=answer) for _ in range(2)], when=is_save)
    client = open_client(network)
    assert client.once(SCOPE, other := new_key(), lambda _lock: 1) == Ran(1)
    assert client.fetch_record(SCOPE, other) is not None
    assert len(network.calls) == 5


def test_acquire_ms_and_save_ms_of_0_make_one_call_each(open_client: OpenClient, key: str) -> None:
    network = Network()
    assert open_client(network).once(SCOPE, key, lambda _lock: 1, wait_ms=0, acquire_ms=0, save_ms=0) == Ran(1)
    assert network.calls == ["POST /v1/record", "PUT /v1/record"]
    network = dead_network()
    outcome = open_client(network).once(SCOPE, key, lambda _lock: 1, wait_ms=0, acquire_ms=0)
    assert (outcome, len(network.calls)) == (Unavailable("unreachable", 1000), 1)


@pytest.mark.parametrize("option", ["wait_ms", "acquire_ms", "save_ms", "lock_seconds"])
def test_negative_bounds_are_refused(client: Client, key: str, option: str) -> None:
    with pytest.raises(ValueError, match=f"`{option}` must be at least [01], not -1"):
        client.once(SCOPE, key, lambda _lock: 1, **{option: -1})


def test_save_that_is_never_answered_is_unknown_and_can_be_completed_from_json(
    open_client: OpenClient, key: str
) -> None:
    client = open_client(dead_network(is_save))
    outcome = client.once(SCOPE, key, lambda _lock: {"id": 7}, save_ms=200, ttl_seconds=60)
    assert isinstance(outcome, Unknown)
    assert (outcome.value, outcome.reason, outcome.code) == ({"id": 7}, "no_answer", "no_answer")
    assert outcome.pending["lockToken"] not in repr(outcome)
    pending = json.loads(json.dumps(outcome.pending))
    client = open_client()
    for _ in range(2):
        assert client.complete(pending) == Ran({"id": 7})
    assert client.once(SCOPE, key, lambda _lock: 1) == Replayed({"id": 7})


def test_result_that_the_service_refuses_is_unknown_with_its_reason(client: Client, key: str) -> None:
    outcome = client.once(SCOPE, key, lambda _lock: "x" * 262_144)
    assert isinstance(outcome, Unknown)
    assert (outcome.reason, outcome.code) == ("refused", "invalid_request")
    assert outcome.message is not None and "262144" in outcome.message


def test_save_after_another_caller_saved_is_taken_over_during(client: Client, key: str) -> None:
    def work(_lock: Lock) -> int:
        call("PUT", "/v1/record", {"scope": SCOPE, "key": key, "status": 200, "body": 2})
        return 1

    assert client.once(SCOPE, key, work) == TakenOver("during")


def test_remove_record_lets_the_operation_run_again(client: Client, key: str) -> None:
    client.once(SCOPE, key, lambda _lock: 1)
    assert [client.remove_record(SCOPE, key) for _ in range(2)] == [True, False]
    assert client.fetch_record(SCOPE, key) is None
    assert client.once(SCOPE, key, lambda _lock: 2) == Ran(2)


def test_fetch_record_raises_for_a_wrong_api_key(open_client: OpenClient) -> None:
    with pytest.raises(LatchkeyRequestError, match="api_key_invalid"):
        open_client(api_key="lk_test_" + "f" * 32).fetch_record(SCOPE, "k")


def test_cache_replays_without_a_call_and_only_for_the_same_fingerprint(open_client: OpenClient) -> None:
    client = open_client(Network(), cache=Cache(entries_max=2, max_age_ms=60_000))
    first, second, third = new_key(), new_key(), new_key()
    results = {each: client.once(SCOPE, each, lambda _lock: [1], fingerprint="a") for each in (first, second)}
    assert results == {first: Ran([1]), second: Ran([1])}
    calls = len(client.network.calls)
    replayed = client.once(SCOPE, first, lambda _lock: 2, fingerprint="a")
    assert isinstance(replayed, Replayed)
    # The caller's change does not reach the cache.
    replayed.value.append(2)
    assert client.once(SCOPE, first, lambda _lock: 2, fingerprint="a") == Replayed([1])
    assert len(client.network.calls) == calls
    assert client.once(SCOPE, first, lambda _lock: 2, fingerprint="b") == ReusedKey()
    client.once(SCOPE, third, lambda _lock: 3)
    client.once(SCOPE, second, lambda _lock: 2, fingerprint="a")
    assert len(client.network.calls) > calls + 3
    assert client.remove_record(SCOPE, third)
    assert client.once(SCOPE, third, lambda _lock: 4) == Ran(4)


def test_logs_of_all_levels_hold_no_api_key_key_token_or_body(
    open_client: OpenClient, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.NOTSET)
    client = open_client(Network("lose answer"))

    def decline(_lock: Lock) -> None:
        raise NothingHappened("secret result")

    with pytest.raises(NothingHappened):
        client.once(SCOPE, key, decline)
    client.once(SCOPE, key, lambda _lock: "secret result")
    client.remove_record(SCOPE, key)
    texts = [record.getMessage() for record in caplog.records if not record.name.startswith("asyncio")]
    assert any("lock acquired" in text for text in texts) and any("once ended" in text for text in texts)
    for secret in (key, environment("API_KEY"), "secret result", "lockToken"):
        assert not any(secret in text for text in texts), secret


def test_tracer_gets_one_span_with_scope_outcome_and_attempts(open_client: OpenClient, key: str) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    client = open_client(Network("lose call"), tracer=provider.get_tracer("test"))

    def fail(_lock: Lock) -> None:
        raise ValueError(key)

    client.once(SCOPE, key, lambda _lock: 1)
    with pytest.raises(ValueError):
        client.once(SCOPE, new_key(), fail)
    spans = exporter.get_finished_spans()
    attributes = [dict(span.attributes or {}) for span in spans]
    assert attributes == [
        {"latchkey.scope": SCOPE, "latchkey.outcome": "ran", "latchkey.attempts": 2},
        {"latchkey.scope": SCOPE, "latchkey.outcome": "exception", "latchkey.attempts": 1},
    ]
    assert not any(key in span.to_json() for span in spans)


@pytest.mark.parametrize(
    ("url", "api_key"), [("latchkey:8080", "k"), ("ftp://a", "k"), ("http://a?b=c", "k"), ("http://a", ""), ("http://a", "k\n")]
)
def test_client_refuses_a_malformed_address_and_key(url: str, api_key: str) -> None:
    from latchkey import AsyncLatchkey, Latchkey

    for client in (Latchkey, AsyncLatchkey):
        with pytest.raises(ValueError, match="Latchkey"):
            client(url, api_key)


@pytest.mark.parametrize(
    ("url", "api_key", "message"),
    [
        (None, "k", r"`url` is missing \(None\): if you pass os.environ.get\('LATCHKEY_URL'\), set it"),
        ("http://a", None, r"`api_key` is missing \(None\)"),
        ("http://a", "", r"`api_key` is missing \(empty\)"),
    ],
)
def test_client_names_a_missing_address_or_key(url: Any, api_key: Any, message: str) -> None:
    from latchkey import Latchkey

    with pytest.raises(ValueError, match=message):
        Latchkey(url, api_key)


def test_outcomes_can_be_matched() -> None:
    def name(outcome: Outcome[int]) -> str:
        match outcome:
            case Ran(value) | Replayed(value):
                return f"value {value}"
            case Busy(retry_after_ms):
                return f"busy {retry_after_ms}"
            case TakenOver("before"):
                return "before"
            case other:
                return other.kind

    outcomes: list[Outcome[int]] = [Ran(1), Replayed(2), Busy(3), TakenOver("before"), TakenOver("during"), ReusedKey()]
    assert [name(each) for each in outcomes] == ["value 1", "value 2", "busy 3", "before", "taken_over", "reused_key"]


def test_first_call_of_an_acquisition_does_not_wait_and_the_next_one_does(open_client: OpenClient, key: str) -> None:
    waits: list[int | None] = []

    def note(request: httpx.Request) -> bool:
        waits.append(json.loads(request.content).get("waitMs"))
        return False

    lock(SCOPE, key)
    outcome = open_client(Network("pass", when=note)).once(SCOPE, key, lambda _lock: 1, wait_ms=300)
    assert isinstance(outcome, Busy)
    first, second, *_ = waits
    assert first is None and second is not None and 0 < second <= 300


def test_work_does_not_start_if_the_lock_is_lost_while_on_taken_over_decides(key: str) -> None:
    def look(got: Lock) -> Literal["run"]:
        assert got.cancelled.wait(5)
        return "run"

    runs: list[Lock] = []
    network = Network(refused(409, "lock_lost"), when=is_extension)
    lock(SCOPE, key, lockSeconds=1)
    client = Client("sync", network)
    outcome = client.once(SCOPE, key, runs.append, wait_ms=3000, lock_seconds=1, on_taken_over=look)
    client.close()
    assert (outcome, runs) == (TakenOver("before"), [])


def test_unreachable_service_has_the_exception_of_the_transport_as_its_cause(open_client: OpenClient, key: str) -> None:
    outcome = open_client(dead_network()).once(SCOPE, key, lambda _lock: 1, acquire_ms=0)
    assert isinstance(outcome, Unavailable) and isinstance(outcome.cause, httpx.ConnectError)
    with pytest.raises(LatchkeyOutcomeError) as raised:
        unwrap(outcome)
    assert raised.value.__cause__ is outcome.cause


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_lock_is_lost_when_its_extension_fails_in_an_unexpected_way(open_client: OpenClient, key: str) -> None:
    class Broken(Network):
        is_broken = True

        def _fate(self, request: httpx.Request) -> Any:
            if is_extension(request) and self.is_broken:
                self.is_broken = False
                raise RuntimeError("broken")
            return super()._fate(request)

    def work(lock: Lock) -> str:
        assert lock.cancelled.wait(5)
        lock.raise_if_lost()
        raise AssertionError

    assert open_client(Broken()).once(SCOPE, key, work, lock_seconds=1) == TakenOver("during")
