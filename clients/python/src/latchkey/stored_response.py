"""Responses as records."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .api import SavedRecord
from .service import json_bytes

_BODY_HEADER = "latchkey-body"
"""Header of a record that says how its body is kept: `text`, `base64` or `omitted`."""
# `content-encoding` belongs to the bytes of the body.
_KEPT = ("content-type", "content-encoding", "content-language", "cache-control", "etag", "link", "location")


@dataclass(frozen=True)
class CapturedResponse:
    """Response of a handler, or one that is replayed."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case. Never has `set-cookie`."""
    body: bytes | None
    """None if the body was too large to keep."""


def kept_header_names(more: Iterable[str]) -> frozenset[str]:
    """Returns the names of all headers to keep. Raises `ValueError` for `set-cookie`, which belongs to one client."""
    names = frozenset([*_KEPT, *(name.lower() for name in more)])
    if "set-cookie" in names:
        raise ValueError("Latchkey: `headers_kept` must not contain set-cookie")
    return names


def keep_headers(headers: Iterable[tuple[str, str]], names: frozenset[str]) -> dict[str, str]:
    """Returns the headers of these names. Values of a repeated header are joined."""
    kept: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if key in names:
            kept[key] = f"{kept[key]}, {value}" if key in kept else value
    return kept


def to_record(response: CapturedResponse) -> SavedRecord:
    """Returns the record of a response. A body that is not UTF-8, or would be longer as JSON, is kept as base64."""
    how, text = _stored_body(response.body)
    return {"status": response.status, "headers": {**response.headers, _BODY_HEADER: how}, "body": text}


def without_body(record: SavedRecord) -> SavedRecord:
    """Returns the record that says only that the body is not kept."""
    return {**record, "headers": {**record["headers"], _BODY_HEADER: "omitted"}, "body": ""}


def _stored_body(body: bytes | None) -> tuple[str, str]:
    if body is None:
        return "omitted", ""
    in_base64 = base64.b64encode(body).decode()
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "base64", in_base64
    return ("text", text) if len(json_bytes(text)) <= len(in_base64) + 2 else ("base64", in_base64)


def from_record(record: SavedRecord, names: frozenset[str]) -> CapturedResponse:
    """Returns the response of a record. A record that another program saved is replayed as JSON."""
    status, body = record["status"], record["body"]
    kept = keep_headers(record["headers"].items(), names)
    how = {name.lower(): value for name, value in record["headers"].items()}.get(_BODY_HEADER)
    if isinstance(body, str) and how is not None:
        if how == "omitted":
            return CapturedResponse(status, kept, None)
        return CapturedResponse(status, kept, base64.b64decode(body) if how == "base64" else body.encode())
    if status in (204, 205, 304):
        return CapturedResponse(status, kept, b"")
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return CapturedResponse(status, {"content-type": "application/json", **kept}, text.encode(errors="replace"))
