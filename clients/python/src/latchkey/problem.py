"""Errors of the middleware as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import json
import math
from typing import Literal

from .stored_response import CapturedResponse

ProblemCode = Literal[
    "idempotency_key_missing",
    "idempotency_key_malformed",
    "idempotency_request_too_large",
    "idempotency_key_reused",
    "idempotency_key_in_use",
    "idempotency_outcome_unknown",
    "idempotency_response_not_kept",
    "idempotency_unavailable",
]

_PROBLEMS: dict[ProblemCode, tuple[int, str, str]] = {
    "idempotency_key_missing": (400, "Idempotency-Key is missing", "Send a new key for each operation."),
    "idempotency_key_malformed": (
        400,
        "Idempotency-Key is malformed",
        "Send one structured-field string (RFC 9651) of 1 to 200 characters, such as"
        ' "8e03978e-40d5-43e8-bc93-6894a57f9324" with its quotation marks.',
    ),
    "idempotency_request_too_large": (413, "Request is too large", "The body is too large for this operation."),
    "idempotency_key_reused": (
        422,
        "Idempotency-Key was used for another request",
        "Send a new key for a new request, or repeat the first request unchanged.",
    ),
    "idempotency_key_in_use": (
        409,
        "A request with this Idempotency-Key is being processed",
        "Repeat the request later to get its response.",
    ),
    "idempotency_outcome_unknown": (
        409,
        "The outcome of an earlier request with this Idempotency-Key is unknown",
        "An earlier attempt ended without a response, and may have taken effect. Find out whether it did before you send a new key.",
    ),
    "idempotency_response_not_kept": (
        409,
        "The response to this Idempotency-Key was not kept",
        "The request was processed, but its response was too large to keep. It is not processed again.",
    ),
    "idempotency_unavailable": (
        503,
        "Idempotency cannot be guaranteed now",
        "The request was not processed. Repeat it later with the same key.",
    ),
}


def problem(code: ProblemCode, detail: str = "", retry_after_ms: int | None = None) -> CapturedResponse:
    """Returns the response of an error."""
    status, title, advice = _PROBLEMS[code]
    body = {
        "type": f"https://latchkey.dev/problems/{code.replace('_', '-')}",
        "title": title,
        "status": status,
        "detail": f"{advice} {detail}".strip(),
        "code": code,
    }
    headers = {"content-type": "application/problem+json"}
    if retry_after_ms is not None:
        headers["retry-after"] = str(max(1, math.ceil(retry_after_ms / 1000)))
    return CapturedResponse(status, headers, json.dumps(body, separators=(",", ":")).encode())
