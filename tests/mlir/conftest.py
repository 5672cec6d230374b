"""The MLIR tools of released compilers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from triage.compilers.iree.adapter import Iree
from triage.execution.mlir_tools import Reader
from triage.toolchains.home import Home
from triage.toolchains.registry import ToolchainRegistry

Readers = Callable[[str], Reader]


@pytest.fixture
def readers(shared_home: Path) -> Iterator[Readers]:
    """A reader of a release, by its version; each is made once."""
    made: dict[str, Reader] = {}
    registry = ToolchainRegistry(Home(shared_home), {"iree": Iree()})

    def of(version: str) -> Reader:
        if version not in made:
            tools = Iree().mlir_tools(
                registry.obtain(registry.resolve(version, "iree"))
            )
            assert tools
            made[version] = Reader(tools, threading.Event())
        return made[version]

    yield of
    for reader in made.values():
        reader.close()
