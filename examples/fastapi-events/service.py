"""A service that counts each event once, and refunds each order once."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from latchkey import AsyncLatchkey
from latchkey.asgi import IdempotencyMiddleware
from latchkey.webhooks import Context, Event, Receiver

URL = os.environ.get("LATCHKEY_URL", "http://127.0.0.1:8080")
API_KEY = os.environ.get("LATCHKEY_API_KEY", "lk_events_00000000000000000000000000")
SECRET = os.environ.get("LATCHKEY_SIGNING_SECRET", "whsec_ZXZlbnRzLXNpZ25pbmctc2VjcmV0LW5vdC1yZWFsLTA=")

latchkey = AsyncLatchkey(URL, API_KEY)


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    yield
    await latchkey.aclose()


class Refund(BaseModel):
    order: str
    amount: int


api = FastAPI()
refunds: list[Refund] = []
events: list[str] = []


def user_of(scope: Any) -> str:
    """Stands in for your authentication: returns the user. A real app must not trust a header."""
    return dict(scope["headers"]).get(b"x-user", b"").decode()


async def count(event: Event, _context: Context) -> None:
    events.append(event["type"])
    print("event", event["type"], flush=True)


api.add_middleware(IdempotencyMiddleware, latchkey=latchkey, principal=user_of)


@api.post("/refunds", status_code=201)
async def refund(given: Refund) -> dict[str, Any]:
    refunds.append(given)
    return {"refund": len(refunds), "order": given.order}


@api.get("/")
async def state() -> dict[str, int]:
    return {"refunds": len(refunds), "events": len(events)}


# Deliveries have no Idempotency-Key, so the receiver is outside the app that the middleware guards.
receiver = Receiver(count, secrets=[SECRET], latchkey=latchkey)
app = Starlette(routes=[Route("/webhooks", receiver), Mount("/", api)], lifespan=lifespan)
