"""JSON text of which fingerprints are made, the same as that of the library for TypeScript."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping


def canonical_json(value: object) -> bytes:
    """Returns JSON with sorted members and with numbers as JavaScript writes them, as in RFC 8785. Whole numbers beyond 2^53 keep their
    digits. Raises `TypeError` or `ValueError` for a value that is not JSON."""
    return _text_of(value).encode()


def _text_of(value: object) -> str:
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        # UTF-8 has no lone surrogates.
        return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
    if isinstance(value, float):
        return _number_text(value)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_text_of(each) for each in value)}]"
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("Latchkey: the names of a JSON object are texts")
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return f"{{{','.join(f'{_text_of(name)}:{_text_of(value[name])}' for name in names)}}}"
    return json.dumps(value)


def _number_text(number: float) -> str:
    """Returns the text of ECMA-262, Number::toString: the digits of Python, with an exponent below 1e-6 and from 1e21 on."""
    if not math.isfinite(number):
        raise ValueError("Latchkey: infinite numbers and NaN are not JSON")
    mantissa, _, exponent = repr(number).lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    all_digits = whole + fraction
    digits = all_digits.lstrip("0").rstrip("0")
    if digits == "":
        return "0"
    sign = "-" if number < 0 else ""
    # The number is 0.DIGITS times ten to the power of `point`.
    point = len(whole) + int(exponent or 0) - (len(all_digits) - len(all_digits.lstrip("0")))
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"
