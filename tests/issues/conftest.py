from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.issues.loopback_issues import LoopbackIssues, loopback_issues


@pytest.fixture
def hub() -> Iterator[LoopbackIssues]:
    with loopback_issues() as server:
        yield server
