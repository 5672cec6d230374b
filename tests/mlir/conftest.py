"""The MLIR tools of released compilers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import pytest

from triage.compilers.iree.adapter import Iree
from triage.execution.mlir_tools import Reader
from triage.toolchains.home import Home, Workspace
from triage.toolchains.registry import ToolchainRegistry

Readers = Callable[[str], Reader]


@pytest.fixture
def readers(shared_home: Path) -> Iterator[Readers]:
    """A reader of a release, by its version; each is made once."""
    registry = ToolchainRegistry(Workspace(Home(shared_home)), {"iree": Iree()})
    with ExitStack() as stack:

        @cache
        def of(version: str) -> Reader:
            release = registry.obtain(registry.resolve(version, "iree"))
            tools = Iree().mlir_tools(release)
            assert tools
            return stack.enter_context(closing(Reader(tools, threading.Event())))

        yield of
