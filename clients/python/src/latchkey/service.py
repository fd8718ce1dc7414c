"""Calls of the HTTP interface of the service and their replies, without I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, cast
from urllib.parse import urlencode, urlsplit

from .api import CheckRequest, ExtendRequest, LockBusy, LockTaken, RecordFound, SavedRecord
from .errors import LatchkeyRequestError

CALL_S_MAX = 5.0
"""Maximum seconds of a call, beyond the time for which it asks the service to wait."""
ANSWER_BYTES_MAX = 1024 * 1024
_MESSAGE_CHARS_MAX = 500


@dataclass(frozen=True)
class Call:
    """One call of the service."""

    method: Literal["POST", "PUT", "GET", "DELETE"]
    path: str
    """Path with query, from `/v1` on."""
    body: bytes | None
    timeout_s: float
    accepts: Callable[[Mapping[str, Any]], bool]
    """Returns whether an answer is as documented. Another program may answer 200, too, such as a proxy."""


@dataclass(frozen=True)
class Ok:
    """Answer of the service: a JSON object."""

    body: Mapping[str, Any]


@dataclass(frozen=True)
class Refused:
    """The service refused the call; an unchanged retry fails again. Includes 429, because a usage limit lasts."""

    status: int
    code: str
    message: str
    request_id: str | None = None
    retry_after_s: float | None = None

    def error(self) -> LatchkeyRequestError:
        return LatchkeyRequestError(self.code, self.message, self.status, self.request_id)


@dataclass(frozen=True)
class Failed:
    """No usable answer. The call may have had its effect, and a retry may succeed."""

    reason: Literal["unreachable", "store_unavailable", "overloaded"]
    code: str
    """Error code of the service, `http_<status>`, `no_answer`, `timeout` or `bad_answer`."""
    retry_after_s: float | None = None
    cause: Exception | None = None
    """Exception of the transport."""


Reply = Union[Ok, Refused, Failed]


class Address:
    """Address and credentials of the service."""

    def __init__(self, url: str, api_key: str) -> None:
        _refuse_missing("url", url, "LATCHKEY_URL")
        _refuse_missing("api_key", api_key, "LATCHKEY_API_KEY")
        parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise ValueError("Latchkey: `url` must be an http or https address without query and fragment")
        if not isinstance(api_key, str) or not re.fullmatch(r"[\x21-\x7e]+", api_key):
            raise ValueError("Latchkey: `api_key` must be a text of printable ASCII characters without spaces")
        self.base = url.rstrip("/")
        # Answers are not compressed, so that their length is bounded as they are received.
        self.headers = {
            "Authorization": f"Bearer {api_key}",
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
        }


def _refuse_missing(name: str, value: str | None, variable: str) -> None:
    if value is None or value == "":
        state = "None" if value is None else "empty"
        raise ValueError(f"Latchkey: `{name}` is missing ({state}): if you pass os.environ.get('{variable}'), set it")


def reply_of(call: Call, status: int, headers: Mapping[str, str], content: bytes | None) -> Reply:
    """Returns the reply of an HTTP answer to a call. `content` is None if it is longer than `ANSWER_BYTES_MAX`."""
    retry_after_s = _parse_retry_after(headers.get("retry-after"))
    if content is None:
        message = f"The answer is longer than {ANSWER_BYTES_MAX} bytes"
        return Refused(status, "answer_too_long", message, None, retry_after_s)
    body = _parse_object(content)
    if 200 <= status < 300:
        return Failed("unreachable", "bad_answer") if body is None or not call.accepts(body) else Ok(body)
    error = body or {}
    code = _text_of(error.get("code")) or f"http_{status}"
    if status >= 500:
        return Failed(_reason_of(code), code, retry_after_s)
    message = (_text_of(error.get("message")) or f"The answer has status {status}")[:_MESSAGE_CHARS_MAX]
    return Refused(status, code, message, _text_of(error.get("requestId")), retry_after_s)


def _reason_of(code: str) -> Literal["unreachable", "store_unavailable", "overloaded"]:
    # Answers of other programs, such as a proxy without a backend, have no code.
    if code.startswith("http_"):
        return "unreachable"
    return "overloaded" if code in ("overloaded", "body_dropped") else "store_unavailable"


def _parse_retry_after(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def _parse_object(content: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


def json_bytes(value: object) -> bytes:
    """Returns JSON as UTF-8. Raises `TypeError` or `ValueError` for a value that is not JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # UTF-8 has no lone surrogates; JSON has them as escapes.
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def check_call(request: CheckRequest, timeout_s: float) -> Call:
    """Gets the record or the lock; waits for a busy key as long as `waitMs` of the request says."""
    return Call("POST", "/v1/record", json_bytes(request), timeout_s, lambda body: parse_check(body) is not None)


def save_call(body: bytes, timeout_s: float) -> Call:
    """Saves a record."""
    return Call("PUT", "/v1/record", body, timeout_s, lambda answer: answer.get("ok") is True)


def extend_call(scope: str, key: str, lock_token: str, lock_seconds: int, timeout_s: float) -> Call:
    """Extends or shortens a lock."""
    request: ExtendRequest = {"scope": scope, "key": key, "lockToken": lock_token, "lockSeconds": lock_seconds}
    path = "/v1/record/extend"
    return Call("POST", path, json_bytes(request), timeout_s, lambda body: isinstance(body.get("expiresInMs"), int))


def remove_call(scope: str, key: str, lock_token: str | None, timeout_s: float) -> Call:
    """Releases the lock of this token; without a token, removes the record."""
    token = {} if lock_token is None else {"lockToken": lock_token}
    query = urlencode({"scope": scope, "key": key, **token})
    path = f"/v1/record?{query}"
    return Call("DELETE", path, None, timeout_s, lambda body: isinstance(body.get("existed"), bool))


def fetch_call(scope: str, key: str, timeout_s: float) -> Call:
    """Reads the record."""
    path = f"/v1/record?{urlencode({'scope': scope, 'key': key})}"

    def accepts(body: Mapping[str, Any]) -> bool:
        return body.get("cached") is False or parse_record(body.get("record")) is not None

    return Call("GET", path, None, timeout_s, accepts)


def parse_check(body: Mapping[str, Any]) -> RecordFound | LockTaken | LockBusy | None:
    """Returns the answer of `check_call`, or None if it is not as documented."""
    if body.get("cached") is True:
        return cast(RecordFound, body) if parse_record(body.get("record")) else None
    if body.get("locked") is False and isinstance(body.get("retryAfterMs"), int):
        return cast(LockBusy, body)
    fields = {"lockToken": str, "fence": int, "expiresInMs": int}
    is_lock = body.get("locked") is True and all(isinstance(body.get(name), kind) for name, kind in fields.items())
    return cast(LockTaken, body) if is_lock else None


def parse_record(value: object) -> SavedRecord | None:
    """Returns a record, or None if it is not as documented."""
    if not isinstance(value, dict):
        return None
    fields = isinstance(value.get("status"), int) and isinstance(value.get("headers"), dict) and "body" in value
    return cast(SavedRecord, value) if fields else None
