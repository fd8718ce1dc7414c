from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from support import Client, Kind, Network, new_key


class OpenClient(Protocol):
    def __call__(self, network: Network | None = None, **options: Any) -> Client: ...


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def open_client(kind: Kind) -> Iterator[OpenClient]:
    opened: list[Client] = []

    def open_one(network: Network | None = None, **options: Any) -> Client:
        client = Client(kind, network, **options)
        opened.append(client)
        return client

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def client(open_client: OpenClient) -> Client:
    return open_client()


@pytest.fixture
def key() -> str:
    return new_key()
