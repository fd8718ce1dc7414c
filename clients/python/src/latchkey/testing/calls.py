"""Calls of the service: their parsing, and its refusals."""

from __future__ import annotations

import json
import re
import unicodedata
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, cast

import httpx

from ..api import SavedRecord
from ..service import json_bytes

Operation = Literal["acquire", "save", "extend", "release", "remove", "fetch"]
"""Calls of the service that records need. `release` is a removal with a lock token."""

_TEXTS = {"scope": 128, "key": 255, "attemptId": 128, "fingerprint": 255, "lockToken": 128}
_LOCK_SECONDS_DEFAULT = 60
_DEPTH_MAX = 256
_ROUTES: dict[tuple[str, str], tuple[Operation, tuple[str, ...], tuple[str, ...]]] = {
    ("POST", "/v1/record"): ("acquire", (), ("ttlSeconds", "lockSeconds", "attemptId", "fingerprint", "waitMs")),
    ("PUT", "/v1/record"): ("save", ("status", "body"), ("headers", "ttlSeconds", "lockToken")),
    ("POST", "/v1/record/extend"): ("extend", ("lockToken",), ("lockSeconds",)),
    ("GET", "/v1/record"): ("fetch", (), ()),
    ("DELETE", "/v1/record"): ("remove", (), ("lockToken",)),
}
"""Operation of each method and path, with the fields that it needs beside scope and key, and those that it takes."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_HEADER_VALUE = re.compile("[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]{0,65536}")


@dataclass(frozen=True)
class Limits:
    """Limits of calls."""

    api_key: str
    record_body_bytes_max: int
    record_ttl_seconds_max: int


@dataclass(frozen=True)
class RecordCall:
    """Valid call."""

    operation: Operation
    fields: dict[str, Any]

    @property
    def address(self) -> tuple[str, str]:
        return self.fields["scope"], self.fields["key"]

    def text(self, name: str) -> str:
        """Returns a field, or an empty text."""
        return cast(str, self.fields.get(name, ""))

    def ms(self, name: str) -> float | None:
        """Returns a field of seconds in milliseconds."""
        seconds = self.fields.get(name)
        return None if seconds is None else seconds * 1000.0

    def lock_ms(self) -> float:
        """Returns the time of a new lock."""
        return self.ms("lockSeconds") or _LOCK_SECONDS_DEFAULT * 1000.0

    def record(self) -> SavedRecord:
        """Returns the record of a save."""
        return {"status": self.fields["status"], "headers": self.fields.get("headers", {}), "body": self.fields["body"]}


def refusal(status: int, code: str, message: str, retry_after_seconds: int | None = None) -> httpx.Response:
    """Returns the response of an error, with the envelope of the service."""
    error = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Error"
    body = {"message": message, "error": error, "statusCode": status, "code": code, "requestId": str(uuid.uuid4())}
    headers = {} if retry_after_seconds is None else {"Retry-After": str(retry_after_seconds)}
    return answer(body, headers, status)


def answer(body: dict[str, Any], headers: dict[str, str] | None = None, status: int = 200) -> httpx.Response:
    """Returns a response with a JSON body."""
    own = {"Content-Type": "application/json", **(headers or {})}
    return httpx.Response(status, headers=own, content=json_bytes(body))


def parse_call(request: httpx.Request, limits: Limits) -> RecordCall | httpx.Response:
    """Parses a request, or returns the response that refuses it."""
    route = _ROUTES.get((request.method, request.url.path))
    if route is None:
        return refusal(404, "route_unknown", "This port has no such route: check the method and the path")
    if request.headers.get("authorization") != f"Bearer {limits.api_key}":
        message = 'The API key is missing, unknown or expired: send a valid one as "Authorization: Bearer lk_…"'
        return refusal(403, "api_key_invalid", message)
    operation, required, optional = route
    has_body = request.method in ("POST", "PUT")
    fields = _parse_object(request.read()) if has_body else dict(request.url.params)
    if isinstance(fields, str):
        return refusal(400, "invalid_request", fields)
    problem = _find_fields(fields, ("scope", "key", *required), optional) or _find_problem(fields, limits)
    if problem is not None:
        return refusal(400, "invalid_request", problem)
    return RecordCall("release" if operation == "remove" and "lockToken" in fields else operation, fields)


def _find_fields(fields: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...]) -> str | None:
    for name in fields:
        if name not in required and name not in optional:
            return f'"{name}" is not a field of this call'
    for name in required:
        if name not in fields:
            return f'"{name}" is required'
    return None


def _parse_object(content: bytes) -> dict[str, Any] | str:
    """Returns the fields of a JSON object, or the text of an error."""
    try:
        text = content.decode()
        if _depth_of(text) > _DEPTH_MAX:
            return f"The body must not be nested deeper than {_DEPTH_MAX} levels"
        value = json.loads(text)
    except ValueError:
        return "The body must be JSON"
    return value if isinstance(value, dict) else "The body must be a JSON object"


def _depth_of(text: str) -> int:
    """Returns the depth of a JSON text, counted before it is parsed."""
    depth = deepest = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', text, re.DOTALL):
        if found[0] in "{[":
            depth += 1
        elif found[0] in "}]":
            depth -= 1
        deepest = max(deepest, depth)
    return deepest


def _find_problem(fields: dict[str, Any], limits: Limits) -> str | None:
    numbers = (
        ("ttlSeconds", 1, limits.record_ttl_seconds_max),
        ("lockSeconds", 1, 900),
        ("waitMs", 0, 25_000),
        ("status", 100, 599),
    )
    for name, least, most in numbers:
        value = fields.get(name, least)
        if type(value) is not int or not least <= value <= most:
            return f'"{name}" must be a whole number from {least} to {most}'
    for name, chars_max in _TEXTS.items():
        value = fields.get(name, "-")
        if not isinstance(value, str) or not 1 <= len(value) <= chars_max:
            return f'"{name}" must be a string of 1 to {chars_max} characters'
        if name != "lockToken" and any(each == "\ufffd" or unicodedata.category(each) in ("Cc", "Cs") for each in value):
            return f'"{name}" must have no control characters'
    if not _is_headers(fields.get("headers", {})):
        return '"headers" must be names and values of HTTP fields'
    if len(json_bytes(fields.get("body"))) > limits.record_body_bytes_max:
        return f'"body" must not be longer than {limits.record_body_bytes_max} bytes of JSON'
    return None


def _is_headers(value: object) -> bool:
    return isinstance(value, dict) and all(
        _HEADER_NAME.fullmatch(name) and isinstance(text, str) and _HEADER_VALUE.fullmatch(text)
        for name, text in value.items()
    )
