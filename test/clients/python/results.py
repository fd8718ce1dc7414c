"""Results of generated calls."""

import os
from typing import Any, TypeVar

T = TypeVar("T")


def environment(name: str) -> str:
    """Returns an environment variable, which must be set."""
    return os.environ[name]


def data_of(response: Any, kind: type[T]) -> T:
    """Returns the parsed result of a call; fails unless it is of this generated class."""
    assert isinstance(response.parsed, kind), (response.status_code, response.content)
    return response.parsed
