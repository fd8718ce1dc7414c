"""Test kit: a service in memory, and signed sample events."""

from .server import Failure, Operation, State, TestServer
from .signed_event import SignedEvent, signed_event

__all__ = ["Failure", "Operation", "SignedEvent", "State", "TestServer", "signed_event"]
