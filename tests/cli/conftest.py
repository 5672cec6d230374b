"""What tests of commands share: JSON answers, and an end to those that hang."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import Triage

Asked = Callable[..., Any]
SECONDS = 30  # more than any of the commands takes


class Hangs(BaseException):
    """The command takes too long."""


@pytest.fixture
def in_time() -> Iterator[None]:
    """Stop a command that hangs."""

    def stop(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def asked(triage: Triage) -> Asked:
    """Runs a command that ends with a code, and returns its JSON."""

    def call(*words: object, code: int = 0, **options: Any) -> Any:
        done = triage(*words, "--format", "json", **options)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    return call
