"""Header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07)."""

from __future__ import annotations

import re
from typing import Literal

_KEY_CHARS_MAX = 200
_TEXT = r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"'
_BARE_ITEM = "|".join(
    [
        r"-?[0-9]{1,12}\.[0-9]{1,3}",
        r"-?[0-9]{1,15}",
        _TEXT.replace("((?:", "(?:(?:"),
        r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*",
        r":[A-Za-z0-9+/=]*:",
        r"\?[01]",
        r"@-?[0-9]{1,15}",
        r'%"(?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*"',
    ]
)
# An item of RFC 9651 whose value is a string. Parameters are allowed and ignored.
_QUOTED = re.compile(rf" *{_TEXT}(?:; *[a-z*][a-z0-9_.*-]*(?:=(?:{_BARE_ITEM}))?)* *")
# Visible ASCII without the characters that would begin or end an item.
_UNQUOTED = re.compile(r" *([!#-+\--:<-\[\]-~]+) *")


class MalformedKey(Exception):
    """The header is malformed: `missing` or `malformed`."""

    def __init__(self, kind: Literal["missing", "malformed"]) -> None:
        super().__init__(kind)
        self.kind: Literal["missing", "malformed"] = kind


def parse_key_header(values: list[str], accept_unquoted: bool = False) -> str:
    """Returns the key: a structured-field string (RFC 9651) of 1 to 200 characters, or with `accept_unquoted` also the bare text. Raises
    `MalformedKey`, also for a header that was sent twice."""
    if not values:
        raise MalformedKey("missing")
    value = ", ".join(values)
    match = _QUOTED.fullmatch(value) or (_UNQUOTED.fullmatch(value) if accept_unquoted else None)
    key = re.sub(r'\\(["\\])', r"\1", match[1]) if match else ""
    if not 1 <= len(key) <= _KEY_CHARS_MAX:
        raise MalformedKey("malformed")
    return key
